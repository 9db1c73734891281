// Where a run hands its samples to a program that it is a guest of, such as a training loop in
// Python: the node at the end of the cut graph, and the queue between its firings and the thread
// that takes.
//
//   ... --> [batch] --> [your loop]  a gate of `prefetch` credits --> queue --> take()
//
// A credit goes home when its sample is taken, so no more than `prefetch` are ever ready, and no
// thread waits. Nothing is handed over twice, out of order, or after close().
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>

#include "engine/run/node.h"
#include "engine/trace/trace.h"

namespace sluice {

// A place in the samples of a run: so many of this epoch were taken.
struct Position {
  std::uint32_t epoch = 0;
  std::uint64_t taken = 0;
};

class HandOver {
 public:
  struct Item {
    std::shared_ptr<const void> credit;  // declared first, so that it goes home last
    SamplePtr sample;                    // null: the epoch's end
    Stamp stamp;
  };

  // `fewer`: whether the first epoch may hold fewer samples than were taken of it.
  HandOver(Position begin, bool fewer) : begin_(begin), fewer_(fewer) {}

  static const Spec& spec();
  static constexpr const char* name = "your loop";  // of the node
  std::unique_ptr<Node> make_node();

  // For the thread that takes. Nullopt after `wait`, and when nothing will come any more.
  std::optional<Item> take(std::chrono::milliseconds wait);
  bool over() const;  // and everything was taken
  void finish();      // the run has ended
  void close();       // nobody takes any more
  const Position& begin() const { return begin_; }

  // What the loop does with what it took is the node's work in figures and the verdict.
  void loop_begins();
  void loop_ends();
  void measure(Reading& node, std::int64_t began_ns) const;

 private:
  class Sink;
  void put(Item item);

  const Position begin_;
  const bool fewer_;
  mutable std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<Item> queue_;
  bool over_ = false, closed_ = false;
  Counters loop_;
  std::int64_t loop_since_ = 0;
};

}  // namespace sluice
