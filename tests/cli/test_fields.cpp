// What `check` knows of the fields that flow along the edges of a graph, with the real node types.
#include <doctest/doctest.h>

#include <array>

#include "tests/cli/shell.h"

using nlohmann::json;
using shell::Folder;

namespace {

// A graph with a source, load_image and what a test brings.
std::string graph(const std::string& nodes, const std::string& net = "") {
  const std::string unet = R"("type": "unet", "spatial_dims": 3, "in_channels": 1,
    "out_channels": 2, "channels": [4, 8, 16], "strides": [2, 2])";
  return "{ \"models\": { \"net\": { " + (net.empty() ? unet : net) +
         " } },\n\"nodes\": { \"cases\": { \"type\": \"decathlon\", \"root\": \"d\" },\n" +
         "\"load\": { \"type\": \"load_image\", \"in\": \"cases\" },\n" + nodes + " } }";
}

json check(const std::string& text) {
  Folder f;
  f.write("g.json", text);
  const auto r = shell::run("cd " + f.path.string() + " && $SLUICE check --json g.json");
  json all = json::array();
  const json said = json::parse(r.out);  // named: the loop's range must outlive the call
  for (const json& d : said.at("graphs").at(0).at("diagnostics"))
    if (d.at("code") != "SL0239" && d.at("code") != "SL0319") all.push_back(d);  // left over here
  return all;
}

// "code path: message (hint)" of each diagnostic.
std::string said(const std::string& text) {
  std::string all;
  for (const json& d : check(text))
    all += d.at("code").get<std::string>() + " " + d.at("path").get<std::string>() + ": " +
           d.at("message").get<std::string>() +
           (d.value("hint", "").empty() ? "" : " (" + d.value("hint", "") + ")") + "\n";
  return all;
}

const char* const forward = R"("batch": { "type": "batch", "in": "sized", "size": 2 },
  "fwd": { "type": "model", "in": "batch", "net": "net" })";

}  // namespace

TEST_CASE("settings a key are one for all, or one for each key") {
  const auto grid = [](const std::string& more) {
    return said(graph(R"("grid": { "type": "spacing", "in": "load", "pixdim": 1)" + more + " }"));
  };
  CHECK(grid("").empty());
  CHECK(grid(R"(, "keys": "image")").empty());  // a default may be for more keys
  CHECK(grid(R"(, "mode": "nearest")").empty());
  CHECK(grid(R"(, "mode": ["nearest"])").empty());
  CHECK(grid(R"(, "mode": ["nearest", "bilinear"])").empty());
  // A part stands for several keys or for one.
  CHECK(grid(R"(, "keys": "image", "mode": ["bilinear", "nearest"])").empty());
  CHECK(grid(R"(, "keys": ["image", "label", "other"])")
            .find("SL0234 nodes.grid.keys: \"mode\": expected 3 entries, or one for all, found 2 "
                  "(by default) (\"keys\" has 3)") != std::string::npos);
}

TEST_CASE("a loss of several outputs has a weight for each, or one for all") {
  const auto loss = [](const std::string& more) {
    return said(graph(std::string(forward) + R"(, "sized": { "type": "resize", "in": "load",
      "spatial_size": 16 }, "loss": { "type": "mse_loss", "in": "fwd", )" +
                      more + " }"));
  };
  const std::string three = R"("key": ["pred", "pred", "pred"], )";
  CHECK(loss(three + R"("head_weights": [1, 0.5, 0.2])").find("SL0234") == std::string::npos);
  CHECK(loss(three + R"("head_weights": 0.5)").find("SL0234") == std::string::npos);
  CHECK(loss(R"("head_weights": [1, 0.5])").find("SL0234") == std::string::npos);  // of a stack
  CHECK(loss(three + R"("head_weights": [1, 0.5])")
            .find("SL0234 nodes.loss.head_weights: \"head_weights\": expected 3 entries, or one "
                  "for all, found 2 (\"key\" has 3)") != std::string::npos);
}

TEST_CASE(
    "a norm and an activation are names that check knows, in any case, alone or with arguments") {
  const auto net = [](const std::string& more) {
    return said(graph(forward, R"("type": "unet", "spatial_dims": 3, "in_channels": 1,
      "out_channels": 2, "channels": [4, 8, 16], "strides": [2, 2], )" +
                                   more));
  };
  for (const char* good : {R"("norm": "Batch", "act": "LeakyReLU")",
                           R"("norm": ["GROUP", { "num_groups": 2 }], "act": ["elu"])"})
    CHECK(net(good).find("SL0230") == std::string::npos);
  CHECK(net(R"("norm": "BACTH")")
            .find("SL0230 models.net.norm: \"norm\": expected one of \"instance\", \"batch\", "
                  "\"group\", found \"BACTH\" (did you mean \"BATCH\"?)") == 0);
  CHECK(net(R"("act": ["rleu", { "inplace": true }])").find("SL0230 models.net.act.0: ") == 0);
}

TEST_CASE("transformers are told how many channels an image has, as MONAI's are") {
  for (const std::string type : {"vit", "vit_auto_enc", "masked_auto_encoder_vit", "unetr"}) {
    CAPTURE(type);
    const auto net = [&](const std::string& more) {
      return said(graph(forward, "\"type\": \"" + type + "\", \"img_size\": 32" + more));
    };
    const char* const outputs = R"(, "out_channels": 2)";
    const std::string rest = (type == "unetr" ? "" : R"(, "patch_size": 4)") +
                             std::string(type.starts_with("masked") ? "" : outputs);
    CHECK(net(rest).find("SL0224 models.net: \"" + type + "\" needs \"in_channels\" (int)") == 0);
    CHECK(net(rest + R"(, "in_channels": 1)").find("models.net") == std::string::npos);
  }
}

TEST_CASE("layers of a network of one's own are checked by their types, and so are their norms") {
  const auto net = [](const std::string& layer) {
    return said(graph(forward, R"("type": "layers", "spatial_dims": 3, "in_channels": 1,
      "out_channels": 2, "layers": { "a": { "in": "image", )" +
                                   layer + " } }"));
  };
  const auto refused = [&](const char* layer) {
    const std::string all = net(layer);
    return all.substr(0, all.find('\n'));
  };
  const char* const conv = R"("type": "convolution", "out_channels": 2, )";
  for (const char* good : {R"("norm": "Batch", "act": "LeakyReLU")",
                           R"("norm": ["GROUP", { "num_groups": 2 }], "act": null)",
                           R"("x-why": "first", "ui": { "at": [1, 2] })"})
    CHECK(net(conv + std::string(good)).find("models.net") == std::string::npos);
  CHECK(refused(R"("type": "norm", "norm": "BACTH")") ==
        "SL0230 models.net.layers.a.norm: \"norm\": expected one of \"instance\", \"batch\", "
        "\"group\", found \"BACTH\" (did you mean \"BATCH\"?)");
  CHECK(refused(R"("type": "act", "act": ["rleu", {}])")
            .starts_with("SL0230 models.net.layers.a.act.0: "));
  CHECK(refused(R"("type": "cnov", "out_channels": 2)") ==
        "SL0203 models.net.layers.a.type: unknown type \"cnov\" (did you mean \"conv\"?)");
  CHECK(refused(R"("type": "conv")").starts_with("SL0224 models.net.layers.a: "));
  CHECK(refused(R"("type": "conv", "out_channels": 0)")
            .starts_with("SL0223 models.net.layers.a.out_channels: "));
  CHECK(
      refused(R"("type": "conv", "out_chanels": 2)").ends_with("(did you mean \"out_channels\"?)"));
  CHECK(refused(R"("desc": "no type")").starts_with("SL0208 models.net.layers.a: "));
  const json schema = json::parse(shell::run("$SLUICE schema").out);
  const json& norm = schema.at("definitions").at("layers.norm").at("properties").at("norm");
  CHECK(norm["anyOf"][0]["then"]["anyOf"][0]["pattern"].get<std::string>().starts_with(
      "^([iI][nN][sS][tT][aA][nN][cC][eE]|[bB][aA]"));
}

TEST_CASE("a field that does not arrive is named, with those that do and the nearest one") {
  CHECK(
      said(graph(R"("flip": { "type": "rand_flip", "in": "load", "keys": ["image", "labl"] })")) ==
      "SL0601 nodes.flip.keys: \"flip\" needs the field \"labl\", but what arrives is \"image\", "
      "\"label\" (did you mean \"label\"?)\n");
  CHECK(said(graph(R"("only": { "type": "select_items", "in": "load", "keys": "image" },
                      "flip": { "type": "rand_flip", "in": "only" })")) ==
        "SL0601 nodes.flip.in: \"flip\" needs the field \"label\" (by default), but what arrives "
        "is \"image\" (name the fields with \"keys\")\n");
  CHECK(said(graph(R"("only": { "type": "select_items", "in": "load", "keys": "image" },
                      "flip": { "type": "rand_flip", "in": "only", "allow_missing_keys": true })"))
            .empty());
  CHECK(said(graph(R"("twice": { "type": "normalize_intensity", "in": "load",
                                 "keys": ["image", "image"] })"))
            .starts_with("SL0611 nodes.twice.keys: "));
}

TEST_CASE("what is wrong with a value that --set gives is said of that") {
  Folder f;
  f.write("g.json", graph(R"("flip": { "type": "rand_flip", "in": "load" })"));
  const auto set = [&](const std::string& value) {
    return shell::run("cd " + f.path.string() + " && $SLUICE check g.json --set '" + value + "'")
        .err;
  };
  for (const std::string value :
       {"nodes.flip.keys=[\"image\", \"labl\"]", "nodes.flip.keys=labl"}) {
    CAPTURE(value);
    CHECK(set(value).find("--> --set " + value + "  (nodes.flip.keys)") != std::string::npos);
  }
}

TEST_CASE("a field whose name two parameters make is known by it") {
  const std::string lists = R"("lists": { "type": "fg_bg_to_indices", "in": "load",
                                           "fg_postfix": "_fg" },
    "crop": { "type": "rand_crop_by_pos_neg_label", "in": "lists", "spatial_size": 8,
              "bg_indices_key": "label_bg_indices", "fg_indices_key": )";
  CHECK(said(graph(lists + R"("label_fg" })")).empty());
  CHECK(
      said(graph(lists + R"("label_fg_indices" })")).find("needs the field \"label_fg_indices\"") !=
      std::string::npos);
}

TEST_CASE("nodes inside a node are checked as the graph's own are") {
  const auto inside = [](const std::string& node) {
    return said(
        graph(R"("pick": { "type": "one_of", "in": "load", "transforms": [[], [)" + node + "]] }"));
  };
  CHECK(inside(R"({ "type": "rand_flip", "prob": 1 })").empty());
  CHECK(
      inside(R"({ "type": "rand_flpi" })").starts_with("SL0203 nodes.pick.transforms.1.0.type: "));
  CHECK(inside(R"({ "type": "rand_flip", "prob": 2 })")
            .starts_with("SL0223 nodes.pick.transforms.1.0.prob: "));
  CHECK(inside(R"({ "type": "rand_flip", "prbo": 1 })")
            .starts_with("SL0221 nodes.pick.transforms.1.0.prbo: "));
  CHECK(inside(R"({ "type": "zoom" })").starts_with("SL0224 nodes.pick.transforms.1.0: "));
  CHECK(inside(R"({ "type": "batch", "size": 2 })").find("expected a transform") !=
        std::string::npos);
  CHECK(inside("7").starts_with("SL0222 nodes.pick.transforms.1.0: "));
  CHECK(inside(R"({ "type": ["flip"] })").starts_with("SL0201 nodes.pick.transforms.1.0.type: "));
}

TEST_CASE("sources say what they emit, by their parameters too") {
  const std::string nodes = R"({ "nodes": { "s": { "type": "file_list", "items":
      [{ "image": "a.nii", "seg": "b.nii" }] },
    "load": { "type": "load_image", "in": "s", "keys": ["image", "mask"] } } })";
  CHECK(said(nodes).find("what arrives is \"image\", \"seg\"") != std::string::npos);
  const std::string folder = R"({ "nodes": { "s": { "type": "file_list", "root": "d",
      "pattern": "*.nii", "key": "ct" }, "load": { "type": "load_image", "in": "s" } } })";
  CHECK(said(folder).find("what arrives is \"ct\"") != std::string::npos);
}

TEST_CASE("paths, single samples and batches are told apart") {
  // What a network made of a batch cannot be had in front of it.
  const std::string net = R"("sized": { "type": "divisible_pad", "in": "load", "k": 4 }, )" +
                          std::string(forward) +
                          R"(, "one": { "type": "fill_holes", "in": "fwd", "keys": )";
  CHECK(said(graph(net + "\"image\" }")).find("(put it in front of \"batch\")") !=
        std::string::npos);
  CHECK(said(graph(net + "\"pred\" }")).find("(put a decollate node in front)") !=
        std::string::npos);
  CHECK(said(graph(R"("flip": { "type": "rand_flip", "in": "cases" })"))
            .starts_with("SL0602 nodes.flip.in: \"flip\" works on \"image\", which is only a path "
                         "here (put load_image in front)\n"));
  CHECK(said(graph(R"("batch": { "type": "batch", "in": "load" },
                      "flip": { "type": "rand_flip", "in": "batch", "keys": "image" })")) ==
        "SL0603 nodes.flip.keys: \"flip\" takes single samples [C, X, Y, Z], but \"image\" is a "
        "batch since \"batch\" (put it in front of \"batch\")\n");
  CHECK(said(graph(R"("batch": { "type": "batch", "in": "load" },
                      "again": { "type": "batch", "in": "batch" })"))
            .starts_with("SL0603 nodes.again.in: \"again\" would make batches of batches: "));
  CHECK(said(graph(R"("fwd": { "type": "model", "in": "load", "net": "net" })")) ==
        "SL0604 nodes.fwd.in: \"fwd\" takes a batch [N, C, X, Y, Z], but \"image\" is a single "
        "sample (put a batch node in front)\n");
}

TEST_CASE("a default that has an entry a key is asked for where there are more keys") {
  const auto with = [](const std::string& more) {
    return said(R"({ "nodes": { "s": { "type": "file_list", "items":
      [{ "t1": "a.nii", "t2": "b.nii", "label": "c.nii" }] },
    "load": { "type": "load_image", "in": "s", "keys": ["t1", "t2", "label"] },
    "grid": { "type": "spacing", "in": "load", "keys": ["t1", "t2", "label"], "pixdim": 1)" +
                more + " } } }");
  };
  CHECK(
      with("") ==
      "SL0234 nodes.grid.keys: \"mode\": expected 3 entries, or one for all, found 2 (by default) "
      "(\"keys\" has 3)\n");
  CHECK(with(R"(, "mode": ["bilinear", "bilinear", "nearest"])") == "");
  CHECK(with(R"(, "mode": "bilinear")") == "");
}

TEST_CASE("what needs files' paths alone stands behind a source too") {
  CHECK(said(graph(R"("list": { "type": "write_datalist", "in": "cases",
                               "output": "dataset.json" })")) == "");
}

TEST_CASE("paths may be copied and selected before they are loaded, and are known to be paths") {
  const auto copied = [](const std::string& load, const std::string& flip) {
    return said(graph(R"("twin": { "type": "copy_items", "in": "cases", "names": "raw" },
      "only": { "type": "select_items", "in": "twin", "keys": ["label", "raw"] }, )" +
                      load + R"("flip": { "type": "rand_flip", "in": )" + flip + " }"));
  };
  const std::string load = R"("loaded": { "type": "load_image", "in": "only", "keys": "raw" }, )";
  CHECK(copied(load, R"("loaded", "keys": "raw")") == "");
  CHECK(
      copied("", R"("only", "keys": "raw")")
          .starts_with("SL0602 nodes.flip.keys: \"flip\" works on \"raw\", which is only a path"));
  CHECK(copied(load, R"("loaded", "keys": "image")").starts_with("SL0601 nodes.flip.keys: "));
  // Each copy is what its own field is.
  const auto mixed = [](const char* key) {
    return said(graph(R"("one": { "type": "load_image", "in": "cases", "keys": "image" },
      "twins": { "type": "copy_items", "in": "one", "keys": ["label", "image"],
                 "names": ["a", "b"] },
      "flip": { "type": "rand_flip", "in": "twins", "keys": )" +
                      std::string(key) + " }"));
  };
  CHECK(mixed("\"b\"") == "");
  CHECK(mixed("\"a\"").starts_with("SL0602 nodes.flip.keys: "));
}

TEST_CASE("a loss or an optimizer without what it needs is found") {
  const std::string size = R"("sized": { "type": "resize_with_pad_or_crop", "in": "load",
                                         "spatial_size": 32 },)";
  CHECK(
      said(graph(size + forward + R"(, "step": { "type": "adam", "in": "fwd", "net": "net" })")) ==
      "SL0601 nodes.step.in: \"step\" needs the field \"loss\", but what arrives is \"image\", "
      "\"label\", \"pred\"\n");
  CHECK(said(graph(size + R"("batch": { "type": "batch", "in": "sized" },
                     "loss": { "type": "dice_loss", "in": "batch", "key": "image" })"))
            .empty());
}

TEST_CASE("fields are followed through the nodes of a step, which are gone behind it") {
  const auto steps = [](const std::string& loss, const std::string& more = "",
                        const std::string& before = "") {
    return graph(R"("sized": { "type": "resize", "in": "load", "spatial_size": 16 },
      "batch": { "type": "batch", "in": "sized", "size": 2 })" +
                 before + R"(,
      "steps": { "type": "several_steps", "in": ")" +
                 (before.empty() ? "batch" : "gpu") + R"(", "net": "net", "times": 2, "step": [
        { "type": "model", "net": "net" },
)" + loss + R"(,
        { "type": "adam", "net": "net" } ] })" +
                 more);
  };
  const std::string right = R"({ "type": "dice_loss", "to_onehot_y": true, "softmax": true })";
  CHECK(said(steps(right)).empty());
  CHECK(said(steps(R"({ "type": "dice_loss", "label_key": "labl" })")) ==
        "SL0601 nodes.steps.step.1.label_key: \"steps.step.1\" needs the field \"labl\", but what "
        "arrives is \"image\", \"label\", \"pred\", \"loss\" (did you mean \"label\"?)\n");
  const json at = check(steps(R"(  { "type": "dice_loss",
    "key": "prde" })"))
                      .at(0);
  CHECK(at.at("place").get<std::string>().starts_with("g.json:10:12"));
  CHECK(at.at("hint") == "did you mean \"pred\"?");
  // A default that does not arrive: at the node's type.
  CHECK(
      said(steps(R"({ "type": "dice_loss", "output_key": "dice" })")) ==
      "SL0601 nodes.steps.step.2.type: \"steps.step.2\" needs the field \"loss\", but what arrives "
      "is \"image\", \"label\", \"pred\", \"dice\"\n");
  // What an earlier node of the step makes is there, what a later one makes is not.
  CHECK(said(steps(R"({ "type": "sum_losses", "keys": "dice" },
        { "type": "dice_loss", "output_key": "dice" })"))
            .starts_with("SL0601 nodes.steps.step.1.keys: "));
  CHECK(said(steps(R"({ "type": "dice_loss", "output_key": "dice" },
        { "type": "sum_losses", "keys": "dice" })"))
            .empty());
  CHECK(said(steps(right, R"(, "after": { "type": "dice_metric", "in": "steps" })"))
            .starts_with("SL0601 nodes.after.in: \"after\" needs the field \"pred\""));
  const char* const moved = R"(, "gpu": { "type": "to_device", "in": "batch" })";
  CHECK(said(steps(right, "", moved)).empty());
  CHECK(said(steps(R"({ "type": "add_constant", "key": "k", "value": 1 },)" + right, "", moved))
            .starts_with("SL0608 nodes.steps.step.1.type: \"steps.step.1\" works on host memory"));
}

TEST_CASE("a step that a variable holds is followed too, and the error stands where it is used") {
  const json all = check(R"({ "vars": { "step": [ { "type": "model", "net": "net" },
      { "type": "mse_loss", "label_key": "noise" }, { "type": "adam", "net": "net" } ] },
    "models": { "net": { "type": "unet", "spatial_dims": 3, "in_channels": 1, "out_channels": 1,
      "channels": [4, 8], "strides": [2] } },
    "nodes": { "cases": { "type": "decathlon", "root": "d" },
      "load": { "type": "load_image", "in": "cases" },
      "batch": { "type": "batch", "in": "load", "size": 1 },
      "steps": { "type": "several_steps", "in": "batch", "net": "net", "times": 2,
                 "step": "@step" } } })");
  REQUIRE(all.size() == 1);
  CHECK(all[0].at("code") == "SL0601");
  CHECK(all[0].at("path") == "nodes.steps.step.1.label_key");
  CHECK(all[0].at("line") == 9);
}

TEST_CASE("sizes, transforms of volumes and networks must agree on the number of spatial axes") {
  CHECK(said(graph(R"("ras": { "type": "rand_orientation", "in": "load" },
                      "sized": { "type": "resize_with_pad_or_crop", "in": "ras",
                                 "keys": "image", "spatial_size": [32, 32] })")) ==
        "SL0605 nodes.sized.spatial_size: \"sized.spatial_size\" is for 2 spatial axes, but "
        "\"image\" has 3 (ras)\n");
  CHECK(said(graph(R"("sized": { "type": "resize_with_pad_or_crop", "in": "load",
                                 "spatial_size": [32, 32] },)" +
                   std::string(forward))) ==
        "SL0605 nodes.fwd.in: network \"net\" has 3 spatial axes, but \"image\" has 2 "
        "(sized.spatial_size)\n");
  CHECK(said(graph(R"("sized": { "type": "resize_with_pad_or_crop", "in": "load",
                                 "spatial_size": [32, 32] },
                      "flip": { "type": "rand_flip", "in": "sized", "keys": "image",
                                "spatial_axis": 2 })")) ==
        "SL0606 nodes.flip.spatial_axis: \"flip.spatial_axis\" names axis 2, but \"image\" has "
        "the spatial axes 0 to 1 (sized.spatial_size)\n");
}

TEST_CASE("a list with one entry an axis is of the image's axes, in every node that has one") {
  for (const char* node :
       {R"("center_spatial_crop", "roi_size")", R"("center_scale_crop", "roi_scale")",
        R"("rand_scale_crop", "roi_scale")", R"("divisible_pad", "k")", R"("zoom", "zoom")",
        R"("rotate", "angle")", R"("gaussian_smooth", "keys": "image", "sigma")",
        R"("gaussian_sharpen", "keys": "image", "sigma2")", R"("median_smooth", "radius")",
        R"("spatial_crop_foreground", "spatial_size")", R"("crop_foreground", "k_divisible")",
        R"("crop_foreground", "margin")",
        R"("distance_transform_edt", "keys": "image", "sampling")",
        R"("rand_grid_distortion", "num_cells")",
        R"("rand_coarse_dropout", "holes": 1, "spatial_size")"}) {
    CAPTURE(std::string(node));
    const auto with = [&](const char* value) {
      return said(
          graph(R"("sized": { "type": "spatial_pad", "in": "load", "spatial_size": [8, 8, 8] },
        "n": { "in": "sized", "type": )" +
                std::string(node) + ": " + value + " }"));
    };
    CHECK_MESSAGE(with("1").empty(), with("1"));
    CHECK_MESSAGE(with("[1, 1, 1]").empty(), with("[1, 1, 1]"));
    CHECK(with("[1, 1]").find("is for 2 spatial axes, but \"image\" has 3 (sized.spatial_size)") !=
          std::string::npos);
  }
}

TEST_CASE("a network's channels, dtype and extents are checked where they are known") {
  const auto sized = [](const char* extent) {
    return std::string(R"("sized": { "type": "resize_with_pad_or_crop", "in": "load",
                          "spatial_size": )") +
           extent + " }," + forward;
  };
  CHECK(said(graph(sized("32"))).empty());
  CHECK(said(graph(sized("30"))) ==
        "SL0609 nodes.fwd.in: network \"net\" halves extents, so they must be multiples of 4, but "
        "axis 0 of \"image\" has 30 (pad or crop to 32 or 28)\n");
  CHECK(said(graph(sized("[32, 34, 32]"))) ==
        "SL0609 nodes.fwd.in: network \"net\" halves extents, so they must be multiples of 4, but "
        "axis 1 of \"image\" has 34 (pad or crop to 36 or 32)\n");
  CHECK(said(graph(R"("infer": { "type": "sliding_window", "in": "load", "net": "net",
                                 "roi_size": 30 })")) ==
        "SL0609 nodes.infer.roi_size: network \"net\" halves extents, so they must be multiples of "
        "4, but axis 0 of \"infer.roi_size\" has 30 (pad or crop to 32 or 28)\n");
  std::string thirds = graph(sized("[32, 32, 32]"));
  thirds.replace(thirds.find("\"strides\": [2, 2]"), 17, "\"strides\": [3, 1]");
  CHECK(said(thirds) ==
        "SL0609 nodes.fwd.in: network \"net\" divides extents by its strides, so they must be "
        "multiples of 3, but axis 0 of \"image\" has 32 (pad or crop to 33 or 30)\n");
  CHECK(said(graph(R"("hot": { "type": "as_discrete", "in": "load", "keys": "image",
                               "to_onehot": 3 },
                      "batch": { "type": "batch", "in": "hot" },
                      "fwd": { "type": "model", "in": "batch", "net": "net" })")) ==
        "SL0607 nodes.fwd.in: network \"net\" takes 1 channel, but \"image\" has 3\n");
  CHECK(said(graph(R"("ints": { "type": "load_image", "in": "cases", "dtype": ["int16", "uint8"] },
                      "batch": { "type": "batch", "in": "ints" },
                      "fwd": { "type": "model", "in": "batch", "net": "net" })")) ==
        "SL0610 nodes.fwd.in: network \"net\" computes with float32, but \"image\" is int16 (let "
        "load_image or a transform make it float32)\n");
}

TEST_CASE("a node for host memory behind to_device is refused, the training region is not") {
  CHECK(said(graph(R"("gpu": { "type": "to_device", "in": "load" },
                      "blur": { "type": "gaussian_smooth", "in": "gpu" })")) ==
        "SL0608 nodes.blur.in: \"blur\" works on host memory, but \"gpu\" moved the samples to the "
        "device (put it in front of \"gpu\")\n");
  CHECK(said(graph(R"("gpu": { "type": "to_device", "in": "load", "device": "cpu" },
                      "blur": { "type": "gaussian_smooth", "in": "gpu" })"))
            .empty());
}

TEST_CASE("fields whose names are put together are known to what reads them") {
  const auto read = [](const std::string& node, const std::string& keys) {
    return said(graph(
        "\"made\": { \"in\": \"load\", " + node +
        "}, \"reader\": { \"type\": \"cast_to_type\", \"in\": \"made\", \"keys\": " + keys + " }"));
  };
  const std::pair<const char*, const char*> all[] = {
      {R"("type": "split_dim", "keys": ["image", "label"], "output_postfixes": ["a", "b"])",
       R"(["image_a", "image_b", "label_a", "label_b", "image"])"},
      {R"("type": "bounding_rect")", R"("label_bbox")"},
      {R"("type": "sobel_gradients", "new_key_prefix": "g_")", R"(["g_image", "image"])"},
      {R"("type": "generate_heatmap", "keys": "image", "spatial_shape": 8)", R"("image_heatmap")"},
      {R"("type": "test_time_augmentation", "net": "net", "transforms": [{ "type": "rand_flip" }])",
       R"(["pred_mode", "pred_mean", "pred_std"])"}};
  for (const auto& [node, keys] : all) CHECK_MESSAGE(read(node, keys) == "", node);
  CHECK(read(all[0].first, R"("image_c")")
            .starts_with("SL0601 nodes.reader.keys: \"reader\" needs the field \"image_c\""));
}

TEST_CASE("a batch of samples whose size depends on the sample is a warning") {
  const json all = check(graph(R"("fore": { "type": "crop_foreground", "in": "load" },
                                  "batch": { "type": "batch", "in": "fore", "size": 2 })"));
  REQUIRE(all.size() == 1);  // image and label in one
  CHECK(all[0].at("code") == "SL0612");
  CHECK(all[0].at("severity") == "warning");
  CHECK(check(graph(R"("fore": { "type": "crop_foreground", "in": "load" },
                       "crop": { "type": "rand_spatial_crop", "in": "fore", "roi_size": 16 },
                       "batch": { "type": "batch", "in": "crop", "size": 2 })"))
            .empty());  // one number holds for every axis
  CHECK(check(graph(R"("fore": { "type": "crop_foreground", "in": "load" },
                       "crop": { "type": "rand_spatial_crop", "in": "fore",
                                 "roi_size": [16, 16, 16] },
                       "batch": { "type": "batch", "in": "crop", "size": 2 })"))
            .empty());
}

TEST_CASE("what is cropped to at most a size, and padded to it, is of one size") {
  const auto padded_to = [](const std::string& size) {
    const json all =
        check(graph(R"("fore": { "type": "crop_foreground", "in": "load" },
        "crop": { "type": "rand_crop_by_pos_neg_label", "in": "fore", "spatial_size": [16, 16, 16],
                  "allow_smaller": true },
        "pad": { "type": "spatial_pad", "in": "crop", "spatial_size": )" +
                    size + R"( }, "batch": { "type": "batch", "in": "pad", "size": 2 })"));
    std::string codes;
    for (const json& d : all) codes += d.at("code").get<std::string>();
    return codes;
  };
  CHECK(padded_to("[16, 16, 16]").empty());
  CHECK(padded_to("16").empty());
  CHECK(padded_to("[16, 16, 24]").empty());
  CHECK(padded_to("[16, 16, 8]") == "SL0612");
}

TEST_CASE("bounds in the wrong order and even kernels are refused before anything runs") {
  const auto code = [](const std::string& node) {
    const json all = check(graph("\"n\": { \"in\": \"load\", " + node + " }"));
    return all.empty() ? "" : all[0].at("code").get<std::string>();
  };
  for (const char* node :
       {R"("type": "rand_gibbs_noise", "alpha": [0.9, 0.1])",
        R"("type": "rand_fourier_dropout", "min_dist": 0.9, "max_dist": 0.1)",
        R"("type": "worsen_label", "voxels": [3, 1])",
        R"("type": "rand_elastic", "sigma_range": [5, 8], "magnitude_range": [9, 3])",
        R"("type": "rand_spacing", "min_pixdim": [1, 2, 1], "max_pixdim": 1.5)",
        R"("type": "clip_intensity_percentiles", "lower": 99, "upper": 1)"})
    CHECK_MESSAGE(code(node) == "SL0236", node);
  CHECK(code(R"("type": "clip_intensity_percentiles", "lower": 99)") == "");
  CHECK(code(R"("type": "sobel_gradients", "kernel_size": 4)") == "SL0223");
  CHECK(code(R"("type": "one_of", "transforms": [])") == "SL0231");
}

TEST_CASE("every node type of this build says what becomes of its samples' fields") {
  const json all = json::parse(shell::run("$SLUICE inspect --json").out);
  for (const json& spec : all) {
    // What one_of and some_of do depends on what stands in them.
    const bool holds_nodes = spec.dump().find("\"name\":\"transforms\"") != std::string::npos &&
                             spec.at("name") != "test_time_augmentation";
    if (!spec.at("network"))
      CHECK_MESSAGE(spec.at("rules").empty() == holds_nodes, spec.at("name"));
  }
}

TEST_CASE("the shipped graphs have neither errors nor warnings") {
  const auto r = shell::run("cd " SLUICE_SOURCE_DIR
                            " && $SLUICE check graphs/*.json graphs/datasets/*.json "
                            "graphs/networks/*.json");
  CHECK(r.code == 0);
  CHECK(r.err == "");
}

TEST_CASE("an optimizer's groups of parameters are checked with the graph") {
  const auto with = [](const std::string& groups) {
    return said(graph(
        R"("sized": { "type": "resize_with_pad_or_crop", "in": "load", "spatial_size": 32 },)" +
        std::string(forward) +
        R"(, "loss": { "type": "dice_loss", "in": "fwd" },
           "step": { "type": "adam", "in": "loss", "net": "net", "groups": )" +
        groups + " }"));
  };
  CHECK(with(R"([{ "match": "bias$", "lr_scale": 0.1 }, { "match": "down", "frozen": true }])")
            .empty());
  for (const auto& [groups, path, word] : {
           std::array<const char*, 3>{R"([{ "mach": "a" }])", "groups.0", "match"},
           {R"([{ "match": "a" }, { "match": "b", "lr": "fast" }])", "groups.1.lr", "float"},
           {R"([{ "match": "a", "lr": 1, "lr_scale": 2 }])", "groups.0", "exclude"},
           {R"([{ "match": "a(" }])", "groups.0.match", "regular expression"},
           {R"([{ "lr": 1 }])", "groups.0", "needs \"match\""},
       }) {
    const std::string found = with(groups);
    INFO(found);
    CHECK(found.find(std::string("nodes.step.") + path) != std::string::npos);
    CHECK(found.find(word) != std::string::npos);
  }
}

TEST_CASE("extents that a node chooses are not stated as those before it, and cubes may turn") {
  const auto after = [](const char* extents, const std::string& node) {
    return said(graph(R"("crop": { "type": "resize_with_pad_or_crop", "in": "load",
                         "spatial_size": )" +
                      std::string(extents) + R"( }, "sized": { "in": "crop", )" + node + " }," +
                      forward));
  };
  const auto refused = [](const std::string& text) { return text.starts_with("SL0609"); };
  CHECK(refused(after("[34, 34, 34]", R"("type": "rand_flip")")));
  CHECK(after("[34, 34, 34]", R"("type": "divisible_pad", "k": 4)").empty());
  CHECK(after("[34, 34, 34]", R"("type": "border_pad", "spatial_border": 1)").empty());
  CHECK(refused(after("[34, 34, 34]", R"("type": "orientation", "axcodes": "RAS")")));
  // One number, before the network says of how many axes.
  CHECK(refused(after("34", R"("type": "rand_flip")")));
  CHECK(refused(after("32", R"("type": "spatial_pad", "spatial_size": 34)")));
  CHECK(after("34", R"("type": "spatial_pad", "spatial_size": 36)").empty());
  CHECK(after("34", R"("type": "resize_with_pad_or_crop", "spatial_size": 32)").empty());
  CHECK(after("34", R"("type": "divisible_pad", "k": 4)").empty());
  CHECK(after("[32, 34, 32]", R"("type": "orientation", "axcodes": "RAS")").empty());
  CHECK(refused(after("[34, 34, 32]", R"("type": "rand_rotate90")")));
  CHECK(refused(after("[32, 34, 34]", R"("type": "rand_rotate90", "spatial_axes": [1, -1])")));
  CHECK(after("[34, 34, 32]", R"("type": "rand_rotate90", "spatial_axes": [0, 2])").empty());
}

TEST_CASE("what has one spatial axis is saved as .npy alone") {
  const auto saved = [](const std::string& ext) {
    const std::string nodes = R"("batch": { "type": "batch", "in": "load", "size": 1 },
  "fwd": { "type": "model", "in": "batch", "net": "net" },
  "one": { "type": "decollate", "in": "fwd" },
  "save": { "type": "save_image", "in": "one", "keys": "pred", "output_ext": ")";
    return said(graph(nodes + ext + "\" }", R"("type": "unet", "spatial_dims": 1,
    "in_channels": 1, "out_channels": 2, "channels": [4, 8], "strides": [2])"));
  };
  CHECK(saved(".npy").empty());
  CHECK(saved(".nii").find("\"save\" takes 2 spatial axes, but \"pred\" has 1") !=
        std::string::npos);
}

TEST_CASE("a network takes what another one has decided, cast to what networks take") {
  const auto cascade = [](const std::string& between) {
    return said(graph(R"("batch": { "type": "batch", "in": "load", "size": 1 },
      "fwd": { "type": "model", "in": "batch", "net": "net" },
      "decide": { "type": "argmax", "in": "fwd", "keys": "pred" }, )" +
                      between));
  };
  CHECK(cascade(R"("next": { "type": "model", "in": "decide", "net": "net", "keys": "pred" })")
            .starts_with("SL0610 nodes.next.keys: "));
  CHECK(cascade(R"("cast": { "type": "cast_to_type", "in": "decide", "keys": "pred" },
      "next": { "type": "model", "in": "cast", "net": "net", "keys": "pred" })")
            .empty());
}

TEST_CASE("what joins, copies or activates predictions hands their gradient on") {
  const auto check_of = [](const std::string& more) {
    return said(graph(R"("batch": { "type": "batch", "in": "load", "size": 1 },
      "fwd": { "type": "model", "in": "batch", "net": "net" },
      "likely": { "type": "activations", "in": "fwd", "softmax": true },
      "copy": { "type": "copy_items", "in": "likely", "keys": "pred", "names": ["more"] },
      "join": { "type": "concat_items", "in": "copy", "keys": ["pred", "more"], "name": "both",
                "dim": 1 },)" +
                      more));
  };
  CHECK(check_of(R"("loss": { "type": "dice_loss", "in": "join", "key": "both" },
      "step": { "type": "adam", "in": "loss", "net": "net" })")
            .empty());
  CHECK(check_of(R"("decide": { "type": "argmax", "in": "join", "keys": "both" },
      "loss": { "type": "dice_loss", "in": "decide", "key": "both" },
      "step": { "type": "adam", "in": "loss", "net": "net" })")
            .starts_with("SL0613 nodes.loss"));
}
