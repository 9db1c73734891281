// A few voxels through each kernel of the images' family, beside golden values.
#pragma once

// On a device: `wrong` names the kernels whose values are, until the next call. 0 or a cudaError_t.
extern "C" __attribute__((visibility("default"))) int sluice_cuda_golden(int device,
                                                                         const char** wrong);
