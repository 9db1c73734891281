#include "tools/runtime/map_manifests.h"

#include <algorithm>

#include "engine/base/version.h"

namespace sluice {

std::string map_name(const std::string& package) {
  std::string name = package.substr(0, 128);
  const auto is_plain = [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-' ||
           c == '_';
  };
  std::replace_if(
      name.begin(), name.end(), [&](char c) { return !is_plain(c); }, '_');
  return name;
}

Json map_application(const std::string& package) {
  return {{"apiVersion", "1.0.0"},
          {"type", "application"},
          {"command", "sluice run \"$HOLOSCAN_MODEL_PATH/" + map_name(package) +
                          "\" --set vars.images=\"$HOLOSCAN_INPUT_PATH\" --out "
                          "\"$HOLOSCAN_OUTPUT_PATH\""},
          {"environment",
           {{"HOLOSCAN_INPUT_PATH", "/var/holoscan/input/"},
            {"HOLOSCAN_OUTPUT_PATH", "/var/holoscan/output/"},
            {"HOLOSCAN_WORKDIR", "/var/holoscan/"},
            {"HOLOSCAN_MODEL_PATH", "/opt/holoscan/models/"},
            {"HOLOSCAN_APP_MANIFEST_PATH", "/etc/holoscan/app.json"},
            {"HOLOSCAN_PKG_MANIFEST_PATH", "/etc/holoscan/pkg.json"}}},
          {"input", {{"formats", {"file"}}, {"path", "input/"}}},
          {"output", {{"format", "file"}, {"path", "output/"}}},
          {"sdk", "sluice"},
          {"sdkVersion", version},
          {"timeout", 0},
          {"version", "1.0.0"},
          {"workingDirectory", "/var/holoscan/"}};
}

Json map_package(const std::string& package, std::uintmax_t weights) {
  // LibTorch, the weights, and room for a volume and its windows.
  const std::uintmax_t mebibytes = 4096 + 4 * (weights >> 20);
  const std::string name = map_name(package);
  return {{"apiVersion", "1.0.0"},
          {"applicationRoot", "/opt/holoscan/app/"},
          {"modelRoot", "/opt/holoscan/models/"},
          {"models", {{{"name", name}, {"path", name}}}},
          {"resources", {{"cpu", 1}, {"gpu", 0}, {"memory", std::to_string(mebibytes) + "Mi"}}},
          {"version", "1.0.0"}};
}

}  // namespace sluice
