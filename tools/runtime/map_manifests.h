// The manifests of a MONAI Application Package: what a container that holds a package runs, and
// where it looks (Project-MONAI/monai-deploy, guidelines/monai-application-package.md, 1.0.0).
#pragma once

#include <string>

#include "engine/base/json.h"

namespace sluice {

// The model's folder below /opt/holoscan/models: letters, digits, "-" and "_".
std::string map_name(const std::string& package);

// /etc/holoscan/app.json. Its command reads HOLOSCAN_MODEL_PATH, HOLOSCAN_INPUT_PATH and
// HOLOSCAN_OUTPUT_PATH.
Json map_application(const std::string& package);

// /etc/holoscan/pkg.json, for so many bytes of weights.
Json map_package(const std::string& package, std::uintmax_t weights);

}  // namespace sluice
