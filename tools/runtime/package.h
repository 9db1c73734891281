// A package: a trained network and all that a prediction with it needs, in a folder that can be
// carried elsewhere. `sluice export RUN --package DIR` writes it, `sluice run DIR` predicts,
// `sluice verify DIR` says whether it is whole and computes here as it did where it was made.
//
//   graph.json            the prediction: what stood in front of the network in training, windows,
//                         back to the image's grid, labels
//   weights.safetensors   the network's, by PyTorch's names
//   model.onnx            the same network for other engines, where ONNX has words for it
//   labels.json           what each number in a segmentation means
//   selftest/input, selftest/expected     an image, and its segmentation
//   manifest.json         digests of all of these, versions, what images are wanted
//
// Invariant: manifest.json is written last, so a folder that has one is a whole package.
#pragma once

#include <filesystem>
#include <string>

#include "engine/base/json.h"
#include "engine/session/options.h"

namespace sluice {

// {"run", "net", "weights": "" for the run's newest, "package", "selftest": an image's file, or ""
// for a made one, "map", "json"}.
int package_command(const Json& request);
// {"package", "json"}
int verify_command(const Json& request);

// A quiet run of the package over a folder of images; its files are not looked at first.
Options package_run(const std::filesystem::path& package, const std::filesystem::path& images,
                    const std::filesystem::path& out);

// Of the graphs that a command is given: what those that are packages, or a package's graph.json,
// need to be run. A DataError names a file that is not as it was packaged, or a package of a newer
// Sluice; a graph.json that is given by itself may have been changed.
void open_packages(Options& options);

}  // namespace sluice
