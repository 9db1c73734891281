// A node: open once, process every firing, flush at each epoch's end, save and load its state.
// Firing is the node's only view of the run: what came in, what goes out, its own random draws.
//
// Invariants that the scheduler keeps, so that nodes need no locks or clocks:
//  - a node declared ordered() sees one firing at a time, in stamp order, and flush() after the
//    epoch's last firing and before the next epoch's first; other nodes may see several at once
//    and must keep no state between firings (flush is not called for them);
//  - what came in is immutable and shared: copy the Sample (cheap), replace its fields, emit it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "engine/base/random.h"
#include "engine/base/stamp.h"
#include "engine/graph/spec.h"
#include "engine/group/shards.h"

namespace sluice {

class Sample;        // engine/state/sample.h; the scheduler never looks inside
class Resources;     // engine/state/resource.h
class FileOwners;    // engine/base/file_owners.h
struct Ranks;        // engine/group/ranks.h
class Stream;        // engine/run/device.h
class TensorDevice;  // engine/state/tensor_device.h
struct State;        // engine/state/checkpoint.h: named tensors and values
using SamplePtr = std::shared_ptr<const Sample>;

// Defined once beside Sample (and by tests that bring a Sample of their own).
std::string sample_name(const Sample& sample);   // for messages: "hippocampus_001"
std::size_t sample_bytes(const Sample& sample);  // what its tensors hold
std::string sample_file(const Sample& sample);   // the first file it was read from; "" for none

// What stands before a cache (or a node that chooses items), so that it can tell whether an item
// would become the same sample as in another run. Its functions answer once all nodes are open.
struct Upstream {
  std::string lineage;                                  // plan/lineage.h
  std::vector<std::string> files;                       // parameters there that may name files
  std::vector<std::string> networks;                    // those that its nodes read
  std::function<SamplePtr(std::uint64_t)> record;       // its source's item_record
  std::function<std::optional<std::uint64_t>()> items;  // in the source's list
};

// What a node may know when the run begins.
struct OpenContext {
  std::string node;  // its path in the graph: "pre/load"
  std::uint64_t seed = 0;
  std::uint32_t epochs = 1;      // run.epochs
  std::shared_ptr<Ranks> ranks;  // null: one process, whose steps are not sharded
  Division division;             // of its stream
  int step_threads = 1;
  bool training = false;            // its stream feeds an updater of the network it reads
  Leaves leaves = Leaves::nothing;  // whether its work is left to the next node (plan.h's runs)
  bool fuse = true;                 // run.fuse: transforms inside of a node are done together too
  bool lazy = false;                // run.lazy: resamplings that meet become one
  bool narrow = false;              // a cache whose readers all widen narrow volumes themselves
  std::vector<std::string> stays;   // to_device: fields that it leaves on the host
  std::filesystem::path out_dir;    // the run's folder; empty where none is kept
  bool resumed = false;             // goes on in the folder of an earlier process
  std::uint64_t steps_done = 0;     // updates before this process: those of the checkpoint
  std::shared_ptr<Resources> resources;
  std::shared_ptr<FileOwners> owners;         // of files that nodes write; null: nobody asks
  std::shared_ptr<TensorDevice> device;       // null: there is none
  Upstream upstream;                          // caches, and what chooses items
  std::optional<std::uint64_t> cache_budget;  // bytes: of a device's cache that has none of its own
};

// Reads a Sample's item from a memory, disk or device store. Thread-safe.
class CacheStore {
 public:
  struct Entry {
    SamplePtr sample;  // null: the item was skipped before the cache, and is again
    std::string skip_reason;
  };
  // What it holds and did, for profiles. A miss that was not put is "refused" where a budget was
  // in the way.
  struct Held {
    std::uint64_t entries = 0, bytes = 0;
    std::uint64_t hits = 0, misses = 0, refused = 0, damaged = 0;
  };
  virtual ~CacheStore() = default;
  virtual std::optional<Entry> find(std::uint64_t item) = 0;
  virtual void put(std::uint64_t item, Entry entry) = 0;
  // The entry as it is to be kept. Called by the body's thread, so that work on a device is queued
  // where the sample was made; put() follows when it is done.
  virtual Entry prepare(Entry entry) { return entry; }
  virtual Held held() const { return {}; }
  // Whether find() may read files.
  virtual bool reads() const { return false; }
};

// One firing of one node. Made by the scheduler, lives as long as process() runs.
class Firing {
 public:
  struct Out {
    int port;
    SamplePtr sample;
    std::uint64_t item;
  };

  Firing() = default;
  Firing(const Stamp& stamp, std::uint64_t key, std::vector<std::vector<SamplePtr>> inputs,
         const std::function<bool()>& stopped)
      : stamp_(stamp), key_(key), inputs_(std::move(inputs)), stopped_(&stopped) {}

  const Stamp& stamp() const { return stamp_; }

  // The sample at an in-port; null only at an optional port that nothing is connected to.
  const SamplePtr& ptr(int port = 0) const { return inputs_[port].front(); }
  const Sample& in(int port = 0) const { return *ptr(port); }
  bool connected(int port) const { return !inputs_[port].empty() && inputs_[port].front(); }
  // The members of a gather node's group, in stamp order.
  std::span<const SamplePtr> members(int port = 0) const { return inputs_[port]; }
  std::size_t ports() const { return inputs_.size(); }
  // How many samples came in at the first port: a batch's members.
  std::int64_t weight() const { return weight_; }
  // An updater whose steps are sharded fires for empty shards, and those of other processes, too.
  bool is_hole() const { return !ptr(); }

  // Sends a sample on. one_to_one and gather: at most once a port. expand: once a child.
  template <class S>
  void emit(S&& sample, int port = 0) {
    emit_ptr(std::make_shared<const std::decay_t<S>>(std::forward<S>(sample)), port);
  }
  void emit_ptr(SamplePtr sample, int port = 0, std::uint64_t item = 0) {
    outs_.push_back({port, std::move(sample), item});
  }
  // expand with one out-port: emits `n` samples, the i-th as make(i) gives it. It is called in
  // order, behind process() and on any thread, as the next gates (a batch, a buffer) take what was
  // made before: a list of millions is never in memory, nor what is made of it. It must not refer
  // to what ends with process().
  template <class Make>  // SamplePtr(std::size_t)
  void emit_each(std::size_t n, Make make) {
    rest_ = {0, n, std::move(make)};
  }

  // Says why nothing is emitted on a port; "filtered" where nothing is said. Counted by reason.
  void skip(std::string reason) { skip_reason_ = std::move(reason); }

  // A source: the record of list item `item`, the same number whenever it is the same data
  // (caches know it by that), or that the epoch has no further sample.
  template <class S>
  void emit_item(std::uint64_t item, S&& sample) {
    emit_ptr(std::make_shared<const std::decay_t<S>>(std::forward<S>(sample)), 0, item);
  }
  // The same where the record takes work: it is not made for an item that a cache in memory has.
  template <class Make>  // SamplePtr()
  void make_item(std::uint64_t item, const Make& make) {
    SamplePtr kept = kept_ ? (*kept_)(item) : nullptr;
    spared_ = kept != nullptr;
    emit_ptr(kept ? std::move(kept) : make(), 0, item);
  }
  void end_epoch() { end_epoch_ = true; }

  // The draws of this firing: the same whenever seed, node path and stamp are the same.
  Random random() const { return Random(key_, stamp_); }
  // The draws of an epoch as a whole (the order of a shuffled source).
  std::uint64_t epoch_key() const { return mix(key_ ^ mix(stamp_.epoch + 0x5eedull)); }

  // A body longer than 0.2 s asks this now and then and returns where it is true.
  bool stopped() const { return (*stopped_)(); }

  // A value to log beside the run's metrics, for example {"loss", 0.3}.
  void log(std::string name, double value) { logs_.emplace_back(std::move(name), value); }
  // A value that the device may still be computing: read when it is done, in stamp order, and
  // before the epoch is flushed; where there is no device, at once.
  void log_later(std::string name, std::function<double()> read) {
    when_done([this, name = std::move(name), read = std::move(read)] { log(name, read()); });
  }

  // What needs the device's results: called when it is done, in stamp order and before the epoch is
  // flushed, and never while another such call of the node runs; it may log. What it throws ends
  // the run. Where there is no device, at once.
  void when_done(std::function<void()> look) {
    if (!stream_) return look();
    later_.push_back(std::move(look));
  }

  // Where the body's work on the device is queued; null on a lane of the host.
  Stream* stream() const { return stream_; }

  // For the scheduler, which uses one object for many firings: what it holds is let go of, the
  // memory of its lists is not.
  void begin(const Stamp& stamp, std::uint64_t key, const std::function<bool()>& stopped) {
    stamp_ = stamp;
    key_ = key;
    stopped_ = &stopped;
  }
  // Of emit_each: the next ones, at most so many.
  void emit_some(std::size_t most) {
    for (; most > 0 && rest_.next < rest_.n; --most) emit_ptr(rest_.make(rest_.next++));
  }
  void emit_rest() { emit_some(rest_.n); }
  bool has_rest() const { return rest_.next < rest_.n; }
  void drop_rest() { rest_ = {}; }
  // `kept`: what a cache has of an item, where nobody else would read its record.
  void ask(const std::function<SamplePtr(std::uint64_t)>* kept) { kept_ = kept; }
  bool spared() const { return spared_; }
  void on(Stream* stream) { stream_ = stream; }
  void weigh(std::int64_t samples) { weight_ = samples; }
  void clear() {
    for (auto& port : inputs_) port.clear();
    outs_.clear();
    skip_reason_.clear();
    logs_.clear();
    later_.clear();
    drop_rest();
    kept_ = nullptr;
    end_epoch_ = spared_ = false;
  }
  // What was emitted becomes the input at one of the next node's ports.
  void pass_on(std::size_t ports, int port) {
    SamplePtr sample = std::move(outs_.front().sample);
    outs_.clear();
    if (!logs_.empty()) logs_.clear();
    if (!skip_reason_.empty()) skip_reason_.clear();
    if (ports != 1 || inputs_.size() != 1) inputs_.assign(ports, {nullptr});
    inputs_[static_cast<std::size_t>(port)].front() = std::move(sample);
  }
  std::vector<std::vector<SamplePtr>>& inputs() { return inputs_; }
  std::vector<Out>& outs() { return outs_; }
  const std::string& skip_reason() const { return skip_reason_; }
  bool epoch_ended() const { return end_epoch_; }
  std::vector<std::pair<std::string, double>>& logs() { return logs_; }
  std::vector<std::function<void()>>& later() { return later_; }

 private:
  Stamp stamp_;
  std::uint64_t key_ = 0;
  std::vector<std::vector<SamplePtr>> inputs_;
  const std::function<bool()>* stopped_ = nullptr;
  const std::function<SamplePtr(std::uint64_t)>* kept_ = nullptr;
  std::vector<Out> outs_;
  struct Rest {
    std::size_t next = 0, n = 0;
    std::function<SamplePtr(std::size_t)> make;
  } rest_;
  std::string skip_reason_;
  std::vector<std::pair<std::string, double>> logs_;
  std::vector<std::function<void()>> later_;
  Stream* stream_ = nullptr;
  std::int64_t weight_ = 1;
  bool end_epoch_ = false;
  bool spared_ = false;  // its item was not made
};

// The end of an epoch, given to ordered nodes. Not called for an epoch that was cut short.
struct Flush {
  std::uint32_t epoch = 0;
  std::vector<std::pair<std::string, double>> metrics;  // the run's metrics: node.name = value
  void metric(std::string name, double value) { metrics.emplace_back(std::move(name), value); }
};

// A value of the run as it becomes known: logged by a firing, or measured at an epoch's end.
struct Observation {
  std::string name;  // "step.loss", "val_dice.mean"
  double value = 0;
  std::uint64_t step = 0;   // updates so far
  std::uint32_t epoch = 0;  // the training epoch (a log: the stream's own)
  bool of_epoch = false;    // measured at the epoch's end
};

class Node {
 public:
  virtual ~Node() = default;
  virtual void open(const OpenContext&) {}
  virtual void process(Firing& firing) = 0;
  virtual void flush(Flush&) {}
  // Whether a device may record what process() queues, and repeat it (recorded_step.h): a key of
  // all that the work depends on beside its inputs' shapes. nullopt: it is never the same.
  virtual std::optional<std::uint64_t> recordable(const Firing&) const { return std::nullopt; }
  // Instead of process() where a recording did the work: emits and logs what process() would. Of
  // `made`, what the recorded body emitted, tensors alone are this firing's.
  virtual void repeated(Firing&, const Sample& made) { (void)made; }
  // Every observation of the run, one at a time, from any thread; what it throws ends the run.
  virtual void observe(const Observation&) {}
  // State that must outlive the process: optimizer moments, a metric's sums.
  virtual void save(State&) const {}
  virtual void load(const State&) {}
  // Adds what another process saved of the same epoch (Spec::merges).
  virtual void merge(const State&) {}
  // A cache node's store; null for all others.
  virtual CacheStore* store() { return nullptr; }
  // A source: what it emits for an item, in any epoch; null where it cannot say. Thread-safe.
  virtual SamplePtr item_record(std::uint64_t) const { return nullptr; }
  // Which of the source's `listed` items its stream has in an epoch, in order; nullopt: all, as the
  // source has it. Asked as the source begins the epoch.
  virtual std::optional<std::vector<std::uint64_t>> epoch_items(std::uint32_t, std::uint64_t) {
    return std::nullopt;
  }
  // A shuffle node never fires; a source may say how many samples an epoch has.
  virtual std::optional<std::uint64_t> epoch_size() const { return std::nullopt; }
  // A source: how many items item_record knows. An epoch has more or fewer where a node chooses.
  virtual std::optional<std::uint64_t> item_count() const { return epoch_size(); }
};

}  // namespace sluice
