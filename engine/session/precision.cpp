#include "engine/session/precision.h"

#include "engine/base/cpu.h"
#include "engine/base/message.h"

namespace sluice {

const char* precision_here(bool on_gpu) {
  return on_gpu || cpu_level() >= CpuLevel::avx512_bf16 ? "bfloat16" : "float32";
}

void choose_precision(Graph& graph, bool on_gpu, bool tells) {
  for (GraphModel& m : graph.models) {
    if (m.params.value("precision", Json()) != "auto") continue;
    const char* chosen = precision_here(on_gpu);
    m.params["precision"] = chosen;
    graph.resolved["models"][m.name]["precision"] = chosen;
    if (tells)
      tell("network \"" + m.name + "\" computes in " + chosen + ", which this machine's " +
           (on_gpu           ? "GPU multiplies in"
            : *chosen == 'b' ? "processor multiplies in"
                             : "processor is quickest in"));
  }
}

Json precisions(const Graph& graph) {
  Json all = Json::object();
  for (const GraphModel& m : graph.models)
    if (m.params.contains("precision")) all[m.name] = m.params["precision"];
  return all;
}

}  // namespace sluice
