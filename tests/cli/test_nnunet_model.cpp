// Models in nnU-Net's folder layout: written from a run, read, predicted with, and refused.
#include <doctest/doctest.h>

#include "tests/cli/nii.h"
#include "tests/cli/tiny_training.h"
#include "tests/text.h"

using nlohmann::json;
namespace fs = std::filesystem;

namespace {

const json network{{"type", "plain_conv_unet"},
                   {"spatial_dims", 3},
                   {"in_channels", 1},
                   {"out_channels", 2},
                   {"features_per_stage", {4, 6}},
                   {"kernel_sizes", {3, 3}},
                   {"strides", {1, 2}},
                   {"n_conv_per_stage", 1},
                   {"n_conv_per_stage_decoder", 1}};

json plans() {
  const json args{{"n_stages", 2},
                  {"features_per_stage", {4, 6}},
                  {"kernel_sizes", {{3, 3, 3}, {3, 3, 3}}},
                  {"strides", {{1, 1, 1}, {2, 2, 2}}},
                  {"n_conv_per_stage", {1, 1}},
                  {"n_conv_per_stage_decoder", {1}},
                  {"conv_bias", true},
                  {"norm_op", "torch.nn.modules.instancenorm.InstanceNorm3d"},
                  {"norm_op_kwargs", {{"eps", 1e-5}, {"affine", true}}},
                  {"dropout_op", nullptr},
                  {"nonlin", "torch.nn.LeakyReLU"},
                  {"nonlin_kwargs", {{"inplace", true}}}};
  const json architecture{
      {"network_class_name", "dynamic_network_architectures.architectures.unet.PlainConvUNet"},
      {"arch_kwargs", args}};
  return {{"dataset_name", "Dataset900_Balls"},
          {"transpose_forward", {0, 1, 2}},
          {"configurations",
           {{"3d_fullres",
             {{"patch_size", {16, 16, 16}},
              {"spacing", {1.0, 1.0, 1.0}},
              {"normalization_schemes", {"ZScoreNormalization"}},
              {"use_mask_for_norm", {false}},
              {"architecture", architecture}}}}}};
}

const std::string model = "nnUNetTrainer__nnUNetPlans__3d_fullres";

// A folder with a run, a model of it in nnU-Net's layout, and images.
struct ModelWorkplace {
  TinyTraining t;

  ModelWorkplace() {
    t.folder.write(model + "/plans.json", plans().dump());
    t.folder.write(model + "/dataset.json", R"({"channel_names": {"0": "MRI"}, "numTraining": 6,
      "labels": {"background": 0, "ball": 1}, "file_ending": ".nii.gz"})");
    must("run g.json --quiet --out run --set 'models.net=" + network.dump() + "'");
    must("convert run " + model + "/fold_0/checkpoint_final.pth");
    fs::create_directories(t.folder.path / "in");
    nii::write(t.folder.path / "in/a_0000.nii", {14, 18, 20}, {1, 1.5f, 1},
               [](int x, int y, int z) {
                 return x < 2 || y < 1 ? 0.f : static_cast<float>(1 + (7 * x + 5 * y + 3 * z) % 11);
               });
    sh("gzip in/a_0000.nii");
  }
  shell::Result sh(const std::string& line) const { return shell::run(t.in_folder + line); }
  shell::Result sluice(const std::string& arguments) const { return sh("$SLUICE " + arguments); }
  void must(const std::string& arguments) const {
    const auto r = sluice(arguments);
    INFO(arguments << '\n' << r.err);
    REQUIRE(r.code == 0);
  }
  void refused(const std::string& arguments, int code, const std::string& why) const {
    const auto r = sluice(arguments);
    INFO(arguments << '\n' << r.err);
    CHECK(r.code == code);
    CHECK(contains(r.err, why));
    CHECK_FALSE(fs::exists(t.folder.path / "p.json"));
  }
  void refused(int code, const std::string& why) const {
    refused("new prediction in --weights " + model + " -o p.json", code, why);
  }
  void plans_with(const std::string& path, const json& value) const {
    json changed = plans();
    changed[json::json_pointer(path)] = value;
    t.folder.write(model + "/plans.json", changed.dump());
  }
  void bytes(const std::string& file, const std::string& text) const {
    std::ofstream(t.folder.path / file, std::ios::binary) << text;
  }
};

const std::string architecture = "/configurations/3d_fullres/architecture/";

}  // namespace

TEST_CASE("a run's weights become nnU-Net's checkpoint and come back, number for number") {
  const ModelWorkplace w;
  const std::string file = model + "/fold_0/checkpoint_final.pth";
  w.must("convert " + file + " back.safetensors");
  const auto sums = [&](const std::string& of) {
    const auto r = w.sluice("weights --json " + of);
    CAPTURE(r.err);
    REQUIRE(r.code == 0);
    return json::parse(r.out);
  };
  CHECK(sums(file) == sums("run --strip-prefix net."));
  CHECK(sums(file) == sums("back.safetensors"));
  CHECK(sums(file)["tensors"].size() == 16);
  w.must("convert back.safetensors " + model + "/fold_all/checkpoint_final.pth");

  const auto brief = w.sluice("convert back.safetensors again.safetensors");
  CHECK(contains(brief.out, "16 tensors, "));
  CHECK_FALSE(contains(brief.out, "encoder."));
  w.refused("convert run " + file, 2, "is there already and stays as it is");
  w.refused("convert run x.pth", 2, "stands in TRAINER__PLANS__CONFIGURATION/fold_0");
  w.refused("convert run fold_0/x.pth", 3, "plans.json: no such file");
  w.refused("convert run x.onnx", 2, "weights are written as .safetensors, or as nnU-Net's .pth");
  w.plans_with(architecture + "arch_kwargs/features_per_stage", {4, 8});
  w.refused("convert run " + model + "/fold_1/x.pth", 2, "other shapes than network");
  w.plans_with(architecture + "arch_kwargs/n_conv_per_stage", {1, 2});
  w.refused("convert run " + model + "/fold_1/x.pth", 2,
            "no tensor \"encoder.stages.1.0.convs.1.conv.weight\"");
}

TEST_CASE("a model of nnU-Net's predicts, with one fold and with the mean of several") {
  const ModelWorkplace w;
  w.must("new prediction in --weights " + model + " -o p.json");
  w.must("run p.json --quiet --out one");
  CHECK(fs::exists(w.t.folder.path / "one/segmentations/a.nii.gz"));
  w.must("convert run " + model + "/fold_3/checkpoint_final.pth");
  w.must("new prediction in --weights " + model + " -o two.json");
  CHECK(contains(w.t.folder.read("two.json"), "fold_3/checkpoint_final.pth\"]"));
  w.must("run two.json --quiet --out two");  // the mean of twice the same
  CHECK(w.sh("cmp one/segmentations/a.nii.gz two/segmentations/a.nii.gz").code == 0);
  w.must("new prediction in --weights " + model + "/fold_3 -o three.json");
  CHECK_FALSE(contains(w.t.folder.read("three.json"), "fold_0"));

  // Plans of nnU-Net 2.0 say the same of this network in other words.
  json old = plans();
  json& configuration = old["configurations"]["3d_fullres"];
  configuration.erase("architecture");
  configuration.update({{"UNet_class_name", "PlainConvUNet"},
                        {"UNet_base_num_features", 4},
                        {"unet_max_num_features", 6},
                        {"n_conv_per_stage_encoder", {1, 1}},
                        {"n_conv_per_stage_decoder", {1}},
                        {"conv_kernel_sizes", {{3, 3, 3}, {3, 3, 3}}},
                        {"pool_op_kernel_sizes", {{1, 1, 1}, {2, 2, 2}}}});
  w.t.folder.write(model + "/plans.json", old.dump());
  w.must("convert run " + model + "/fold_0/old.pth");
  w.sh("rm -r " + model + "/fold_3; mv " + model + "/fold_0/old.pth " + model +
       "/fold_0/checkpoint_final.pth");
  w.must("new prediction in --weights " + model + " -o old.json");
  w.must("run old.json --quiet --out old");
  CHECK(w.sh("cmp one/segmentations/a.nii.gz old/segmentations/a.nii.gz").code == 0);
}

TEST_CASE("several models of nnU-Net's predict by the mean of their probabilities") {
  const ModelWorkplace w;
  const auto predict = [&](const std::string& models, const std::string& out) {
    w.must("new prediction in --weights " + models + " -o " + out + ".json");
    w.must("run " + out + ".json --quiet --out " + out);
    return out + "/segmentations/a.nii.gz";
  };
  const auto equal = [&](const std::string& a, const std::string& b) {
    return w.sh("cmp " + a + " " + b).code == 0;
  };
  const std::string one = predict(model, "one");
  w.sh("mkdir other && cp -r " + model + " other");
  CHECK(equal(predict(model + " other/" + model, "same"), one));
  CHECK(
      contains(w.t.folder.read("same.json"), "Of configurations: the mean of their probabilities"));

  // Weights that say the opposite of the first ones win where they are sure by more.
  w.must(
      "run g.json --quiet --out untrained --set run.epochs=1 --set run.seed=7 --set 'models.net=" +
      network.dump() + "'");
  w.sh("rm other/" + model + "/fold_0/*");
  w.must("convert untrained other/" + model + "/fold_0/checkpoint_final.pth");
  const std::string ab = predict(model + " other/" + model, "ab");
  CHECK(equal(ab, predict("other/" + model + " " + model, "ba")));
  CHECK_FALSE(equal(ab, one));

  w.t.folder.write("other/" + model + "/dataset.json", R"({"channel_names": {"0": "MRI"},
    "numTraining": 6, "labels": {"background": 0, "a": 1, "b": 2}, "file_ending": ".nii.gz"})");
  w.refused("new prediction in --weights " + model + " other/" + model + " -o p.json", 3,
            "is of other channels or labels than");
  w.refused("new prediction in --weights " + model + " run -o p.json", 2,
            "several --weights are models of nnU-Net's");
}

TEST_CASE("a network of several weights does not train") {
  const ModelWorkplace w;
  w.refused("run g.json --quiet --no-out --set 'models.net=" + network.dump() +
                "' --set '+models.net.weights=[\"run\",\"run\"]'",
            2, "is the mean of several weights, which node \"step\" cannot train");
}

TEST_CASE("what is wrong with a model of nnU-Net's is said, and nothing is written") {
  const ModelWorkplace w;
  const auto restore = [&] { w.t.folder.write(model + "/plans.json", plans().dump()); };
  w.plans_with(architecture + "network_class_name", "nnunetv2.nets.PrimusM");
  w.refused(3, "network \"nnunetv2.nets.PrimusM\" is not known; known are PlainConvUNet and");
  w.plans_with(architecture + "arch_kwargs/norm_op", "torch.nn.BatchNorm3d");
  w.refused(3, "norm_op \"BatchNorm3d\" is not known; known is InstanceNorm");
  w.plans_with("/configurations/3d_fullres/previous_stage", "3d_lowres");
  w.refused(3, "takes the labels of \"3d_lowres\"");
  w.plans_with("/configurations/3d_fullres/normalization_schemes", {"MyNormalization"});
  w.refused(3, "MyNormalization");
  w.plans_with("/image_reader_writer", "NaturalImage2DIO");
  w.refused(3, "image_reader_writer \"NaturalImage2DIO\" is for pictures or not known");
  w.plans_with("/configurations", json::object());
  w.refused(3, "has no \"3d_fullres\"");
  w.plans_with("/configurations/3d_fullres/patch_size", {16, 16, 8});
  w.refused(3, "was trained with other plans than");
  restore();
  w.must("convert run " + model + "/fold_1/checkpoint_final.pth");
  w.plans_with(architecture + "arch_kwargs/strides", {{1, 1, 1}, {1, 2, 2}});
  w.refused(3, "\"architecture\" is");
  restore();
  w.sh("mv " + model + "/dataset.json d");
  w.refused(3, "dataset.json: no such file");
  w.sh("mv d " + model + "/dataset.json; touch in/a_0001.nii.gz");
  w.refused(3, "case \"a\" has the channels 0000, 0001; the model's are 0000 MRI");
  w.sh("rm in/*");
  nii::write(w.t.folder.path / "in/flat_0000.nii", {14, 18, 1}, {1, 1, 1},
             [](int x, int y, int) { return float(x + y); });
  w.sh("gzip in/flat_0000.nii");
  w.refused(3, "has one slice, 14 x 18 x 1; the model of 3d_fullres is for volumes");
  w.sh("rm in/*; touch in/b.nii.gz");
  w.refused(3, "no file is named CASE_0000.nii.gz");
  w.sh("mv " + model + "/fold_0/checkpoint_final.pth " + model +
       "/fold_0/checkpoint_best.pth; rm -rf " + model + "/fold_[1-9a]*");
  w.refused(3, "a file may be given by its own name: fold_0/checkpoint_best.pth");
  w.sh("rm -r " + model + "/fold_*");
  w.refused(3, "no fold_*/checkpoint_final.pth in it");
}

TEST_CASE("a checkpoint of nnU-Net's that is cut or flipped is refused") {
  const ModelWorkplace w;
  const std::string file = model + "/fold_0/checkpoint_final.pth", whole = w.t.folder.read(file);
  w.bytes(file, whole.substr(0, whole.size() / 2));
  w.refused(3, "is cut short, or no zip archive");
  std::string flipped = whole;
  flipped[whole.find("patch_size") + 3] ^= 4;
  w.bytes(file, flipped);
  w.refused(3, "is damaged");
  w.bytes(file, "");
  w.refused(3, file);
}

TEST_CASE("nnU-Net's own model segments real images as nnU-Net does, voxel for voxel") {
  const std::string data = shell::test_data();
  if (data.empty()) {
    MESSAGE("skipped: SLUICE_TEST_DATA names no folder with real data");
    return;
  }
  const shell::Folder folder;
  const std::string given = data + "/nnunet_model/",
                    go = "cd " + folder.path.string() + "; $SLUICE ";
  const auto made = shell::run(go + "new prediction " + given + "images --weights " + given +
                               model + " -o p.json && $SLUICE run p.json --quiet --out out");
  INFO(made.err);
  REQUIRE(made.code == 0);
  for (const char* name : {"008", "020", "034"}) {
    const std::string file = "hippocampus_" + std::string(name) + ".nii.gz";
    const auto same =
        shell::run("cmp <(zcat " + folder.path.string() + "/out/segmentations/" + file +
                   " | tail -c +353) <(zcat " + given + "nnunet_says/" + file + " | tail -c +353)");
    CHECK_MESSAGE(same.code == 0, file, same.out);
  }
  // Its repeated names and numpy's scalars are read: 188 entries are 68 parameters.
  const auto weights =
      shell::run(go + "convert " + given + model + "/fold_0/checkpoint_final.pth w.safetensors");
  CHECK(contains(weights.out, "68 tensors, 71589 numbers"));
}
