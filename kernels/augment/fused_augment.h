// Fused augmentation: a batch of jobs (kernels/augment/augment_job.h), each of which samples its
// cached volume once and writes its place in the batch. On the CPU here; the same on a CUDA device
// behind CudaTable::augment (kernels/cuda/table.h), from the same functors.
//
// Operations that need no neighbours and no statistics of the image cost no pass of their own; the
// others go through scratch volumes in the workspace (augment_stages.h).
//
// Invariant: the same job gives the same numbers on both, but for the last bits of sums over the
// image. A single operation's job equals the kernel of that name in this folder.
#pragma once

#include <cstddef>

#include "kernels/augment/augment_job.h"

extern "C" {

// What is wrong with a job, or null: sizes below 1, more operations than there is room for, a
// blur that reaches too far, statistics for no channel, a null pointer.
const char* sluice_augment_problem(const sluice::kernels::AugmentJob* jobs, int count);

// Bytes of workspace that a batch needs, on the device that runs it. 256-byte aligned.
std::size_t sluice_augment_workspace(const sluice::kernels::AugmentJob* jobs, int count);

// Runs the batch on the calling thread. False where there is a problem (see above).
bool sluice_augment_cpu(const sluice::kernels::AugmentJob* jobs, int count, void* workspace);
}
