#include "engine/session/loader.h"

#include <ATen/Parallel.h>
#include <omp.h>
#include <signal.h>

#include <algorithm>
#include <limits>

#include "engine/session/differences.h"

namespace sluice {

namespace {

// Threads made while it lives leave signals to those of the host, so no read of a file ends early.
class NoSignals {
 public:
  NoSignals() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before_);
  }
  ~NoSignals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  NoSignals(const NoSignals&) = delete;
  NoSignals& operator=(const NoSignals&) = delete;

 private:
  sigset_t before_;
};

// While it lives, LibTorch's work on this thread is done on it alone: a child of fork() has none of
// the threads that its parent's OpenMP keeps for it, and would wait for them for ever.
class OneThread {
 public:
  OneThread() : before_(at::get_num_threads()) { omp_set_num_threads(1); }
  ~OneThread() { omp_set_num_threads(before_); }
  OneThread(const OneThread&) = delete;
  OneThread& operator=(const OneThread&) = delete;

 private:
  const int before_;
};

// Where its samples count from: begun anew, or behind what the state says was taken.
Position begin_of(const Json& state) {
  if (state.is_null()) return {};
  const auto count = [&](const char* key, std::uint64_t most) {
    const Json given = state.is_object() ? state.value(key, Json()) : Json();
    if (!given.is_number_unsigned() || given.get<std::uint64_t>() > most)
      throw Error(Exit::usage, std::string("this is no state of a loader: \"") + key +
                                   "\" is no count: " + given.dump());
    return given.get<std::uint64_t>();
  };
  constexpr auto epochs = std::numeric_limits<std::uint32_t>::max();
  return {static_cast<std::uint32_t>(count("epoch", epochs)), count("batch", ~std::uint64_t{0})};
}

// The place behind the last epoch is that of a loop that took all.
void require_begun(const Position& at, std::int64_t epochs) {
  epochs = std::max<std::int64_t>(epochs, 1);
  if (at.epoch < epochs || (at.epoch == epochs && at.taken == 0)) return;
  throw Error(Exit::usage, "the state says that epoch " + std::to_string(at.epoch) +
                               " was begun, and the last one is epoch " +
                               std::to_string(epochs - 1) + ": run.epochs is " +
                               std::to_string(epochs));
}

void require_same_settings(const Json& before, const Json& now) {
  std::string list;
  const auto text = [](const Json& all, const std::string& path) {
    return all.contains(path) ? all[path].dump() : std::string("not there");
  };
  const auto add = [&](const std::string& path) {
    if (text(before, path) != text(now, path))
      list += "\n  " + path + ": " + text(before, path) + " -> " + text(now, path);
  };
  for (const auto& [path, value] : before.items()) add(path);
  for (const auto& [path, value] : now.items())
    if (!before.contains(path)) add(path);
  if (!list.empty())
    throw Error(Exit::usage,
                "the state's place in the data means nothing with these settings:" + list);
}

// The tensor, or a copy where its memory is somebody else's too: a cache's, or another field's.
at::Tensor own(const at::Tensor& t, bool share) {
  const bool alone = t.use_count() == 1 && t.storage().use_count() == 1;
  return share || alone ? t : t.clone();
}

}  // namespace

Loader::Loader(LoaderOptions options) : options_(std::move(options)) {
  at_ = begin_of(options_.state);
  hand_over_ = std::make_shared<HandOver>(at_, options_.force);
  Options run = options_.run;
  run.quiet = true;
  run.guest = Guest{options_.node, options_.prefetch, hand_over_};
  const NoSignals no_signals;
  const OneThread one_thread;
  session_ = Session::open(run);
  if (options_.state.is_null() || options_.force) return;
  require_begun(at_, session_->plan().graph->run.epochs);
  require_same_settings(options_.state.value("settings", Json::object()), settings());
}

Loader::~Loader() {
  hand_over_->close();
  while (thread_.joinable() && !ended_) {
    session_->stop();  // has no effect before the run has begun
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  if (thread_.joinable()) thread_.join();
}

void Loader::start() {
  standstill_.restart();
  const NoSignals no_signals;
  thread_ = std::thread([this] {
    try {
      const Outcome outcome = session_->run();
      if (outcome.status == Outcome::Status::failed) throw LoaderError(outcome.failure);
      if (outcome.status == Outcome::Status::stalled)
        throw Error(Exit::stalled, "stalled; who waits for what:\n" + outcome.stall);
    } catch (...) {
      failure_ = std::current_exception();
    }
    hand_over_->finish();
    ended_ = true;
  });
}

// As the watchdog of a run, but only while the loop waits for a sample.
void Loader::judge_waiting() {
  const Scheduler* running = session_->running();
  const double most = session_->plan().graph->run.watchdog_s;
  if (!running) return standstill_.restart();
  if (most <= 0 || !standstill_.longer_than(most, running->progress())) return;
  throw Error(Exit::stalled, "no firing ended for " + std::to_string(static_cast<int>(most)) +
                                 " s\n" + running->stall_report());
}

Loader::Next Loader::next(std::chrono::milliseconds wait, Taken& to) {
  hand_over_->loop_ends();
  if (!thread_.joinable()) start();
  auto item = hand_over_->take(wait);
  if (!item) {
    if (!hand_over_->over()) {
      judge_waiting();
      return Next::nothing_yet;
    }
    if (failure_) std::rethrow_exception(failure_);
    return Next::end;
  }
  standstill_.restart();
  if (!item->sample) {
    at_ = {item->stamp.epoch + 1, 0};
    return Next::epoch_end;
  }
  to = {item->sample->name, item->sample->members, item->stamp, {}};
  if (to.members.empty()) to.members = {to.name};
  for (const auto& [name, field] : item->sample->fields())
    to.fields.push_back({name, field.tensor, field.meta});
  item.reset();  // the sample, and then its credit
  const OneThread one_thread;
  for (Taken::Field& f : to.fields)
    if (f.tensor.defined()) f.tensor = own(f.tensor, options_.share);
  at_ = {to.stamp.epoch, at_.taken + 1};
  hand_over_->loop_begins();
  return Next::sample;
}

Json Loader::settings() const {
  Json all = data_settings(*session_->plan().graph);
  for (const auto& size : session_->epoch_sizes())
    if (size) all["items"] = *size;
  return all;
}

Json Loader::state() const {
  return {{"epoch", at_.epoch}, {"batch", at_.taken}, {"settings", settings()}};
}

Json Loader::profile() const { return session_->running() ? session_->profile(false) : Json(); }

}  // namespace sluice
