#include "engine/session/hand_over.h"

#include "engine/base/error.h"
#include "engine/graph/spec.h"
#include "engine/run/held_credit.h"

namespace sluice {

class HandOver::Sink final : public Node {
 public:
  struct Params {
    std::int64_t prefetch = 2;
  };
  explicit Sink(HandOver& to) : to_(to) {}

  // What a resumed loop had taken already is made again, as the engine's own resume does.
  void process(Firing& f) override {
    const Stamp& stamp = f.stamp();
    if (stamp.epoch == to_.begin_.epoch && seen_ < to_.begin_.taken)
      ++seen_;
    else
      to_.put({held_credit, f.ptr(), stamp});
  }
  void flush(Flush& end) override {
    const auto& [epoch, taken] = to_.begin_;
    if (end.epoch == epoch && seen_ < taken && !to_.fewer_)
      throw Error(Exit::usage, "the state says that " + std::to_string(taken) +
                                   " were taken of epoch " + std::to_string(epoch) +
                                   ", which has only " + std::to_string(seen_));
    to_.put({nullptr, nullptr, Stamp::first(0, end.epoch, 0)});
  }

 private:
  HandOver& to_;
  std::uint64_t seen_ = 0;
};

const Spec& HandOver::spec() {
  static const Spec s = Spec("hand_over", "Hands samples to the program that opened the graph.")
                            .in("sample")
                            .param("prefetch", &Sink::Params::prefetch, "How many may wait.")
                            .at_least(1)
                            .gate("prefetch")
                            .ordered()
                            .passes()
                            .any_device();
  return s;
}

std::unique_ptr<Node> HandOver::make_node() { return std::make_unique<Sink>(*this); }

void HandOver::put(Item item) {
  std::lock_guard lock(mutex_);
  if (closed_) return;
  queue_.push_back(std::move(item));
  wake_.notify_one();
}

std::optional<HandOver::Item> HandOver::take(std::chrono::milliseconds wait) {
  std::unique_lock lock(mutex_);
  wake_.wait_for(lock, wait, [&] { return !queue_.empty() || over_; });
  if (queue_.empty()) return std::nullopt;
  Item item = std::move(queue_.front());
  queue_.pop_front();
  return item;
}

bool HandOver::over() const {
  std::lock_guard lock(mutex_);
  return over_ && queue_.empty();
}

void HandOver::finish() {
  std::lock_guard lock(mutex_);
  over_ = true;
  wake_.notify_all();
}

void HandOver::close() {
  std::deque<Item> dropped;  // outside the lock: a credit that goes home may fire the node
  std::lock_guard lock(mutex_);
  closed_ = true;
  dropped.swap(queue_);
}

void HandOver::loop_begins() {
  loop_since_ = now_ns();
  loop_.enter(loop_since_);
}

void HandOver::loop_ends() {
  if (loop_since_ == 0) return;
  const std::int64_t now = now_ns();
  loop_.leave(now);
  loop_.durations.add(now - loop_since_);
  loop_since_ = 0;
}

void HandOver::measure(Reading& node, std::int64_t began_ns) const {
  node.busy_ns = node.body_ns = loop_.busy_ns(node.at_ns);
  node.starved_ns = node.at_ns - began_ns - node.busy_ns;
  node.blocked_ns = 0;
  node.p50_ns = loop_.durations.quantile(0.5);
  node.p95_ns = loop_.durations.quantile(0.95);
  node.p99_ns = loop_.durations.quantile(0.99);
  node.running = loop_.running();
}

}  // namespace sluice
