// The library as it is linked, with and without a GPU.
#include <dlfcn.h>

#include <fstream>

#include "kernels/cuda/golden.h"
#include "tests/cuda/device.h"

using namespace sluice;

TEST_CASE("the library's table is complete and of the version that its header names") {
  const kernels::CudaTable& table = test::cuda();
  CHECK(table.version == kernels::CudaTable::current);
  const auto* entries = reinterpret_cast<void* const*>(&table.devices);
  const std::size_t n = (sizeof table - offsetof(kernels::CudaTable, devices)) / sizeof(void*);
  for (std::size_t i = 0; i < n; ++i) {
    CAPTURE(i);
    CHECK(entries[i] != nullptr);
  }
}

TEST_CASE("without a GPU the library says so and does not crash") {
  int n = -1;
  const int error = test::cuda().devices(&n);
  if (test::has_gpu()) return;
  if (error != 0) CHECK(std::string(test::cuda().error_text(error)) != "no error");
  const std::string why = error == 0 ? "none found" : test::cuda().error_text(error);
  MESSAGE("no GPU here: " << why);
}

TEST_CASE("what links the library links no CUDA library") {
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    CAPTURE(line);
    CHECK(line.find("libcudart.so") == std::string::npos);
    CHECK(line.find("libtorch") == std::string::npos);
  }
}

TEST_CASE("every kernel of the images' family gives its golden values") {
  SLUICE_NEEDS_GPU();
  const char* wrong = "untouched";
  test::ok(sluice_cuda_golden(0, &wrong));
  CHECK(std::string(wrong).empty());
  CHECK(sluice_cuda_golden(1 << 20, &wrong) != 0);  // there is no such device
}
