// Memory that runs out: whatever allocation fails, the process says so and ends with 5, or it does
// without and gives the same weights.
#include <doctest/doctest.h>

#include <map>

#include "tests/campaign.h"
#include "tests/cli/nii.h"
#include "tests/cli/shell.h"

using nlohmann::json;
using shell::Folder;

namespace {

const char* const small = R"({
  "run": { "epochs": 2, "step_threads": 1, "threads": 2 },
  "models": { "net": { "type": "unet", "spatial_dims": 3, "in_channels": 1, "out_channels": 2,
                       "channels": [4, 8], "strides": [2], "num_res_units": 1 } },
  "nodes": {
    "train": { "type": "synthetic", "num_samples": 6, "spatial_size": [32, 32, 32],
               "rad_min": 3, "rad_max": 8, "num_seg_classes": 1, "shuffle": true, "on_error": "quarantine" },
    "scale": { "type": "scale_intensity", "in": "train", "on_error": "quarantine" },
    "crop":  { "type": "rand_crop_by_pos_neg_label", "in": "scale", "spatial_size": [16, 16, 16],
               "num_samples": 2, "on_error": "quarantine" },
    "noise": { "type": "rand_gaussian_noise", "in": "crop", "prob": 0.5, "on_error": "quarantine" },
    "batch": { "type": "batch", "in": "noise", "size": 4 },
    "fwd":   { "type": "model", "in": "batch", "net": "net" },
    "loss":  { "type": "dice_ce_loss", "in": "fwd", "to_onehot_y": true, "softmax": true },
    "step":  { "type": "adam", "in": "loss", "net": "net", "lr": 0.01 }
  }
})";

// How a process ended: "5", "0 with other weights", "signal 6".
using Ends = std::map<std::string, int>;

struct Starved {
  Folder folder;
  std::string graph = folder.write("small.json", small).string();

  shell::Result with(const std::string& settings, const std::string& command) const {
    return shell::run(
        settings + " LD_PRELOAD=" SLUICE_BINARY_DIR "/fake/libno_memory.so timeout 120 $SLUICE " +
        command);
  }
  std::string weights_of(const std::string& out) const {
    const auto summary = json::parse(folder.read(out + "/summary.json"), nullptr, false);
    return summary.is_object() ? summary.value("weights_sha256", "") : "";
  }
  std::string run_line(const std::string& out) const {
    return "run " + graph + " --quiet --out " + (folder.path / out).string();
  }
  std::string place(const std::string& name) const { return (folder.path / name).string(); }

  // Fails allocations that are spread over all of a run.
  Ends runs(const std::string& least) {
    const std::string kind = "NO_MEMORY_LEAST=" + least + " ";
    const auto whole = with(kind + "NO_MEMORY_COUNT=" + place("count"), run_line("whole"));
    REQUIRE_MESSAGE(whole.code == 0, whole.err);
    const std::string weights = weights_of("whole");
    std::filesystem::remove_all(place("whole"));
    REQUIRE(weights.size() == 64);
    const double all = std::stod(folder.read("count"));
    Ends ends;
    for (campaign::Cases cases("allocations_run_" + least, 4, 300); cases.next();) {
      const auto k =
          static_cast<unsigned long>(1 + all * static_cast<double>(cases.index() * 73 % 300) / 300);
      const std::string out = "k" + std::to_string(cases.index());
      const auto r = with(kind + "NO_MEMORY_AT=" + std::to_string(k), run_line(out));
      std::string end = std::to_string(r.code);
      if (r.code == 0 && weights_of(out) != weights) end = "0 with other weights";
      if (r.code == 5 && r.err.find("#0 ") != std::string::npos) end = "5 with a stack";
      const bool expected = r.code == 5 || r.code == 0;
      if (!expected)
        MESSAGE("allocation " << k << " of " << least << " bytes: " << end << "\n" << r.err);
      ++ends[end];
      std::filesystem::remove_all(place(out));
    }
    return ends;
  }
};

void tell(const std::string& what, const Ends& ends) {
  std::string line = what + ":";
  for (const auto& [end, n] : ends) line += " " + std::to_string(n) + " x exit " + end + ",";
  MESSAGE(line);
}

}  // namespace

TEST_CASE("a check that finds no memory ends with 5 and one line") {
  Starved s;
  Ends ends;
  for (campaign::Cases cases("allocations_check", 11, 4000); cases.next();) {
    const auto k = 1 + cases.index() * 371 % 4000;
    const auto r = s.with("NO_MEMORY_AT=" + std::to_string(k), "check " + s.graph);
    ++ends[std::to_string(r.code)];
    const bool survived = r.code == 0 && r.out.starts_with("ok: ");
    CHECK_MESSAGE((r.code == 5 || survived), "allocation " << k << ": " << r.code << " " << r.err);
    if (r.code == 5) CHECK(std::count(r.err.begin(), r.err.end(), '\n') == 1);
  }
  if (campaign::at_length()) tell("check", ends);
}

TEST_CASE("a run that finds no memory ends with 5, and never with 0 and other weights") {
  Starved s;
  for (const std::string least : {"0", "4096"}) {
    const Ends ends = s.runs(least);
    if (campaign::at_length()) tell("run, allocations of at least " + least + " bytes", ends);
    for (const auto& [end, n] : ends) CHECK_MESSAGE((end == "5" || end == "0"), n << " x " << end);
  }
}

TEST_CASE("a network that is too large is one line that names the model") {
  Starved s;
  const auto r = shell::run("ulimit -v 8000000; $SLUICE run " + s.graph +
                            " --quiet --no-out --set models.net.channels='[400000000,8]'");
  CHECK(r.code == 5);
  CHECK_MESSAGE(r.err.find("models.net: ") != std::string::npos, r.err);
  CHECK_MESSAGE(std::count(r.err.begin(), r.err.end(), '\n') == 1, r.err);
}

TEST_CASE("open files that run out end the run with 4, and no sample is blamed for them") {
  Folder f;
  for (const char* name : {"a", "b", "c", "d"})
    nii::write_pair(f.path / "images" / (std::string(name) + ".nii"), "", {16, 16, 16}, {1, 1, 1});
  const std::string graph = f.write("g.json", R"({
  "run": { "epochs": 2 },
  "nodes": {
    "files": { "type": "file_patterns", "root": ".", "patterns": { "image": "images/*.nii" } },
    "load":  { "type": "load_image", "in": "files", "keys": "image", "on_error": "quarantine" },
    "save":  { "type": "save_image", "in": "load", "keys": "image", "output_dir": "saved",
               "on_error": "quarantine" } } })")
                                .string();
  int ended = 0, failed_in_a_node = 0;
  for (int files = 6; files <= 24; ++files) {
    const auto r = shell::run("cd " + f.path.string() + "; ulimit -n " + std::to_string(files) +
                              "; $SLUICE run " + graph + " --quiet --out r --overwrite");
    INFO(files << " files: " << r.code << " " << r.err);
    CHECK((r.code == 4 || r.code == 0));
    if (r.code == 4) CHECK(r.err.find("Too many open files") != std::string::npos);
    const auto summary = json::parse(f.read("r/summary.json"), nullptr, false);
    if (r.code == 0) CHECK(summary.at("samples").at("quarantined") == 0);
    ended += r.code == 0;
    failed_in_a_node += r.code == 4 && r.err.find("g.json:") != std::string::npos;
    std::filesystem::remove_all(f.path / "r");
  }
  CHECK(ended > 0);
  CHECK(failed_in_a_node > 0);
}
