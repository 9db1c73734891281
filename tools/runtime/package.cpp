#include "tools/runtime/package.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <fmt/format.h>
#include <fnmatch.h>

#include <iostream>

#include "engine/base/error.h"
#include "engine/base/message.h"
#include "engine/base/scratch.h"
#include "engine/base/shell_word.h"
#include "engine/base/version.h"
#include "engine/session/weights.h"
#include "engine/state/checkpoint.h"
#include "kernels/files/nifti.h"
#include "kernels/lists/data_list.h"
#include "kernels/lists/manifest.h"
#include "tools/edge/manifest.h"
#include "tools/runtime/map_manifests.h"
#include "tools/runtime/new/starter.h"
#include "tools/runtime/new_folder.h"
#include "tools/runtime/run/supervise.h"
#include "tools/runtime/write_graph.h"
#include "tools/runtime/write_onnx.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;

void write_json(const fs::path& file, const Json& json) { write_text(file, json.dump(2) + "\n"); }

std::vector<fs::path> files_in(const fs::path& folder) {
  std::vector<fs::path> all;
  for (const auto& e : fs::recursive_directory_iterator(folder))
    if (e.is_regular_file()) all.push_back(e.path().lexically_relative(folder));
  std::sort(all.begin(), all.end());
  return all;
}

// Segments the self-test's images into a folder. `place`: where the package is, or will be.
void predict(const fs::path& package, const fs::path& place, const fs::path& out) {
  if (const int code = run_command(package_run(package, package / "selftest/input", out));
      code != 0)
    throw Error(static_cast<Exit>(code),
                place.string() + (stopping() ? ": its self-test was ended by a signal"
                                             : ": its self-test could not be run"));
}

// Balls on noise, a quarter larger than a window along each axis, on the network's own grid. No
// patient's image leaves the house unasked.
void make_image(const fs::path& file, const Trained& trained, std::uint64_t seed) {
  const Json& given = trained.window.at("roi_size");
  const auto roi = given.is_array() ? given.get<std::vector<std::int64_t>>()
                                    : std::vector<std::int64_t>{given.get<std::int64_t>()};
  std::vector<std::int64_t> size;
  for (std::size_t a = 0; a < 3; ++a)
    size.push_back(std::max<std::int64_t>(32, roi[std::min(a, roi.size() - 1)] * 5 / 4));
  std::vector<double> spacing(3, 1.0);
  for (const Json& node : trained.transforms)
    if (node.value("type", "") == "spacing" && node.contains("pixdim") && node["pixdim"].is_array())
      for (std::size_t a = 0; a < std::min<std::size_t>(3, node["pixdim"].size()); ++a)
        if (node["pixdim"][a].get<double>() > 0) spacing[a] = node["pixdim"][a];
  const auto generator = at::make_generator<at::CPUGeneratorImpl>(seed);
  at::Tensor image = at::randn(size, generator) * 20 + 100;
  for (int ball = 0; ball < 4; ++ball) {
    const at::Tensor draw = at::rand({4}, generator), radius = 0.12 + 0.1 * draw[3];
    at::Tensor distance = at::zeros(size);
    for (std::int64_t a = 0; a < 3; ++a) {  // from the ball's middle, in radii
      const at::Tensor at_axis = at::arange(image.size(a)).to(at::kFloat) / image.size(a);
      const at::Tensor x = (at_axis - draw[a]) / radius;
      distance = distance.transpose(a, 2).add(x.square()).transpose(a, 2);
    }
    image = image + (distance < 1).to(at::kFloat) * (150 + 100.0 * ball);
  }
  Matrix4 affine{spacing[0], 0, 0, 0, 0, spacing[1], 0, 0, 0, 0, spacing[2], 0, 0, 0, 0, 1};
  write_nifti(file, image.unsqueeze(0), affine, "int16");
}

// As graph.json of a package lists its images.
void require_nifti(const fs::path& selftest) {
  if (!fs::is_regular_file(selftest))
    throw IoError("--selftest " + selftest.string() + ": no such file");
  if (::fnmatch("*.nii*", selftest.filename().c_str(), FNM_PERIOD) != 0)
    throw Error(Exit::usage, "--selftest " + selftest.string() +
                                 ": expected a NIfTI file, whose name ends in .nii or .nii.gz");
}

Json labels_of(const Graph& graph, std::int64_t classes) {
  std::vector<std::string> names;
  for (const GraphNode& node : graph.nodes)
    if (const Json given = node.params.value("class_names", Json::array());
        given.size() == static_cast<std::size_t>(classes))
      names = given.get<std::vector<std::string>>();
  Json labels = Json::object();
  for (std::int64_t c = 0; c < classes; ++c)
    labels[std::to_string(c)] = !names.empty() ? names[static_cast<std::size_t>(c)]
                                : c == 0       ? "background"
                                               : "class_" + std::to_string(c);
  return labels;
}

// Why a network's answers are no classes of a volume's voxels; "": they are.
std::string unfit(const GraphNetwork& made, const Trained& trained, std::int64_t classes) {
  if (classes < 2) return "this network has " + std::to_string(classes);
  if (made.built->spatial_axes() < 3 && trained.window.value("slice_axis", -1) < 0)
    return "this network takes images of " + std::to_string(made.built->spatial_axes()) +
           " axes, and no sliding_window with slice_axis shows it slices";
  if (!trained.regions_by.empty())
    return "this one's are regions that may overlap, by nodes." + trained.regions_by;
  return "";
}

struct Compared {
  std::int64_t voxels = 0, differ = 0;
};

Compared compare(const fs::path& expected, const fs::path& made) {
  Compared c;
  for (const fs::path& name : files_in(expected)) {
    if (!fs::exists(made / name))
      throw DataError((expected / name).string() + ": the self-test made no such segmentation");
    const at::Tensor a = read_nifti(expected / name).data, b = read_nifti(made / name).data;
    if (a.sizes() != b.sizes())
      throw DataError((expected / name).string() + ": the self-test's segmentation has size " +
                      c10::str(b.sizes()) + ", expected " + c10::str(a.sizes()));
    c.voxels += a.numel();
    c.differ += a.ne(b).sum().item<std::int64_t>();
  }
  return c;
}

}  // namespace

Options package_run(const fs::path& package, const fs::path& images, const fs::path& out) {
  Options o;
  o.command = "run";
  o.graphs = {(package / "graph.json").string()};
  o.out = out.string();
  o.quiet = true;
  o.set = {"vars.package=" + Json(package.string()).dump(),
           "vars.images=" + Json(images.string()).dump()};
  return o;
}

void open_packages(Options& options) {
  for (const fs::path given : options.graphs) {
    const bool is_graph = given.filename() == "graph.json" && given.has_parent_path();
    const fs::path package = is_graph ? given.parent_path() : given;
    if (!is_package(package)) continue;
    if (!is_graph) require_whole(package, read_manifest(package), false, sha256_of_file);
    options.set.insert(options.set.begin(), "vars.package=" + Json(package.string()).dump());
  }
}

int package_command(const Json& request) {
  const fs::path run = request.at("run").get<std::string>();
  NewFolder made_folder(request.at("package").get<std::string>());
  const fs::path package = made_folder.path();
  const std::string selftest = request.at("selftest"), weights = request.at("weights");
  const GraphNetwork made = build_network(run.string(), request.at("net"), {});
  const Trained trained = read_trained(run, Registry::global().catalogue(), made.model->name);
  const auto classes = made.model->params.value("out_channels", std::int64_t{0});
  if (const std::string why = unfit(made, trained, classes); !why.empty())
    throw Error(Exit::usage, run.string() +
                                 ": a package segments volumes by the largest of two or "
                                 "more output channels; " +
                                 why);
  begin_with(*made.network, made.model->name, {.file = weights.empty() ? run.string() : weights},
             true);
  if (!selftest.empty()) require_nifti(selftest);
  if (!selftest.empty() && trained.keys.size() > 1)
    throw Error(Exit::usage, "--selftest is one file; this network's images have " +
                                 std::to_string(trained.keys.size()));

  const std::string name = made.graph.name.empty() ? "package" : made.graph.name;
  write_graph(package / "graph.json", package_graph(trained, name));
  const auto tensors = made.tensors();
  write_safetensors(package / "weights.safetensors", tensors);
  write_json(package / "labels.json", labels_of(made.graph, classes));
  try {
    write_onnx(made, run.string(), package / "model.onnx", export_options(made));
  } catch (const Error& e) {
    tell("without model.onnx: " + std::string(e.what()));
  }

  if (request.at("map")) {
    fs::create_directories(package / "map");
    write_json(package / "map/app.json", map_application(name));
    write_json(package / "map/pkg.json",
               map_package(name, fs::file_size(package / "weights.safetensors")));
  }

  const fs::path input = package / "selftest/input", expected = package / "selftest/expected";
  fs::create_directories(input);
  fs::create_directories(expected);
  if (selftest.empty())
    for (std::size_t i = 0; i < trained.keys.size(); ++i)
      make_image(input / (trained.keys.size() == 1 ? "made.nii.gz"
                                                   : "made_" + trained.keys[i] + ".nii.gz"),
                 trained, i + 1);
  else
    fs::copy_file(selftest, input / fs::path(selftest).filename());
  const Scratch scratch;
  predict(package, made_folder.place(), scratch.path / "run");
  for (const fs::path& file : files_in(scratch.path / "run/segmentations"))
    fs::copy_file(scratch.path / "run/segmentations" / file, expected / file);

  Json files = Json::object(), wanted = {{"files_a_case", trained.keys}};
  for (const fs::path& file : files_in(package))
    files[file.string()] = sha256_of_file(package / file);
  wanted["channels"] = made.built->channels();
  wanted["preprocessing"] = trained.transforms;
  write_json(package / "manifest.json", {{"format", package_format},
                                         {"sluice", version},
                                         {"name", name},
                                         {"network", made.model->spec->name},
                                         {"weights_sha256", weights_sha256(tensors)},
                                         {"images", wanted},
                                         {"intended_use", ""},
                                         {"files", files}});
  made_folder.keep();
  const std::string place = made_folder.place().string();
  if (request.at("json")) {
    std::cout << Json{{"package", place},
                      {"files", files.size() + 1},
                      {"name", name},
                      {"network", made.model->name},
                      {"weights_sha256", weights_sha256(tensors)}}
                     .dump(2)
              << '\n';
    return static_cast<int>(Exit::done);
  }
  std::cout << fmt::format("{}: {} files; `sluice run {} --set vars.images=FOLDER` segments\n",
                           place, files.size() + 1, shell_word(place));
  if (request.at("map"))
    std::cout << fmt::format(
        "for a container: {}/map/*.json to /etc/holoscan, the folder to /opt/holoscan/models/{}\n",
        place, map_name(name));
  return static_cast<int>(Exit::done);
}

int verify_command(const Json& request) {
  const fs::path package = request.at("package").get<std::string>();
  if (!is_package(package))
    throw DataError(package.string() +
                    ": is no package: it lacks manifest.json or "
                    "weights.safetensors");
  const Json manifest = read_manifest(package);
  const std::size_t files = require_whole(package, manifest, true, sha256_of_file);
  require_selftest(package);
  const Scratch scratch;
  predict(package, package, scratch.path / "run");
  const Compared c = compare(package / "selftest/expected", scratch.path / "run/segmentations");
  const bool good =
      static_cast<double>(c.differ) <= package_may_differ * static_cast<double>(c.voxels);
  if (request.at("json"))
    std::cout << Json{{"files", files}, {"voxels", c.voxels}, {"differ", c.differ}, {"good", good}}
                     .dump(2)
              << '\n';
  else
    std::cout << fmt::format("{} files as they were packaged\nselftest: {} voxels, {} differ\n",
                             files, with_commas(c.voxels), with_commas(c.differ));
  if (!good)
    throw DataError(package.string() +
                    ": this machine does not compute what the one did that made "
                    "the package: more than 0.1 % of the self-test's voxels "
                    "differ");
  return static_cast<int>(Exit::done);
}

}  // namespace sluice
