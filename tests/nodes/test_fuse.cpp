// Transforms that are done together, in graphs of the real nodes: against the same graphs with
// run.fuse off.
#include <ATen/ATen.h>
#include <doctest/doctest.h>

#include <functional>

#include <cstdlib>
#include <random>

#include "kernels/augment/pending.h"
#include "run_graph.h"
#include "tests/campaign.h"
#include "tests/temporary_folder.h"

using namespace sluice;

namespace {

struct HostPlays {
  HostPlays() { host_plays_device(true); }
  ~HostPlays() { host_plays_device(false); }
};

Json synthetic(int samples) {
  return {{"type", "synthetic"}, {"num_samples", samples}, {"spatial_size", {30, 34, 38}},
          {"num_objs", 4},       {"rad_max", 12},          {"num_seg_classes", 3}};
}

// Random transforms with random parameters, one after the other.
class Draws {
 public:
  explicit Draws(unsigned seed) : random_(seed) {}
  int upto(int n) { return static_cast<int>(random_() % static_cast<unsigned>(n)); }
  double in(double low, double high) { return low + (high - low) * double(random_()) / 4294967295; }
  std::string one_of(std::vector<std::string> names) {
    return names[std::size_t(upto(int(names.size())))];
  }

  Json padding() { return one_of({"zeros", "border", "reflection"}); }

  Json pad(bool device) {
    const std::string mode = device ? one_of({"constant", "edge", "symmetric"})
                                    : one_of({"constant", "edge", "symmetric", "reflect", "wrap"});
    switch (upto(3)) {
      case 0:
        return {{"type", "spatial_pad"}, {"spatial_size", 32 + upto(12)}, {"mode", mode}};
      case 1:
        return {{"type", "divisible_pad"}, {"k", 8}, {"mode", mode}, {"method", "end"}};
      default:
        return {{"type", "resize_with_pad_or_crop"},
                {"spatial_size", {36, 28, 33}},
                {"mode", mode},
                {"value", mode == "constant" ? 0.5 : 0.0}};
    }
  }
  Json moves(bool device) {
    switch (upto(6)) {
      case 5:
        return pad(device);
      case 0:
        return {{"type", "rand_flip"}, {"prob", 0.7}, {"spatial_axis", {upto(3)}}};
      case 1:
        return {{"type", "rand_axis_flip"}, {"prob", 0.7}};
      case 2:
        return {{"type", "rand_rotate90"}, {"prob", 0.7}, {"spatial_axes", {upto(2), 2}}};
      case 3:
        return {{"type", "orientation"}, {"axcodes", one_of({"RAS", "LPS", "SPL", "ARI"})}};
      default:
        return {{"type", "rand_spatial_crop"}, {"roi_size", 20 + upto(8)}};
    }
  }
  // By fixed numbers or the image's own.
  Json scaling(bool device) {
    switch (upto(4)) {
      case 0:
        return {{"type", "normalize_intensity"},
                {"nonzero", !device && upto(2) == 1},
                {"channel_wise", upto(2) == 1}};
      case 1:
        return {{"type", "normalize_intensity"}, {"subtrahend", 0.2}, {"divisor", 0.7}};
      case 2:
        return {{"type", "scale_intensity"},
                {"minv", in(-1, 0)},
                {"maxv", in(0.5, 2)},
                {"channel_wise", upto(2) == 1}};
      default:
        return {{"type", "scale_intensity_range"},
                {"a_min", in(-1, 0)},
                {"a_max", in(0.5, 2)},
                {"b_min", -1},
                {"b_max", 1},
                {"clip", upto(2) == 1}};
    }
  }
  // As jobs, what they do.
  Json resampling(bool device) {
    const bool align = !device && upto(2) == 1;
    switch (upto(device ? 3 : 5)) {
      case 0:
        return {{"type", "rand_affine"}, {"prob", 0.8},        {"rotate_range", 0.6},
                {"translate_range", 3},  {"scale_range", 0.1}, {"padding_mode", padding()}};
      case 1:
        return {{"type", "rand_rotate"},
                {"prob", 0.8},
                {"range_x", 0.7},
                {"range_z", 0.3},
                {"keep_size", upto(2) == 1},
                {"padding_mode", padding()},
                {"align_corners", align}};
      case 2:
        return {{"type", "rand_zoom"},
                {"prob", 0.8},
                {"min_zoom", 0.8},
                {"max_zoom", 1.25},
                {"mode", {device ? "trilinear" : one_of({"trilinear", "area"}), "nearest-exact"}},
                {"keep_size", upto(3) > 0}};
      case 3:
        return {{"type", "spacing"}, {"pixdim", {1.2, 0.9, 1.0}}, {"padding_mode", padding()}};
      default:
        return {{"type", "rand_elastic"},
                {"prob", 0.8},
                {"sigma_range", {3, 4}},
                {"magnitude_range", {20, 40}}};
    }
  }
  // What the host alone does, with neighbours or the whole image.
  Json host_values() {
    switch (upto(3)) {
      case 0:
        return {{"type", "rand_gaussian_smooth"}, {"prob", 0.7}};
      case 1:
        return {
            {"type", "rand_color_jitter"}, {"prob", 0.7}, {"brightness", 0.4}, {"contrast", 0.4}};
      default:
        return {{"type", "rand_coarse_dropout"},
                {"prob", 0.7},
                {"holes", 3},
                {"spatial_size", 6},
                {"fill_value", upto(2) ? Json(nullptr) : Json(0.25)},
                {"dropout_holes", upto(2) == 1}};
    }
  }
  Json values(bool device) {
    if (!device && upto(3) == 0) return host_values();
    switch (upto(12)) {
      case 10:
      case 11:
        return scaling(device);
      case 9:
        return {{"type", "rand_coarse_dropout"},
                {"prob", 0.7},
                {"holes", 2},
                {"spatial_size", 6},
                {"fill_value", 0.25}};
      case 5:
        return {{"type", "rand_gaussian_smooth"}, {"prob", 0.7}};
      case 6:
        return {{"type", "rand_bias_field"}, {"prob", 0.7}, {"degree", 1 + upto(3)}};
      case 7:
        return {{"type", "rand_simulate_low_resolution"}, {"prob", 0.7}};
      case 8:
        return {
            {"type", "rand_color_jitter"}, {"prob", 0.7}, {"brightness", 0.3}, {"contrast", 0.3}};
      case 0:
        return {{"type", "rand_gaussian_noise"}, {"prob", 0.7}};
      case 1:
        return {{"type", "rand_scale_intensity"}, {"prob", 0.7}, {"factors", 0.3}};
      case 2:
        return {{"type", "rand_shift_intensity"}, {"prob", 0.7}, {"offsets", 0.3}};
      case 3:
        return {{"type", "rand_std_shift_intensity"}, {"prob", 0.7}, {"factors", 0.3}};
      default:
        return {{"type", "rand_adjust_contrast"}, {"prob", 0.7}, {"retain_stats", upto(2) == 1}};
    }
  }
  Json transform(bool device) {
    const int kind = upto(7);
    return kind < 3 ? moves(device) : kind < 5 ? resampling(device) : values(device);
  }
  // Transforms inside a node that chooses among them.
  Json group(bool device) {
    const Json first = transform(device);
    const Json second = {transform(device), transform(device)}, third = Json::array();
    const Json all = {first, second, third};
    switch (upto(3)) {
      case 0:
        return {{"type", "one_of"}, {"transforms", all}};
      case 1:
        return {{"type", "some_of"}, {"transforms", all}, {"num_transforms", 2}};
      default:
        return {{"type", "by_epoch"}, {"transforms", {second, first}}, {"from", {0, 1}}};
    }
  }

 private:
  std::mt19937 random_;
};

// `moved`: behind to_device, and stacked. On the host every third is cached and stacked.
Json graph_of(unsigned seed, bool moved, bool invert) {
  const bool cached = !moved && seed % 3 == 0, stacked = moved || (cached && !invert);
  Draws draws(seed);
  Json nodes = {{"s", synthetic(6)}};
  std::string before = "s";
  if (moved) {
    nodes["there"] = {{"type", "to_device"}, {"in", "s"}};
    before = "there";
  }
  if (cached) {
    nodes["kept"] = {{"type", "cache"}, {"in", "s"}};
    before = "kept";
  }
  for (int i = 0, n = 2 + draws.upto(6); i < n; ++i) {
    const std::string name = "t" + std::to_string(i);
    nodes[name] = draws.upto(5) == 0 ? draws.group(moved) : draws.transform(moved);
    nodes[name]["in"] = before;
    before = name;
  }
  // Crops to one size, so that samples can be stacked.
  nodes["same"] = {{"type", "rand_spatial_crop"}, {"in", before}, {"roi_size", {14, 15, 16}}};
  nodes["last"] = {{"type", "rand_gaussian_noise"}, {"in", "same"}, {"prob", 0.5}};
  before = "last";
  if (seed % 2) {
    nodes["both"] = {{"type", "select_items"}, {"in", before}, {"keys", {"label", "image"}}};
    before = "both";
  }
  if (stacked) nodes["batch"] = {{"type", "batch"}, {"in", before}, {"size", 3}};
  if (stacked) before = "batch";
  if (invert) nodes["back"] = {{"type", "invert"}, {"in", before}, {"keys", {"image", "label"}}};
  if (invert) before = "back";
  nodes["sink"] = {{"type", "collect"}, {"in", before}};
  return {{"name", "g"}, {"run", {{"epochs", 2}, {"seed", seed}}}, {"nodes", nodes}};
}

Json with(Json graph, const char* setting, bool value) {
  graph["run"][setting] = value;
  return graph;
}

}  // namespace

TEST_CASE("fused graphs give what plain ones give, to the bit, geometry and history included") {
  for (campaign::Cases cases("fused", 60, 1200); cases.next();) {
    const auto seed = static_cast<unsigned>(cases.index() + 1200 * (campaign::seed() - 1));
    const Json graph = graph_of(seed, false, seed % 4 == 0);
    CAPTURE(graph.dump());
    const Collected plain = run_graph(with(graph, "fuse", false)), fused = run_graph(graph);
    REQUIRE(plain.failure == "");
    CHECK(plain.epochs.size() == 2);
    CHECK(same_samples(plain, fused));
  }
}

TEST_CASE("signals go through fused transforms as through plain ones") {
  TemporaryFolder folder;
  const std::string file =
      folder.write_text("list.csv", "image,a,b,c,d,e,f\nx,1,2,3.5,4,5,7\n").string();
  const auto of_signal = [](const char* type, const char* in, Json params = Json::object()) {
    params.update({{"type", type}, {"in", in}, {"keys", "signal"}});
    return params;
  };
  const Json graph = {
      {"name", "g"},
      {"nodes",
       {{"s",
         {{"type", "csv_list"},
          {"file", file},
          {"groups", {{"signal", {{"a", "b", "c"}, {"d", "e", "f"}}}}}}},
        {"flip", of_signal("flip", "s")},
        {"shift", of_signal("shift_intensity", "flip", {{"offset", 1}})},
        {"crop", of_signal("spatial_crop", "shift", {{"roi_start", 0}, {"roi_end", 2}})},
        {"sink", {{"type", "collect"}, {"in", "crop"}}}}}};
  const Collected plain = run_graph(with(graph, "fuse", false)), fused = run_graph(graph);
  REQUIRE(plain.failure == "");
  CHECK(plain.epochs.at("sink/0").at(0)->tensor("signal").equal(
      at::tensor({4.5, 3., 8., 6.}, at::kFloat).view({2, 2})));
  CHECK(same_samples(plain, fused));
}

TEST_CASE("patches of a 1:n crop are done together with what follows") {
  const Json graph = {
      {"name", "g"},
      {"nodes",
       {{"s", synthetic(4)},
        {"crop",
         {{"type", "rand_crop_by_pos_neg_label"},
          {"in", "s"},
          {"spatial_size", 20},
          {"num_samples", 3}}},
        {"flip", {{"type", "rand_flip"}, {"in", "crop"}, {"prob", 0.5}}},
        {"affine", {{"type", "rand_affine"}, {"in", "flip"}, {"prob", 0.5}, {"rotate_range", 1}}},
        {"mirror", {{"type", "rand_axis_flip"}, {"in", "affine"}, {"prob", 0.5}}},
        {"sink", {{"type", "collect"}, {"in", "mirror"}}}}}};
  const Collected plain = run_graph(with(graph, "fuse", false)), fused = run_graph(graph);
  CHECK(plain.epochs.at("sink/0").size() == 12);
  CHECK(same_samples(plain, fused));
  CHECK(same_samples(plain, run_graph(with(graph, "lazy", true))));  // one resampling
}

TEST_CASE("on a device, played by the host, a batch's members are done in one go") {
  int voxels = 0, other = 0;
  for (campaign::Cases cases("fused_batches", 60, 1200); cases.next();) {
    const auto seed = static_cast<unsigned>(cases.index() + 1200 * (campaign::seed() - 1));
    const Json graph = graph_of(seed, true, false);
    CAPTURE(graph.dump());
    const Collected plain = run_graph(with(graph, "fuse", false));
    REQUIRE(plain.failure == "");
    for (const bool fuse : {true, false}) {
      const HostPlays plays;
      const Collected fused = run_graph(with(graph, "fuse", fuse));
      REQUIRE(fused.failure == "");
      for (const auto& [key, batches] : plain.epochs)
        for (std::size_t i = 0; i < batches.size(); ++i) {
          const Sample &a = *batches[i], &b = *fused.epochs.at(key).at(i);
          REQUIRE(a.tensor("image").sizes() == b.tensor("image").sizes());
          const at::Tensor error = (a.tensor("image") - b.tensor("image")).abs();
          CHECK(error.mean().item<float>() < 1e-5f);
          CHECK(error.max().item<float>() < 2e-3f);
          voxels += static_cast<int>(a.tensor("label").numel());
          other += (a.tensor("label") != b.tensor("label")).sum().item<int>();
          CHECK(a.at("label").meta.size() == b.at("label").meta.size());
          CHECK(a.at("label").meta.back()->affine == b.at("label").meta.back()->affine);
        }
    }
  }
  CHECK(voxels > 1000000);
  CHECK(other < voxels / 2000);
}

TEST_CASE("lazily, what is inverted comes back to where it was") {
  const Json graph = {
      {"name", "g"},
      {"run", {{"lazy", true}}},
      {"nodes",
       {{"s", synthetic(3)},
        {"turn",
         {{"type", "rotate"}, {"in", "s"}, {"angle", {0.3, 0.1, -0.2}}, {"padding_mode", "zeros"}}},
        {"flip", {{"type", "rand_flip"}, {"in", "turn"}, {"prob", 1}, {"spatial_axis", 1}}},
        {"affine",
         {{"type", "rand_affine"},
          {"in", "flip"},
          {"prob", 1},
          {"rotate_range", 0.3},
          {"padding_mode", "zeros"}}},
        {"back", {{"type", "invert"}, {"in", "affine"}, {"keys", "label"}}},
        {"whole", {{"type", "collect"}, {"in", "s"}}},
        {"sink", {{"type", "collect"}, {"in", "back"}}}}}};
  const auto agreeing = [&](const Collected& c) {
    double same = 0, all = 0;
    for (std::size_t i = 0; i < 3; ++i) {
      const at::Tensor &a = c.epochs.at("whole/0")[i]->tensor("label"),
                       &b = c.epochs.at("sink/0")[i]->tensor("label");
      REQUIRE(a.sizes() == b.sizes());
      const at::Tensor either = (a > 0).logical_or(b > 0);
      same += (a == b).logical_and(either).sum().item<double>();
      all += either.sum().item<double>();
    }
    return same / all;
  };
  const double lazy = agreeing(run_graph(graph)),
               plain = agreeing(run_graph(with(graph, "lazy", false)));
  CHECK(lazy > 0.8);
  CHECK(lazy > plain);  // one nearest sampling loses less than two
}

TEST_CASE("how far one resampling is from three, on a smooth and on a real image") {
  const char* data = std::getenv("SLUICE_TEST_DATA");
  const std::string file =
      std::string(data ? data : "") + "/Task04_Hippocampus/imagesTr/hippocampus_001.nii.gz";
  const Json item = {{"image", file}};
  const Json source = {{"type", "file_list"}, {"items", Json::array({item})}};
  if (!data) MESSAGE("skipped: SLUICE_TEST_DATA names no folder with real data");
  if (!data) return;
  for (const bool real : {false, true}) {
    Json graph = {
        {"name", "g"},
        {"nodes",
         {{"files", source},
          {"load", {{"type", "load_image"}, {"in", "files"}, {"keys", "image"}}},
          {"unit", {{"type", "scale_intensity"}, {"in", "load"}}},
          {"zoom",
           {{"type", "zoom"},
            {"in", "unit"},
            {"keys", "image"},
            {"zoom", 1.1},
            {"mode", "trilinear"}}},
          {"turn",
           {{"type", "rotate"}, {"in", "zoom"}, {"keys", "image"}, {"angle", {0.2, -0.1, 0.4}}}},
          {"affine",
           {{"type", "rand_affine"},
            {"in", "turn"},
            {"keys", "image"},
            {"prob", 1},
            {"rotate_range", 0.3},
            {"padding_mode", "border"}}},
          {"sink", {{"type", "collect"}, {"in", "affine"}}}}}};
    if (!real)
      graph["nodes"]["unit"] = {
          {"type", "gaussian_smooth"}, {"in", "load"}, {"keys", "image"}, {"sigma", 3}};
    const auto image = [](const Collected& c) {
      REQUIRE(c.failure == "");
      return c.epochs.at("sink/0").front()->tensor("image");
    };
    const at::Tensor three = image(run_graph(graph)),
                     one = image(run_graph(with(graph, "lazy", true)));
    const float range = (three.max() - three.min()).item<float>();
    // The inner half of each axis: what the chain's crop in between cut off, the product of the
    // maps still reads.
    at::Tensor error = (three - one).abs() / range;
    for (std::int64_t d = 1; d < 4; ++d)
      error = error.narrow(d, error.size(d) / 4, error.size(d) / 2);
    MESSAGE(std::string(real ? "a hippocampus: mean " : "the same, smoothed by 3 voxels: mean ")
            << error.mean().item<float>() << ", most " << error.max().item<float>()
            << " of the range");
    CHECK(error.mean().item<float>() < (real ? 0.03f : 0.003f));
    CHECK(error.mean().item<float>() > 1e-5f);
  }
}

namespace {

std::int64_t sum_of(const Collected& c, std::int64_t Reading::*ns) {
  std::int64_t sum = 0;
  for (const auto& [path, r] : c.read) sum += r.*ns;
  return sum;
}

// A slow smoothing between two quick nodes, and a batch that ends the run where `batched`.
Json smoothed(bool batched) {
  Json nodes = {
      {"s", synthetic(6)},
      {"kept", {{"type", "cache"}, {"in", "s"}}},
      {"scale", {{"type", "scale_intensity_range"}, {"in", "kept"}, {"a_min", 0}, {"a_max", 2}}},
      {"smooth", {{"type", "rand_gaussian_smooth"}, {"in", "scale"}, {"prob", 1}}},
      {"shift", {{"type", "rand_shift_intensity"}, {"in", "smooth"}, {"prob", 1}, {"offsets", 1}}}};
  for (const char* axis : {"sigma_x", "sigma_y", "sigma_z"}) nodes["smooth"][axis] = {11, 12};
  if (batched) nodes["batch"] = {{"type", "batch"}, {"in", "shift"}, {"size", 3}};
  nodes["sink"] = {{"type", "collect"}, {"in", batched ? "batch" : "shift"}};
  return {{"name", "g"}, {"nodes", nodes}};
}

// Whether the times say so in one of some runs: others may have been held up by other processes.
bool once(const Json& graph, const std::function<bool(const Collected&)>& says) {
  for (int run = 0; run < 10; ++run) {
    const Collected c = run_graph(graph);
    REQUIRE(c.failure == "");
    CHECK(sum_of(c, &Reading::busy_ns) == sum_of(c, &Reading::body_ns));
    if (says(c)) return true;
  }
  return false;
}

}  // namespace

TEST_CASE("of a fused run each member gets its own share of the time, whoever did the work") {
  for (const bool batched : {false, true}) {
    CAPTURE(batched);
    CHECK(once(smoothed(batched), [&](const Collected& c) {
      const std::int64_t smooth = c.read.at("smooth").busy_ns;
      return smooth > 3 * c.read.at("scale").busy_ns && smooth > 3 * c.read.at("shift").busy_ns &&
             smooth > 3 * c.read.at("smooth").body_ns &&  // its own bodies only write it down
             (!batched || smooth > 3 * c.read.at("batch").busy_ns);
    }));
  }
}

TEST_CASE("a flip in a resampling's gather is stated as one pass with it") {
  const Json graph{{"name", "g"},
                   {"nodes",
                    {{"s", synthetic(4)},
                     {"space", {{"type", "spacing"}, {"in", "s"}, {"pixdim", 0.7}}},
                     {"flip", {{"type", "rand_flip"}, {"in", "space"}, {"prob", 1}}},
                     {"sink", {{"type", "collect"}, {"in", "flip"}}}}}};
  CHECK(once(graph, [&](const Collected& c) {
    const Reading &space = c.read.at("space"), &flip = c.read.at("flip");
    CHECK(space.with == 3);
    CHECK(space.shared_ns > 0);
    CHECK(flip.with == 0);
    return space.busy_ns > 3 * flip.busy_ns;
  }));
}

TEST_CASE("a failure in a fused run names the member whose work failed, with a batch too") {
  for (const bool batched : {false, true})
    for (const bool quarantine : {false, true}) {
      CAPTURE(batched);
      CAPTURE(quarantine);
      Json nodes = {
          {"s", synthetic(4)},
          {"real", {{"type", "scale_intensity"}, {"in", "s"}, {"keys", {"image", "label"}}}},
          {"two",
           {{"type", "concat_items"},
            {"in", "real"},
            {"keys", {"image", "label"}},
            {"name", "image"}}},
          {"kept", {{"type", "cache"}, {"in", "two"}}},
          {"flip", {{"type", "rand_flip"}, {"in", "kept"}, {"prob", 1}}},
          {"jitter",
           {{"type", "rand_color_jitter"}, {"in", "flip"}, {"prob", 1}, {"brightness", 0.3}}},
          {"shift",
           {{"type", "rand_shift_intensity"}, {"in", "jitter"}, {"prob", 1}, {"offsets", 1}}}};
      if (batched) nodes["batch"] = {{"type", "batch"}, {"in", "shift"}, {"size", 2}};
      nodes["sink"] = {{"type", "collect"}, {"in", batched ? "batch" : "shift"}};
      if (quarantine)
        for (const char* name : {"flip", "jitter", "shift", "batch"})
          if (nodes.contains(name)) {
            nodes[name]["on_error"] = "quarantine";
            nodes[name]["max_bad"] = 10;
          }
      const Collected c = run_graph({{"name", "g"}, {"nodes", nodes}});
      const std::string why = "colours need an image of one or three channels";
      INFO(c.failure);
      if (quarantine) {
        REQUIRE(!c.quarantined.empty());
        for (const auto& q : c.quarantined) {
          CHECK(q.starts_with("jitter: "));
          CHECK(q.ends_with(why));
        }
      } else {
        CHECK(c.failure.find("jitter") != std::string::npos);
        CHECK(c.failure.find("shift") == std::string::npos);
        CHECK(c.failure.find("batch") == std::string::npos);
        CHECK(c.failure.find(why) != std::string::npos);
      }
    }
}
