// LibTorch's products of float32 matrices are MKL's. MKL asks for a processor's maker before it
// asks what the processor can do, and takes loops of AVX2 on AMD's that have AVX-512: 55 billion
// multiply-adds a second of a core where its own loops of AVX-512 come to 125. It asks by a
// function of its own, which the dynamic linker finds here first; what the processor can do is
// still asked. Where torch was loaded first, as in Python, its answer stands, and results differ in
// last bits.

extern "C" int mkl_serv_intel_cpu_true();
extern "C" __attribute__((visibility("default"))) int mkl_serv_intel_cpu_true() { return 1; }
