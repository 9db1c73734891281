#include "tools/web/events.h"

#include <chrono>

namespace sluice::web {

void Events::send(const std::string& kind, const Json& data) {
  const std::lock_guard lock(mutex_);
  ++last_;
  events_.push_back(
      {last_, "id: " + std::to_string(last_) + "\nevent: " + kind +
                  "\ndata: " + data.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n\n"});
  if (events_.size() > kept) events_.pop_front();
  changed_.notify_all();
}

std::string Events::wait(std::uint64_t& seen) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, std::chrono::seconds(10), [&] { return closed_ || last_ > seen; });
  if (closed_) return "";
  if (last_ == seen) return ": still here\n\n";
  std::string text;
  if (seen > last_ || events_.front().id > seen + 1)
    text = "id: " + std::to_string(last_) + "\nevent: reload\ndata: {}\n\n";
  else
    for (const Event& e : events_)
      if (e.id > seen) text += e.text;
  seen = last_;
  return text;
}

std::uint64_t Events::last() const {
  const std::lock_guard lock(mutex_);
  return last_;
}

void Events::close() {
  const std::lock_guard lock(mutex_);
  closed_ = true;
  changed_.notify_all();
}

Events::Listener::Listener(Events& events) : of(events), seen(events.last()) {
  const std::lock_guard lock(of.mutex_);
  ++of.listeners_;
}

Events::Listener::~Listener() {
  const std::lock_guard lock(of.mutex_);
  --of.listeners_;
}

bool Events::heard() const {
  const std::lock_guard lock(mutex_);
  return listeners_ > 0;
}

}  // namespace sluice::web
