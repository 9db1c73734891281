// What happens, for pages that listen: one line of events for all of them, each with a number, so
// that a page whose connection broke goes on where it was.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <mutex>
#include <string>

#include "engine/base/json.h"

namespace sluice::web {

class Events {
 public:
  void send(const std::string& kind, const Json& data);
  // The events after `seen` as text/event-stream, or a comment after ten seconds without any.
  // "" once closed. Where too much was missed, one event "reload".
  std::string wait(std::uint64_t& seen);
  std::uint64_t last() const;
  void close();

  // Pages that listen.
  struct Listener {
    explicit Listener(Events& events);
    ~Listener();
    Events& of;
    std::uint64_t seen;
  };
  bool heard() const;

 private:
  struct Event {
    std::uint64_t id;
    std::string text;
  };
  static constexpr std::size_t kept = 1024;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Event> events_;
  std::uint64_t last_ = 0;
  int listeners_ = 0;
  bool closed_ = false;
};

}  // namespace sluice::web
