#include "engine/trace/trace_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string_view>
#include <utility>

#include "engine/base/error.h"
#include "engine/base/protobuf.h"
#include "engine/base/random.h"
#include "engine/base/warnings.h"

namespace sluice {

using protobuf::Writer;

namespace {

// Track ids: any numbers that differ.
constexpr std::uint64_t process_track = 1, memory_track = 2, first_thread = 1000,
                        first_queue = 1'000'000;
enum Type { begin = 1, end = 2, instant = 3, counter = 4 };  // TrackEvent.Type
enum Annotation { epoch_name = 1, index_name, child_name, sample_text, in_text };

Writer track(std::uint64_t id, const std::string& name) {
  Writer w;
  w.number(1, id).bytes(2, name);
  return w;
}

std::string rank_of(const TraceOrigin& origin) { return "rank " + std::to_string(origin.rank); }

// Names are known to the packets of one sequence.
std::uint64_t sequence(const TraceOrigin& origin) {
  return 1 + static_cast<std::uint64_t>(std::max(origin.rank, 0));
}

Writer event_of(Type type, std::uint64_t track_id) {
  Writer w;
  w.number(9, type).number(11, track_id);
  return w;
}

void annotate(Writer& event, Annotation name, std::uint64_t value) {
  Writer w;
  w.number(1, name).number(3, value);
  event.message(4, w);
}

Writer interned(std::uint64_t id, const std::string& name) {
  Writer w;
  w.number(1, id).bytes(2, name);
  return w;
}

}  // namespace

// ---- the encoder --------------------------------------------------------------------------------

TraceEncoder::TraceEncoder(const Plan& plan, const TraceOrigin& origin)
    : plan_(plan),
      origin_(origin),
      root_in_(plan.nodes.size(), -1),
      root_out_(plan.nodes.size(), -1),
      queue_(plan.nodes.size(), ~std::uint64_t{0}) {
  for (int i : plan.order) {
    const auto n = static_cast<std::size_t>(i);
    const PlanNode& node = plan.nodes[n];
    if (!node.inputs.empty())
      root_in_[n] = root_out_[static_cast<std::size_t>(node.inputs.front().from)];
    const Arity arity = node.spec->arity;
    const bool counts = arity == Arity::source || arity == Arity::gather || arity == Arity::shuffle;
    root_out_[n] = counts ? i : root_in_[n];
  }
  Writer names;
  for (std::size_t i = 0; i < plan.nodes.size(); ++i)
    names.message(2, interned(i + 1, plan.nodes[i].path()));
  const char* annotations[] = {"epoch", "index", "child", "sample", "in"};
  for (std::uint64_t i = 0; i < std::size(annotations); ++i)
    names.message(3, interned(i + 1, annotations[i]));
  Writer first;  // the names, and from here on they are known
  first.number(10, sequence(origin_)).message(12, names).number(13, 1);
  out_ += Writer().message(1, first).text;
  Writer process = track(id(process_track), "sluice " + plan.graph->name +
                                                (origin_.rank < 0 ? "" : ", " + rank_of(origin_)));
  process.message(3, Writer().number(1, static_cast<std::uint64_t>(getpid())));
  packet(0, process.text, 60);
  Writer memory = track(id(memory_track), "resident memory");
  memory.number(5, id(process_track)).message(8, Writer().number(3, 3));  // bytes
  packet(0, memory.text, 60);
  for (std::size_t i = 0; i < plan.nodes.size(); ++i) {
    if (plan.nodes[i].is_source()) continue;
    Writer queue = track(id(first_queue + i), trace_queue + plan.nodes[i].path());
    queue.number(5, id(process_track)).message(8, Writer().number(3, 2));  // a count
    std::string inputs;  // the track's description: what the node reads, a line each
    for (const GraphInput& in : plan.nodes[i].inputs)
      inputs += (inputs.empty() ? "" : "\n") + plan.nodes[static_cast<std::size_t>(in.from)].path();
    queue.bytes(14, inputs);
    packet(0, queue.text, 60);
  }
}

void TraceEncoder::packet(std::int64_t time, const std::string& field, int number) {
  Writer w;
  if (time > 0) w.number(8, static_cast<std::uint64_t>(time + origin_.behind_ns));
  w.number(10, sequence(origin_)).number(13, 2).bytes(number, field);
  out_ += Writer().message(1, w).text;
}

std::uint64_t TraceEncoder::flow(int root, std::uint32_t epoch, std::uint64_t index) const {
  const std::uint64_t one = mix(mix((static_cast<std::uint64_t>(root) << 32 | epoch) + 1) + index);
  return origin_.rank > 0 ? mix(one + static_cast<std::uint64_t>(origin_.rank)) : one;
}

std::uint64_t TraceEncoder::id(std::uint64_t track) const {
  return origin_.rank > 0 ? static_cast<std::uint64_t>(origin_.rank) << 32 | track : track;
}

void TraceEncoder::thread(std::size_t ring, const std::string& thread_name, int tid) {
  const std::string name = origin_.rank < 0 ? thread_name : rank_of(origin_) + ", " + thread_name;
  Writer w = track(id(first_thread + ring), name);
  Writer thread;
  thread.number(1, static_cast<std::uint64_t>(getpid()))
      .number(2, static_cast<std::uint64_t>(tid))
      .bytes(5, name);
  w.message(4, thread);
  packet(0, w.text, 60);
}

void TraceEncoder::named(const EventRings::Named& n) {
  names_[flow(n.node, n.epoch, n.index)] = n.sample;
}

void TraceEncoder::event(std::size_t ring, const Event& e) {
  const auto node = static_cast<std::size_t>(e.node);
  if (links_.size() <= ring) links_.resize(ring + 1);
  if (e.kind == Event::Kind::link) {
    const auto from = flow(root_in_[node], e.from_epoch, e.from_index);
    if (plan_.nodes[node].spec->arity == Arity::gather) return links_[ring].push_back(from);
    Writer w = event_of(instant, id(first_thread + ring));  // a shuffle has no body
    w.number(10, node + 1).fixed64(47, flow(e.node, e.epoch, e.index)).fixed64(47, from);
    return packet(e.start, w.text, 11);
  }
  slice(ring, e);
}

void TraceEncoder::slice(std::size_t ring, const Event& e) {
  const auto node = static_cast<std::size_t>(e.node);
  const bool is_pass = e.kind == Event::Kind::pass;
  const Arity arity = plan_.nodes[node].spec->arity;
  const bool is_counter = arity == Arity::source || arity == Arity::gather;
  Writer w = event_of(begin, id(first_thread + ring));
  w.number(10, (is_pass ? static_cast<std::size_t>(e.owner) : node) + 1);
  const auto own = flow(is_counter ? e.node : root_in_[node], e.epoch, e.index);
  if (is_pass) {
    w.fixed64(47, own);
    annotate(w, index_name, e.index);
    if (e.child) annotate(w, child_name, e.child);
    w.message(4, Writer().number(1, in_text).bytes(6, plan_.nodes[node].path()));
  }
  if (e.kind == Event::Kind::body) {
    w.fixed64(47, own);  // first: what goes on from here
    for (const auto other : links_[ring]) w.fixed64(47, other);
    links_[ring].clear();
    annotate(w, index_name, e.index);
    if (e.child) annotate(w, child_name, e.child);
    if (const auto name = names_.find(own); arity == Arity::source && name != names_.end()) {
      w.message(4, Writer().number(1, sample_text).bytes(6, name->second));
      names_.erase(name);
    }
  }
  annotate(w, epoch_name, e.epoch);
  packet(e.start, w.text, 11);
  packet(e.end, event_of(end, id(first_thread + ring)).text, 11);
}

void TraceEncoder::counters(std::int64_t now, const std::vector<Reading>& readings,
                            std::uint64_t resident) {
  packet(now, event_of(counter, id(memory_track)).number(30, resident).text, 11);
  for (std::size_t i = 0; i < readings.size() && i < queue_.size(); ++i) {
    if (plan_.nodes[i].is_source() || readings[i].queue == queue_[i]) continue;
    queue_[i] = readings[i].queue;
    packet(now, event_of(counter, id(first_queue + i)).number(30, queue_[i]).text, 11);
  }
}

void TraceEncoder::left_out(std::int64_t now, std::uint64_t events) {
  Writer w = event_of(instant, id(process_track));
  packet(now, w.bytes(23, "left out: " + std::to_string(events) + " events").text, 11);
}

std::string TraceEncoder::take() { return std::exchange(out_, {}); }

// ---- the file -----------------------------------------------------------------------------------

TraceFile::TraceFile(std::filesystem::path path, const Plan& plan, EventRings& rings,
                     std::function<std::vector<Reading>()> readings, const TraceOrigin& origin,
                     std::uint64_t most_bytes)
    : path_(std::move(path)),
      rings_(rings),
      readings_(std::move(readings)),
      most_bytes_(most_bytes),
      encoder_(plan, origin),
      file_(::open(path_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0644)) {
  if (file_ < 0) throw IoError("cannot write " + path_.string() + ": " + std::strerror(errno));
  rings_.start();
  thread_ = std::thread([this] { loop(); });
}

TraceFile::~TraceFile() {
  done_ = true;
  thread_.join();
  rings_.stop();
  tick();
  if (const auto lost = rings_.lost()) {
    encoder_.left_out(now_ns(), lost);
    write(encoder_.take());
  }
  ::close(file_);
}

void TraceFile::loop() {
  while (!done_) {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    tick();
  }
}

static std::uint64_t resident_bytes() {
  std::ifstream in("/proc/self/statm");
  std::uint64_t all = 0, resident = 0;
  in >> all >> resident;
  return resident * static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
}

void TraceFile::tick() {
  rings_.drain(encoder_);
  encoder_.counters(now_ns(), readings_(), resident_bytes());
  write(encoder_.take());
}

// As many whole packets as fit into `room`.
static std::string_view whole_packets(std::string_view text, std::uint64_t room) {
  protobuf::Reader reader(text.substr(0, room));
  protobuf::Field packet;
  while (reader.next(packet)) {
  }
  return text.substr(0, reader.position());
}

// What a full disk took of a packet goes; if even that fails, a reader stops there.
void TraceFile::cut_back(int cause) {
  full_ = true;
  warn(path_.string() + ": the trace ends here: " + std::strerror(cause));
  [[maybe_unused]] const int ignored = ::ftruncate(file_, static_cast<off_t>(bytes_));
}

// One call, so that a kill finds whole packets. A disk that is full ends the trace, not the run.
void TraceFile::write(std::string_view text) {
  if (full_) return;
  if (bytes_ + text.size() > most_bytes_) {
    full_ = true;
    warn(path_.string() + ": the trace ends here, at its bound of " +
         std::to_string(most_bytes_ >> 20) + " MiB");
    text = whole_packets(text, most_bytes_ - bytes_);
  }
  const std::size_t size = text.size();
  while (!text.empty()) {  // a second call only where the first one found the limit: it says why
    const ssize_t n = ::write(file_, text.data(), text.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) {
      cut_back(n < 0 ? errno : ENOSPC);
      break;
    }
    text.remove_prefix(static_cast<std::size_t>(n));
  }
  if (text.empty()) bytes_ += size;
  if (full_) rings_.stop();
}

}  // namespace sluice
