#include "tools/runtime/advise/whole_data.h"

#include <ATen/Functions.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <set>

#include "engine/cache/cache_folder.h"
#include "engine/state/tensor_device.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;

constexpr int rounds = 3;  // the quickest counts: what else runs only makes it longer

template <class Body>
double quickest_ms(const Body& body) {
  double best = 0;
  for (int i = 0; i < rounds; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    body();
    const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - begin;
    best = i == 0 ? took.count() : std::min(best, took.count());
  }
  return best;
}

// A file that is gone with the object.
class Trial {
 public:
  Trial(const fs::path& folder, const at::Tensor& bytes) : size_(bytes.numel()) {
    std::error_code ignored;
    fs::create_directories(folder, ignored);
    std::string name = (folder / "trial-XXXXXX").string();
    file_ = ::mkstemp(name.data());
    if (file_ < 0) return;
    ::unlink(name.c_str());
    const auto* from = bytes.const_data_ptr<std::uint8_t>();
    whole_ = true;
    for (std::int64_t done = 0; whole_ && done < size_;) {
      const auto n = ::write(file_, from + done, static_cast<std::size_t>(size_ - done));
      whole_ = n > 0;
      done += n;
    }
    whole_ = whole_ && ::fdatasync(file_) == 0;
  }
  Trial(const Trial&) = delete;
  Trial& operator=(const Trial&) = delete;
  ~Trial() {
    if (file_ >= 0) ::close(file_);
  }
  bool whole() const { return whole_; }

  // From the disk, not from the page cache.
  void read(const at::Tensor& to) const {
    ::posix_fadvise(file_, 0, 0, POSIX_FADV_DONTNEED);
    auto* at = to.mutable_data_ptr<std::uint8_t>();
    for (std::int64_t done = 0; done < size_;) {
      const auto n = ::pread(file_, at + done, static_cast<std::size_t>(size_ - done), done);
      if (n <= 0) return;
      done += n;
    }
  }

 private:
  std::int64_t size_;
  int file_ = -1;
  bool whole_ = false;
};

WholeData::Store on_disk(const at::Tensor& sample, std::uint64_t room) {
  const Trial trial(default_cache_folder() / "new", sample);
  if (!trial.whole()) return {};  // no folder, or no space: nothing can be kept there
  const at::Tensor to = at::empty_like(sample);
  return {room, quickest_ms([&] { trial.read(to); })};
}

std::optional<WholeData::Store> on_gpu(const at::Tensor& sample) {
  const auto device = find_device();
  if (!device) return std::nullopt;
  const at::Tensor host = device->host_memory(sample.numel());
  host.copy_(sample);
  const at::Tensor there = at::empty(sample.sizes(), sample.options().device(device->place()));
  const auto stream = device->stream(false);
  stream->enter();
  const double ms = quickest_ms([&] {
    device->copy(there, host, *stream);
    stream->mark()->wait();
  });
  return WholeData::Store{device->free_bytes().value_or(0) / 2, ms};  // the networks need the rest
}

// The nodes before a cache, back to the source.
std::set<int> before(const Plan& plan, int node) {
  std::set<int> all;
  for (const GraphInput& in : plan.nodes[static_cast<std::size_t>(node)].inputs)
    if (all.insert(in.from).second) all.merge(before(plan, in.from));
  return all;
}

std::string ms_text(double ms) { return fmt::format("{:.{}f}", ms, ms < 0.1 ? 3 : 1); }
std::string mb(double bytes) {
  return bytes >= 1e9 ? fmt::format("{:.1f} GB", bytes / 1e9)
                      : fmt::format("{:.{}f} MB", bytes / 1e6, bytes < 1e7 ? 1 : 0);
}

void print_store(const char* where, const WholeData& w, const WholeData::Store& s,
                 const std::string& what, bool best) {
  fmt::print("   {:<10} {}{} ms a sample {}{}\n", where,
             static_cast<double>(s.room) >= w.bytes()
                 ? ""
                 : fmt::format("does not fit: {} to have; ", mb(static_cast<double>(s.room))),
             ms_text(s.ms_a_sample), what, best ? "; best" : "");
}

}  // namespace

std::string WholeData::best() const {
  const auto pays = [&](const Store& s) {
    return static_cast<double>(s.room) >= bytes() && s.ms_a_sample < made_ms;
  };
  return pays(memory) ? "memory" : pays(disk) ? "disk" : "none";
}

std::vector<WholeData> whole_data(const Plan& plan, const Figures& figures,
                                  const std::map<std::string, double>& bytes_kept,
                                  const Room& room) {
  std::vector<WholeData> all;
  for (std::size_t i = 0; i < plan.nodes.size(); ++i) {
    const PlanNode& n = plan.nodes[i];
    const auto kept = bytes_kept.find(n.path());
    if (kept == bytes_kept.end()) continue;
    const auto source =
        static_cast<std::size_t>(plan.streams[static_cast<std::size_t>(n.stream)].source);
    WholeData w{n.path(), plan.nodes[source].path(), figures.nodes[source].chosen_from(),
                kept->second, 0};
    if (w.samples <= 0) continue;
    for (const int up : before(plan, static_cast<int>(i)))
      w.made_ms += figures.nodes[static_cast<std::size_t>(up)].p50_ms;
    const at::Tensor sample =
        at::zeros({std::max<std::int64_t>(1, std::llround(w.bytes_each))}, at::kByte);
    w.memory = {room.memory, quickest_ms([&] { (void)sample.sum(); })};
    w.disk = on_disk(sample, room.disk);
    w.gpu = on_gpu(sample);
    all.push_back(std::move(w));
  }
  return all;
}

void print_whole_data(const std::vector<WholeData>& all) {
  for (const WholeData& w : all) {
    const std::string best = w.best();
    fmt::print("`{}`: all {} samples of `{}` are {}; one takes {} ms to make{}\n", w.cache,
               w.samples, w.source, mb(w.bytes()), ms_text(w.made_ms),
               best == "none" ? ", and to keep them all pays nowhere" : "");
    print_store("memory", w, w.memory, "to read", best == "memory");
    print_store("disk", w, w.disk, "to read", best == "disk");
    if (w.gpu)
      print_store("GPU", w, *w.gpu, "to copy there, once; what follows has to work there", false);
    else
      fmt::print("   {:<10} there is none\n", "GPU");
  }
}

Json to_json(const std::vector<WholeData>& all) {
  Json list = Json::array();
  const auto store = [](const WholeData::Store& s) {
    return Json{{"room", s.room}, {"ms_a_sample", s.ms_a_sample}};
  };
  for (const WholeData& w : all)
    list.push_back({{"cache", w.cache},
                    {"source", w.source},
                    {"samples", w.samples},
                    {"bytes", w.bytes()},
                    {"made_ms", w.made_ms},
                    {"memory", store(w.memory)},
                    {"disk", store(w.disk)},
                    {"gpu", w.gpu ? store(*w.gpu) : Json()},
                    {"best", w.best()}});
  return list;
}

}  // namespace sluice
