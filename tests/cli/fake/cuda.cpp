// Stands in for a GPU's driver in the tests of `sluice doctor` and of runs on a GPU that is too
// old. FAKE_CUDA says how it behaves.
#include <cstddef>
#include <cstdlib>
#include <cstring>

static bool is(const char* what) {
  const char* given = std::getenv("FAKE_CUDA");
  return given && std::strcmp(given, what) == 0;
}

extern "C" {
int cuInit(unsigned) {
  if (is("crash")) std::abort();
  return is("hidden") ? 100 : 0;  // CUDA_ERROR_NO_DEVICE
}
int cuDriverGetVersion(int* version) {
  *version = 13020;
  return 0;
}
int cuDeviceGetCount(int* count) {
  *count = 1;
  return 0;
}
int cuDeviceGet(int* device, int ordinal) {
  *device = ordinal;
  return 0;
}
int cuDeviceGetAttribute(int* value, int, int) {  // of its compute capability
  *value = is("old") ? 7 : 9;
  return 0;
}
int cuDeviceGetName(char* name, int length, int) {
  std::strncpy(name, "Fake 100", static_cast<std::size_t>(length));
  return 0;
}
int cuDeviceTotalMem_v2(std::size_t* bytes, int) {
  *bytes = 80ull << 30;
  return 0;
}
}
