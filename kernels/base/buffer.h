// Uninitialised numbers from LibTorch's allocator, which keeps large blocks for the next
// (allocator.h).
#pragma once

#include <c10/core/CPUAllocator.h>

#include <cstddef>
#include <cstdint>

namespace sluice {

template <class T>
class Buffer {
 public:
  Buffer() = default;
  explicit Buffer(std::int64_t n)
      : memory_(c10::GetCPUAllocator()->allocate(static_cast<std::size_t>(n) * sizeof(T))) {}
  T* data() const { return static_cast<T*>(memory_.get()); }  // aligned to a line of the cache
  T& operator[](std::int64_t i) const { return data()[i]; }

 private:
  at::DataPtr memory_;
};

}  // namespace sluice
