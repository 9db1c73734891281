#include "kernels/cuda/cuda_library.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <dlfcn.h>

#include <string>

#include "engine/base/error.h"
#include "engine/base/message.h"

namespace sluice {
namespace {

// Beside the file that this code is in: the runtime's folder, or a test's.
std::string library_path() {
  Dl_info here{};
  ::dladdr(reinterpret_cast<const void*>(&cuda_library), &here);
  const std::string file = here.dli_fname ? here.dli_fname : "";
  const auto slash = file.rfind('/');
  return (slash == std::string::npos ? "" : file.substr(0, slash + 1)) + "libsluice_cuda.so";
}

const kernels::CudaTable* unused(const std::string& why) {
  tell("note: libsluice_cuda.so cannot be used, so LibTorch does what it can, slower: " + why);
  return nullptr;
}

const kernels::CudaTable* load() {
  void* library = ::dlopen(library_path().c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library) return unused(::dlerror());
  using Door = const kernels::CudaTable* (*)();
  const auto door = reinterpret_cast<Door>(::dlsym(library, "sluice_cuda_table"));
  const kernels::CudaTable* table = door ? door() : nullptr;
  if (!table || table->version != kernels::CudaTable::current)
    return unused("it is of another version than the program");
  int devices = 0;
  if (const int error = table->devices(&devices)) return unused(table->error_text(error));
  return devices > 0 ? table : unused("it finds no device of compute capability 8.0 or more");
}

const kernels::CudaTable& required_library() {
  if (const kernels::CudaTable* table = cuda_library()) return *table;
  throw Error(Exit::gpu, "no libsluice_cuda.so for this device, whose kernels were asked for");
}

}  // namespace

const kernels::CudaTable* cuda_library() {
  static const kernels::CudaTable* const table = load();
  return table;
}

CudaCall::CudaCall(const at::Tensor& on)
    : table(required_library()),
      stream(c10::impl::VirtualGuardImpl(c10::DeviceType::CUDA)
                 .getStream(on.device())
                 .native_handle()),
      device(on.device()) {
  require(table.use(device.index()));
}

at::Tensor CudaCall::memory(std::size_t bytes) const {
  return at::empty({static_cast<std::int64_t>(bytes)}, at::dtype(at::kByte).device(device));
}

at::Tensor CudaCall::own_memory(std::size_t bytes) const {
  bool recording = false;
  require(table.recording(stream, &recording));
  if (!recording) return memory(bytes);
  void* own = nullptr;
  require(table.allocate(&own, bytes));
  return at::from_blob(
      own, {static_cast<std::int64_t>(bytes)}, [release = table.release](void* p) { release(p); },
      at::dtype(at::kByte).device(device));
}

void CudaCall::require(int error) const {
  if (error != 0)
    throw Error(Exit::gpu,
                "CUDA: " + std::string(table.error_text(error)) + ", on " + device.str());
}

bool cuda_takes(const at::Tensor& t) { return t.is_cuda() && cuda_library() != nullptr; }

bool is_voxel_type(at::ScalarType type) {
  return type == at::kFloat || type == at::kHalf || type == at::kBFloat16 || type == at::kShort ||
         type == at::kByte || type == at::kBool;
}

kernels::VoxelType cuda_type(const at::Tensor& t) {
  switch (t.scalar_type()) {
    case at::kFloat:
      return kernels::VoxelType::f32;
    case at::kHalf:
      return kernels::VoxelType::f16;
    case at::kBFloat16:
      return kernels::VoxelType::bf16;
    default:
      throw DataError("the CUDA kernels take no " + c10::getDtypeNames(t.scalar_type()).first +
                      "; cast_to_type in front of to_device makes float32, int16 or uint8 of it");
  }
}

kernels::VoxelType voxel_type(const at::Tensor& t) {
  if (t.scalar_type() == at::kShort) return kernels::VoxelType::i16;
  if (t.scalar_type() == at::kByte || t.scalar_type() == at::kBool) return kernels::VoxelType::u8;
  return cuda_type(t);
}

}  // namespace sluice
