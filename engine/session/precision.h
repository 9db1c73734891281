// What "precision": "auto" of a network means on this machine.
#pragma once

#include "engine/graph/graph.h"

namespace sluice {

// "bfloat16" where `on_gpu` or the processor multiplies in it, else "float32": our kernels are made
// for GPUs that do (compute capability 8.0).
const char* precision_here(bool on_gpu);

// Puts it in place of "auto" in every network, in graph.resolved too: a run's own graph.json names
// it, so that a resume computes alike on any machine. Says so where `tells`.
void choose_precision(Graph& graph, bool on_gpu, bool tells);

// By network, of those that have one.
Json precisions(const Graph& graph);

}  // namespace sluice
