// Stands in for NVML in the tests of `sluice profile`: one GPU, half busy, nearly full, hot.
#include <cstring>

extern "C" {
int nvmlInit_v2() { return 0; }
int nvmlSystemGetDriverVersion(char* text, unsigned length) {
  std::strncpy(text, "999.1", length);
  return 0;
}
int nvmlDeviceGetCount_v2(unsigned* count) {
  *count = 1;
  return 0;
}
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void** handle) {
  static int device;
  *handle = &device;
  return index == 0 ? 0 : 2;
}
int nvmlDeviceGetName(void*, char* text, unsigned length) {
  std::strncpy(text, "Fake 100", length);
  return 0;
}
int nvmlDeviceGetUtilizationRates(void*, unsigned* rates) {
  rates[0] = 50;
  rates[1] = 20;
  return 0;
}
int nvmlDeviceGetMemoryInfo(void*, unsigned long long* bytes) {
  bytes[0] = 100'000'000'000;  // total, free, used
  bytes[1] = 5'000'000'000;
  bytes[2] = 95'000'000'000;
  return 0;
}
int nvmlDeviceGetClockInfo(void*, int type, unsigned* mhz) {
  *mhz = type == 1 ? 1755 : 1;  // the SM's
  return 0;
}
int nvmlDeviceGetTemperature(void*, int, unsigned* celsius) {
  *celsius = 83;
  return 0;
}
int nvmlDeviceGetPowerUsage(void*, unsigned* milliwatts) {
  *milliwatts = 512'500;
  return 0;
}
}
