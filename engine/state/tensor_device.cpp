#include "engine/state/tensor_device.h"

#include <ATen/Context.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/Event.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <dlfcn.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "engine/base/cause.h"
#include "engine/base/message.h"
#include "engine/group/world.h"
#include "engine/run/simulated_device.h"
#include "engine/trace/trace.h"

namespace sluice {
namespace {

// What LibTorch throws of a device, without its stack.
template <class Call>
auto asked(Call&& call) {
  try {
    return call();
  } catch (const c10::Error&) {
    const Cause why = cause(Exit::gpu);
    throw Error(why.exit, why.text);
  }
}

// ---- a GPU --------------------------------------------------------------------------------------

using EventPtr = std::unique_ptr<c10::Event>;

// Events are made once and used again.
struct Events {
  std::mutex mutex;
  std::vector<EventPtr> free;

  EventPtr take(at::DeviceType type) {
    std::lock_guard lock(mutex);
    if (free.empty()) return std::make_unique<c10::Event>(type);
    EventPtr event = std::move(free.back());
    free.pop_back();
    return event;
  }
  void put(EventPtr event) {
    std::lock_guard lock(mutex);
    free.push_back(std::move(event));
  }
};

struct GpuPoint final : Point {
  GpuPoint(const Stream& stream, std::shared_ptr<Events> events, at::DeviceType type)
      : Point(stream), pool(std::move(events)), event(pool->take(type)) {}
  ~GpuPoint() override { pool->put(std::move(event)); }
  // Asks now and then: the driver's own waiting keeps a core busy, which the data threads need.
  std::int64_t wait() const override {
    asked([&] {
      for (int us = 10; !event->query(); us = std::min(2 * us, 80))
        std::this_thread::sleep_for(std::chrono::microseconds(us));
    });
    return now_ns();
  }
  const std::shared_ptr<Events> pool;
  EventPtr event;
};

class GpuStream final : public Stream {
 public:
  GpuStream(at::Device place, bool urgent, std::shared_ptr<Events> events)
      : guard_(place.type()),
        stream_(guard_.getStreamFromGlobalPool(place, urgent)),
        events_(std::move(events)) {}

  void enter() override {
    asked([&] {
      guard_.setDevice(stream_.device());
      guard_.exchangeStream(stream_);
    });
  }
  PointPtr mark() override {
    return asked([&]() -> PointPtr {
      auto point = std::make_shared<GpuPoint>(*this, events_, stream_.device_type());
      point->event->record(stream_);
      return point;
    });
  }
  void wait(const Point& before) override {
    if (before.of == this) return;
    asked([&] { static_cast<const GpuPoint&>(before).event->block(stream_); });
  }

 private:
  const c10::impl::VirtualGuardImpl guard_;
  const c10::Stream stream_;
  const std::shared_ptr<Events> events_;
};

// The door of cuda_graph.cpp, beside this library.
using RecordCuda = Recording* (*)(const std::function<Recording::Tensors()>&);
RecordCuda cuda_graphs() {
  void* library = ::dlopen("libsluice_cuda_graph.so", RTLD_NOW | RTLD_LOCAL);
  void* door = library ? ::dlsym(library, "sluice_record_cuda") : nullptr;
  if (!door) throw Error(Exit::gpu, "CUDA graphs: " + std::string(::dlerror()));
  return reinterpret_cast<RecordCuda>(door);
}

class Gpu final : public TensorDevice {
 public:
  explicit Gpu(std::vector<at::Device> places)
      : place_(places.front()), places_(std::move(places)) {}

  std::unique_ptr<Stream> stream(bool urgent) override {
    return asked([&] { return std::make_unique<GpuStream>(place_, urgent, events_); });
  }
  at::Device place() const override { return place_; }
  std::vector<at::Device> places() const override { return places_; }
  at::Tensor host_memory(std::int64_t bytes) const override {
    return asked([&] { return at::empty({bytes}, at::dtype(at::kByte).pinned_memory(true)); });
  }
  void copy(const at::Tensor& to, const at::Tensor& from, Stream&) override {
    asked([&] { to.copy_(from, /*non_blocking=*/true); });
  }
  std::unique_ptr<Recording> record(std::function<Recording::Tensors()> body, Stream&) override {
    static const auto door = cuda_graphs();
    try {
      return std::unique_ptr<Recording>(asked([&] { return door(body); }));
    } catch (const Error& e) {
      throw Error(e.exit, std::string("the training step cannot be recorded: ") + e.what() +
                              "; set run.cuda_graphs to false");
    }
  }
  std::string name() const override { return place_.str(); }
  std::optional<std::uint64_t> free_bytes() const override {
    return asked([&] {
      auto* allocator = c10::getDeviceAllocator(place_.type());
      const auto now = allocator->getDeviceStats(place_.index());
      const std::int64_t kept = now.reserved_bytes[0].current - now.allocated_bytes[0].current;
      return allocator->getMemoryInfo(place_.index()).first + static_cast<std::uint64_t>(kept);
    });
  }
  double peak_bytes() const override {
    return asked([&] {
      auto* allocator = c10::getDeviceAllocator(place_.type());
      std::int64_t most = 0;
      for (const at::Device& p : places_)
        most = std::max(most, allocator->getDeviceStats(p.index()).allocated_bytes[0].peak);
      return static_cast<double>(most);
    });
  }

 private:
  const at::Device place_;
  const std::vector<at::Device> places_;
  const std::shared_ptr<Events> events_ = std::make_shared<Events>();
};

// What the driver sees, since loading LibTorch's CUDA half takes a second: how many GPUs, and
// whether one is older than our kernels are made for (compute capability 8.0).
struct Driver {
  int gpus = 0;
  bool too_old = false;

  Driver() {
    void* driver = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!driver) return;
    const auto init = reinterpret_cast<int (*)(unsigned)>(::dlsym(driver, "cuInit"));
    const auto count = reinterpret_cast<int (*)(int*)>(::dlsym(driver, "cuDeviceGetCount"));
    const auto get = reinterpret_cast<int (*)(int*, int)>(::dlsym(driver, "cuDeviceGet"));
    const auto attribute =
        reinterpret_cast<int (*)(int*, int, int)>(::dlsym(driver, "cuDeviceGetAttribute"));
    if (!init || !count || init(0) != 0 || count(&gpus) != 0) gpus = 0;
    constexpr int capability_major = 75;  // CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR
    for (int i = 0; i < gpus && get && attribute; ++i) {
      int device = 0, major = 0;
      too_old |=
          get(&device, i) == 0 && attribute(&major, capability_major, device) == 0 && major < 8;
    }
  }
};

// ---- tensors of the host on a simulated device --------------------------------------------------

// Does its body anew each time, at once and on the host; what that made arrives later, in the
// memory of the first time.
class SimulatedRecording final : public Recording {
 public:
  explicit SimulatedRecording(std::function<Tensors()> body) : body_(std::move(body)) {}

  const Tensors& repeat(Stream& stream) override {
    stream.mark()->wait();  // copies to what the body reads
    for (const at::Tensor& t : made_) std::memset(t.mutable_data_ptr(), 0xff, t.nbytes());
    const Tensors now = body_();
    if (made_.empty())
      for (const at::Tensor& t : now) made_.push_back(at::empty_like(t));
    for (std::size_t i = 0; i < now.size(); ++i)
      static_cast<SimulatedStream&>(stream).queue([from = now[i], to = made_[i]] {
        std::memcpy(to.mutable_data_ptr(), from.const_data_ptr(), from.nbytes());
      });
    return made_;
  }

 private:
  const std::function<Tensors()> body_;
  Tensors made_;
};

// LibTorch computes at once, so bodies are eager; copies come later, and until then their targets
// hold NaN (integers -1).
class Simulated final : public TensorDevice {
 public:
  explicit Simulated(std::size_t places)
      : places_(places, at::kCPU), device_({.seed = 1, .nap_us = 2000, .eager = true}) {}

  std::unique_ptr<Stream> stream(bool urgent) override { return device_.stream(urgent); }
  at::Device place() const override { return at::kCPU; }
  std::unique_ptr<Recording> record(std::function<Recording::Tensors()> body, Stream&) override {
    return std::make_unique<SimulatedRecording>(std::move(body));
  }
  std::vector<at::Device> places() const override { return places_; }
  std::string name() const override { return "simulated"; }
  std::optional<std::uint64_t> free_bytes() const override { return std::nullopt; }
  double peak_bytes() const override { return 0; }
  at::Tensor host_memory(std::int64_t bytes) const override {
    return at::empty({bytes}, at::dtype(at::kByte));
  }
  void copy(const at::Tensor& to, const at::Tensor& from, Stream& stream) override {
    void* target = to.mutable_data_ptr();
    std::memset(target, 0xff, to.nbytes());
    static_cast<SimulatedStream&>(stream).queue(
        [target, source = from.const_data_ptr(), bytes = to.nbytes()] {
          std::memcpy(target, source, bytes);
        });
  }

 private:
  const std::vector<at::Device> places_;
  SimulatedDevice device_;
};

// What SLUICE_DEVICE asks for: "gpu:3" is 3 places of the kind "gpu"; 0 where it does not say.
struct Wanted {
  std::string kind;
  std::size_t places = 0;

  explicit Wanted(const std::string& text) : kind(text.substr(0, text.find(':'))) {
    const bool counted = kind.size() < text.size();
    if (counted) {
      const char* const end = text.data() + text.size();
      const auto [read, error] = std::from_chars(text.data() + kind.size() + 1, end, places);
      if (error != std::errc() || read != end || places < 1 || places > 64) refuse(text);
    }
    const bool several = kind == "gpu" || kind == "simulated";
    if (!several && (counted || (kind != "none" && kind != "cpu" && kind != ""))) refuse(text);
  }

 private:
  [[noreturn]] static void refuse(const std::string& text) {
    throw Error(Exit::usage, "SLUICE_DEVICE is \"" + text +
                                 "\", not none, cpu, gpu, gpu:N, simulated or simulated:N (N "
                                 "places); CUDA_VISIBLE_DEVICES chooses among GPUs");
  }
};

std::vector<at::Device> gpus() {
  const World world = find_world([](const char* name) -> const char* { return std::getenv(name); },
                                 [](const std::string&) {});
  return gpus_from(world.local_rank, c10::impl::VirtualGuardImpl(at::kCUDA).deviceCount());
}

std::shared_ptr<TensorDevice> look() {
  const char* given = std::getenv("SLUICE_DEVICE");
  const Wanted wanted(given ? given : "");
  if (wanted.kind == "none" || wanted.kind == "cpu") return nullptr;
  if (wanted.kind == "simulated") return simulated_tensors(std::max<std::size_t>(1, wanted.places));
  const Driver driver;
  if (driver.gpus == 0) return nullptr;
  const auto unused = [](const char* why) {
    tell("note: the driver has a GPU, but the CPU does everything: " + std::string(why));
    return nullptr;
  };
#ifdef SLUICE_NO_CUDA
  return unused("this program was built without CUDA");
#endif
  if (driver.too_old)
    return unused(
        "one is older than compute capability 8.0; CUDA_VISIBLE_DEVICES can leave it out");
  if (!::dlopen("libtorch_cuda.so", RTLD_NOW | RTLD_GLOBAL)) return unused(::dlerror());
  if (!at::hasCUDA() || gpus().empty()) return unused("LibTorch finds none that it can use");
  at::globalContext().lazyInitDevice(at::kCUDA);
  auto places = gpus();
  if (wanted.places > 0) places.assign(wanted.places, at::Device(places.front()));
  return std::make_shared<Gpu>(std::move(places));
}

}  // namespace

std::vector<at::Device> gpus_from(int local_rank, int count) {
  std::vector<at::Device> all;
  for (int i = 0; i < count; ++i)
    all.emplace_back(at::kCUDA, static_cast<c10::DeviceIndex>((local_rank + i) % count));
  return all;
}

std::shared_ptr<TensorDevice> find_device() {
  static const std::shared_ptr<TensorDevice> found = look();
  return found;
}

std::shared_ptr<TensorDevice> simulated_tensors(std::size_t places) {
  return std::make_shared<Simulated>(places);
}

}  // namespace sluice
