// What a device has not done yet. A body on a device's lane only queues work, so what it read and
// made, and the credits of both, stay in its Job until the device is past the mark after it.
#include <algorithm>
#include <utility>

#include "engine/run/station.h"

namespace sluice {

// What other streams make is waited for by this lane's stream, not by its thread.
void Station::await_inputs(const Job& job) {
  scheduler_.guard(index_, job.stamp, [&] {
    for (const auto& input : job.inputs)
      for (const Packet& p : input)
        if (p.ready) stream_->wait(*p.ready);
  });
}

// What the body made outlives its work, whether or not it is sent on.
void Station::keep_made(Firing& firing) {
  for (const Firing::Out& out : firing.outs())
    if (out.sample) stream_->keep(out.sample);
}

// The mark after the body.
void Station::hold(Job& job) {
  job.kept = stream_->take_kept();
  scheduler_.guard(index_, job.stamp, [&] {
    if (job.entry) job.entry = store_->prepare(std::move(*job.entry));
    job.mark = stream_->mark();
  });
}

// Not under a lock: credits that bound what the host queues go home here.
void Station::retire(Job* job) {
  for (auto& input : job->inputs)
    for (Packet& p : input) p.credit = until_done(p.credit, stream_);
  scheduler_.when_done(index_, job->stamp, job->mark,
                       [this, job](std::int64_t done_ns) { retired(job, done_ns); });
}

// A stream does one thing after the other: it was at this job's work since that was queued, or
// since it was done with the one before. (Ends that only the host saw are late by a little.)
void Station::note_device(Job& job, std::int64_t done_ns) {
  thread_local std::int64_t was_done = 0;  // the thread waits for one stream
  const std::int64_t ns = done_ns - std::max(job.began, was_done);
  was_done = done_ns;
  counters.device_ns.fetch_add(ns, std::memory_order_relaxed);
  if (job.kind == Job::Kind::fire) note_time(job.firing, ns);
}

// On the thread that waits for the stream, so in the order in which the bodies ran.
void Station::retired(Job* job, std::int64_t done_ns) noexcept {
  note_device(*job, done_ns);
  if (!scheduler_.halted()) read_later(*job);
  if (!scheduler_.halted() && job->entry) remember(*job);
  Actions actions = fresh();
  {
    std::lock_guard lock(*mutex_);
    --retiring_;
    ++scheduler_.progress_;
    over(*job);
    pump(actions);
  }
  Job::recycle(job);
  perform(std::move(actions));
  if (scheduler_.pausing()) scheduler_.wake_gates();  // which wait for this
}

// The host must not see a sample that is not there yet, and no thread of its lanes may stand still
// for it: the packet arrives once the device is done with it.
void Station::deliver_when_done(int input, const Packet& packet) {
  ++awaiting_;
  Packet then = packet;
  const PointPtr mark = std::move(then.ready);
  scheduler_.when_done(index_, packet.stamp, mark,
                       [this, input, then = std::move(then)](std::int64_t) {
                         --awaiting_;
                         deliver(input, then);
                       });
}

}  // namespace sluice
