// sluice-edge: segments images with a package, without LibTorch.
#include <CLI/CLI.hpp>
#include <chrono>
#include <iostream>

#include "engine/base/error.h"
#include "engine/base/machine.h"
#include "engine/base/message.h"
#include "engine/base/scratch.h"
#include "engine/base/seconds_since.h"
#include "engine/base/version.h"
#include "tools/edge/manifest.h"
#include "tools/edge/package.h"
#include "tools/edge/team_size.h"

namespace sluice::edge {
namespace {

namespace fs = std::filesystem;

int run(const fs::path& package, const fs::path& images, const fs::path& out, int threads) {
  const auto begin = std::chrono::steady_clock::now();
  const Package p(package, images, out, threads, false);
  const double ready = seconds_since(begin);
  std::size_t done = 0, left_out = 0;
  for (const DataItem& item : p.cases()) {
    const auto segmented = p.run(item);
    (segmented ? done : left_out) += 1;
    if (segmented)
      for (const std::string& file : segmented->written) std::cout << file << std::endl;
  }
  char text[160];
  std::snprintf(text, sizeof text, "%zu segmented, %zu left out, %.2f s; ready after %.3f s", done,
                left_out, seconds_since(begin), ready);
  tell(text);
  return static_cast<int>(Exit::done);
}

int verify(const fs::path& package, int threads) {
  require_selftest(package);
  const Scratch scratch;
  const Package p(package, package / "selftest/input", scratch.path, threads, true);
  std::size_t voxels = 0, differ = 0;
  for (const DataItem& item : p.cases()) {
    const auto segmented = p.run(item);
    if (!segmented) throw DataError(package.string() + ": its self-test was left out");
    for (const std::string& file : segmented->written) {
      const fs::path name = fs::path(file).filename();
      Image made = load(file, true), expected = load(package / "selftest/expected" / name, true);
      if (made.shape() != expected.shape())
        throw DataError((package / "selftest/expected" / name).string() +
                        ": the self-test's segmentation has another size");
      const std::vector<float>&a = made.voxels(), &b = expected.voxels();
      voxels += a.size();
      for (std::size_t i = 0; i < a.size(); ++i) differ += a[i] != b[i];
    }
  }
  std::cout << "selftest: " << voxels << " voxels, " << differ << " differ\n";
  if (static_cast<double>(differ) > package_may_differ * static_cast<double>(voxels))
    throw DataError(package.string() +
                    ": this machine does not compute what the one did that made the package: more "
                    "than 0.1 % of the self-test's voxels differ");
  return static_cast<int>(Exit::done);
}

}  // namespace
}  // namespace sluice::edge

int main(int argc, char** argv) {
  using namespace sluice;
  CLI::App app{"Segments images with a package of `sluice export --package`"};
  app.set_version_flag("--version", std::string(version));
  app.require_subcommand(1);
  std::string package, images, out = ".";
  int threads = own_cores();
  CLI::App* const run = app.add_subcommand("run", "Segments the images of a folder");
  CLI::App* const verify = app.add_subcommand("verify", "Is it whole, and computes it as it did");
  for (CLI::App* command : {run, verify}) {
    command->add_option("package", package, "The package's folder")->required();
    command->add_option("--threads", threads, "Of the network and of blending")
        ->check(CLI::Range(1, 4096));
  }
  run->add_option("--images", images, "The folder of the images")->required();
  run->add_option("--out", out, "Where segmentations are written");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    return app.exit(e) == 0 ? 0 : static_cast<int>(Exit::usage);
  }
  edge::set_team_size(threads);
  try {
    return *run ? edge::run(package, images, out, threads) : edge::verify(package, threads);
  } catch (const Error& e) {
    tell(std::string("error: ") + e.what());
    return static_cast<int>(e.exit);
  } catch (const std::bad_alloc&) {
    tell("error: out of memory");
    return static_cast<int>(Exit::memory);
  } catch (const std::exception& e) {
    tell(std::string("error: ") + e.what());
    return static_cast<int>(Exit::usage);
  }
}
