// Stands in for TensorRT's library: it has a version.
#include <cstdint>

extern "C" std::int32_t getInferLibVersion() { return 101303; }
