// What a run of the recipe's graph has otherwise than its plan, because --set changed it: the
// network, and the nodes that prepare and predict whole cases, as the run's graph.json has them.
#pragma once

#include "tools/runtime/nnunet/trained_model.h"

namespace sluice::nnunet {

// Of the runs that model.checkpoints names, into the model. DataError: runs that differ in these,
// or what differs from the plan in a way that the graph of a prediction cannot have.
void take_over_settings(TrainedModel& model);

}  // namespace sluice::nnunet
