#include <dlfcn.h>
#include <doctest/doctest.h>

#include <string>

#if defined(__x86_64__)  // elsewhere LibTorch has no MKL
// Else AMD's processors multiply matrices at half their speed (kernels/base/mkl_cpu.cpp): the
// linker must have put the function where LibTorch's call finds it.
TEST_CASE("MKL's question for the processor's maker is answered by us") {
  void* const answer = dlsym(RTLD_DEFAULT, "mkl_serv_intel_cpu_true");
  REQUIRE(answer);
  CHECK(reinterpret_cast<int (*)()>(answer)() == 1);
  Dl_info where;
  REQUIRE(dladdr(answer, &where) != 0);
  CHECK(std::string(where.dli_fname).find("libtorch") == std::string::npos);
}
#endif
