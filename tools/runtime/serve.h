// `sluice serve PACKAGE`: predictions over HTTP.
//
//   POST /predict   a NIfTI file as the body, or a form with one file for each of the package's
//                   images ("image=@t1.nii.gz"): the segmentation, .nii.gz
//   GET /health     {"status": "ok", "package": ..., "waiting": ...}
//   GET /metrics    counters in Prometheus' text
//
// One prediction at a time has all cores; so many wait; more are refused with 429. A request is a
// run of the package's graph on a folder of its own, which is gone when it is answered.
//
// Invariant: nothing that a client sends or leaves out ends the server or changes another's answer.
#pragma once

#include "engine/base/json.h"

namespace sluice {

// {"package", "host", "port": 0 for any, "queue", "max_bytes", "timeout_s"}; SLUICE_TOKEN in the
// environment: what clients have to show as "Authorization: Bearer TOKEN". Other hosts than this
// one are served with a token alone. Ends with a signal.
int serve_command(const Json& request);

}  // namespace sluice
