// `sluice new bundle`: small bundles of our own as graphs, and what is refused.
#include <doctest/doctest.h>

#include "tests/cli/nii.h"
#include "tests/cli/shell.h"
#include "tests/text.h"

using nlohmann::json;
using shell::Folder;

namespace {

struct Bundle {
  Folder folder;
  shell::Result run(const std::string& command) const {
    return shell::run("cd " + folder.path.string() + " && $SLUICE " + command);
  }
  // A graph that is there already would stay as it is.
  shell::Result make(const std::string& more = "") const {
    std::filesystem::remove(folder.path / "graph.json");
    return run("new bundle b -o graph.json " + more);
  }
  // Makes the graph, which must succeed.
  shell::Result made(const std::string& more = "") const {
    const auto result = make(more);
    INFO(result.err);
    REQUIRE(result.code == 0);
    return result;
  }
  void succeeds(const std::string& command) const {
    const auto result = run(command);
    INFO(result.err);
    CHECK(result.code == 0);
  }
  void write(const json& config) const { folder.write("b/configs/inference.json", config.dump(1)); }
  // The graph of a configuration.
  json graph_of(const json& config) const {
    write(config);
    made();
    return graph();
  }
  json graph() const {
    return json::parse(folder.read("graph.json"), nullptr, true, /*ignore_comments=*/true);
  }
};

json transform(const std::string& target, json more) {
  json t = {{"_target_", target}, {"keys", "image"}};
  t.update(more);
  return t;
}

// A bundle whose data are b/data/*.nii and whose network is small.
json inference() {
  return {
      {"imports", {"$import glob", "$import os"}},
      {"bundle_root", "."},
      {"output_dir", "$@bundle_root + '/eval'"},
      {"ckpt", "$@bundle_root + '/models/model.pt'"},
      {"files", "$list(sorted(glob.glob(os.path.join('data', '*.nii'))))"},
      {"device", "$torch.device('cuda:0' if torch.cuda.is_available() else 'cpu')"},
      {"network_def",
       {{"_target_", "UNet"},
        {"spatial_dims", 3},
        {"in_channels", 1},
        {"out_channels", 2},
        {"channels", {4, 8}},
        {"strides", {2}},
        {"norm", "batch"}}},
      {"network", "$@network_def.to(@device)"},
      {"preprocessing",
       {{"_target_", "Compose"},
        {"transforms",
         {transform("LoadImaged", json::object()), transform("EnsureChannelFirstd", json::object()),
          transform("Orientationd", {{"axcodes", "RAS"}}),
          transform("Spacingd", {{"pixdim", {2, 2, 2}}, {"mode", "bilinear"}})}}}},
      {"dataset",
       {{"_target_", "Dataset"},
        {"data", "$[{'image': i} for i in @files]"},
        {"transform", "@preprocessing"}}},
      {"dataloader", {{"_target_", "DataLoader"}, {"dataset", "@dataset"}, {"num_workers", 2}}},
      {"inferer",
       {{"_target_", "SlidingWindowInferer"},
        {"roi_size", {8, 8, 8}},
        {"sw_batch_size", 2},
        {"overlap", 0.5}}},
      {"postprocessing",
       {{"_target_", "Compose"},
        {"transforms",
         {{{"_target_", "Activationsd"}, {"keys", "pred"}, {"softmax", true}},
          {{"_target_", "Invertd"},
           {"keys", "pred"},
           {"transform", "@preprocessing"},
           {"orig_keys", "image"},
           {"nearest_interp", false}},
          {{"_target_", "AsDiscreted"}, {"keys", "pred"}, {"argmax", true}},
          {{"_target_", "SaveImaged"},
           {"keys", "pred"},
           {"output_dir", "@output_dir"},
           {"output_dtype", "$torch.uint8"},
           {"output_postfix", "seg"}}}}}},
      {"handlers",
       {{{"_target_", "CheckpointLoader"},
         {"_disabled_", "$not os.path.exists(@ckpt)"},
         {"load_path", "@ckpt"},
         {"load_dict", {{"model", "@network"}}}},
        {{"_target_", "StatsHandler"}, {"output_transform", "$lambda x: None"}}}},
      {"evaluator",
       {{"_target_", "SupervisedEvaluator"},
        {"device", "@device"},
        {"val_data_loader", "@dataloader"},
        {"network", "@network"},
        {"inferer", "@inferer"},
        {"postprocessing", "@postprocessing"},
        {"val_handlers", "@handlers"}}},
      {"run", {"$@evaluator.run()"}}};
}

// A small training that validates after each epoch.
json training() {
  json config = inference();
  const json both = {"image", "label"};
  const json chain = {{"_target_", "Compose"},
                      {"transforms",
                       {transform("LoadImaged", {{"keys", both}}),
                        transform("EnsureChannelFirstd", {{"keys", both}})}}};
  const json data = {{"_target_", "Dataset"},
                     {"data", "$[{'image': i, 'label': i} for i in @files]"},
                     {"transform", chain}};
  const json metric = {{"_target_", "MeanSquaredError"},
                       {"output_transform", "$monai.handlers.from_engine(['pred', 'label'])"}};
  config.erase("run");
  config["evaluator"]["val_data_loader"] = {{"_target_", "DataLoader"}, {"dataset", data}};
  config["evaluator"]["postprocessing"] = nullptr;
  config["evaluator"]["key_val_metric"] = {{"val_mse", metric}};
  config["evaluator"]["val_handlers"] = {{{"_target_", "CheckpointSaver"},
                                          {"save_dir", "models"},
                                          {"save_dict", {{"model", "@network"}}},
                                          {"save_key_metric", true}}};
  config["optimizer"] = {
      {"_target_", "torch.optim.SGD"}, {"params", "$@network.parameters()"}, {"lr", 1.0}};
  config["trainer"] = {
      {"_target_", "SupervisedTrainer"},
      {"max_epochs", 20},
      {"device", "@device"},
      {"train_data_loader",
       {{"_target_", "DataLoader"}, {"dataset", data}, {"batch_size", 2}, {"shuffle", true}}},
      {"network", "@network"},
      {"loss_function", {{"_target_", "DiceLoss"}, {"to_onehot_y", true}, {"softmax", true}}},
      {"optimizer", "@optimizer"},
      {"inferer", {{"_target_", "SimpleInferer"}}},
      {"train_handlers", {{{"_target_", "ValidationHandler"}, {"validator", "@evaluator"}}}}};
  return config;
}

json training_graph(const json& config) {
  Bundle b;
  b.folder.write("b/configs/train.json", config.dump(1));
  b.made("--task train");
  return b.graph();
}

shell::Result training_refused(const json& config) {
  Bundle b;
  b.folder.write("b/configs/train.json", config.dump(1));
  return b.make("--task train");
}

void check_refused(const shell::Result& result, const std::string& why) {
  INFO(result.err);
  CHECK(result.code == 3);
  CHECK(result.err.find(why) != std::string::npos);
}

void write_data(const Bundle& b) {
  for (const char* name : {"b/data/one.nii", "b/data/two.nii"})
    nii::write(b.folder.path / name, {12, 10, 8}, {1, 1, 1.5},
               [](int x, int y, int z) { return static_cast<float>(x + y * z); });
}

}  // namespace

TEST_CASE("a bundle's inference becomes a graph that says where each part stood, and runs") {
  Bundle b;
  write_data(b);
  b.write(inference());
  const auto made = b.made();
  CHECK(made.err.find("CheckpointLoader: without effect here: _disabled_ is $not") !=
        std::string::npos);
  const std::string text = b.folder.read("graph.json");
  CHECK(text.find("// configs/inference.json:") != std::string::npos);
  CHECK(text.find("preprocessing.transforms.3 (Spacingd)") != std::string::npos);
  CHECK(b.run("fmt --check graph.json").out.empty());
  // Every component is in one line of the report.
  const std::string report = b.folder.read("graph.import.txt");
  CHECK(occurrences(report, "\n") == occurrences(inference().dump(), "_target_"));
  const json nodes = b.graph()["nodes"];
  CHECK(nodes["spacing"]["pixdim"] == json{2, 2, 2});
  CHECK(nodes["invert"]["mode"] == "bilinear");
  CHECK(b.graph()["models"]["net"]["norm"] == "batch");
  b.succeeds("run graph.json --quiet --no-out");
  CHECK(std::filesystem::exists(b.folder.path / "b/eval/one/one_seg.nii.gz"));
  CHECK(std::filesystem::exists(b.folder.path / "b/eval/two/two_seg.nii.gz"));
}

TEST_CASE("a bundle's training becomes a graph that trains, caches and validates") {
  Bundle b;
  for (int i = 0; i < 4; ++i)
    nii::write_pair(b.folder.path / ("b/img" + std::to_string(i) + ".nii"),
                    b.folder.path / ("b/lbl" + std::to_string(i) + ".nii"), {16, 16, 12}, {1, 1, 1},
                    1, 0);
  b.folder.write("b/configs/train.yaml", R"yaml(
# a small training
imgs: $sorted(glob.glob(@bundle_root + '/img*.nii'))
lbls: "$[i.replace('img', 'lbl') for i in @imgs]"
pairs: "$[{'image': i, 'label': l} for i, l in zip(@imgs, @lbls)]"
parts: $monai.data.partition_dataset(@pairs, (3, 1), shuffle=True, seed=0)
bundle_root: .
both: &both [image, label]
network: {_target_: UNet, spatial_dims: 3, in_channels: 1, out_channels: 2, channels: [4, 8],
          strides: [2]}
fixed:
- {_target_: LoadImaged, keys: *both}
- {_target_: EnsureChannelFirstd, keys: *both}
drawn:
- {_target_: RandFlipd, keys: *both, prob: 0.5, spatial_axis: 0}
- {_target_: RandCropByPosNegLabeld, keys: *both, label_key: label, spatial_size: [8, 8, 8],
   num_samples: 2}
optimizer: {_target_: torch.optim.Adam, params: $@network.parameters(), lr: 0.001}
train:
  data: {_target_: CacheDataset, data: '$@parts[0]', cache_rate: 1.0,
         transform: {_target_: Compose, transforms: $@fixed + @drawn}}
  loader: {_target_: DataLoader, dataset: '@train#data', batch_size: 2, shuffle: true}
  trainer:
    _target_: SupervisedTrainer
    max_epochs: 2
    train_data_loader: '@train#loader'
    network: '@network'
    loss_function: {_target_: DiceCELoss, to_onehot_y: true, softmax: true}
    optimizer: '@optimizer'
    inferer: {_target_: SimpleInferer}
    key_train_metric: {acc: {_target_: ignite.metrics.Accuracy,
      output_transform: "$monai.handlers.from_engine(['pred', 'label'])"}}
    train_handlers:
    - {_target_: LrScheduleHandler, lr_scheduler: {_target_: torch.optim.lr_scheduler.StepLR,
         optimizer: '@optimizer', step_size: 1, gamma: 0.5}}
    - {_target_: ValidationHandler, validator: '@validate#evaluator', interval: 2}
    - {_target_: StatsHandler}
validate:
  data: {_target_: Dataset, data: '$@parts[1]',
         transform: {_target_: Compose, transforms: '%fixed'}}
  loader: {_target_: DataLoader, dataset: '@##data'}
  evaluator:
    _target_: SupervisedEvaluator
    val_data_loader: '@validate::loader'
    network: '@network'
    postprocessing:
      _target_: Compose
      transforms:
      - {_target_: AsDiscreted, keys: [pred, label], argmax: [true, false], to_onehot: 2}
    key_val_metric: {val_dice: {_target_: MeanDice, include_background: false,
      output_transform: "$monai.handlers.from_engine(['pred', 'label'])"}}
    val_handlers:
    - {_target_: CheckpointSaver, save_key_metric: true}
initialize: [$monai.utils.set_determinism(seed=7)]
)yaml");
  const auto made = b.made("--task train --set train#trainer#max_epochs=1");
  const json graph = b.graph(), nodes = graph["nodes"];
  CHECK(graph["run"]["epochs"] == 1);
  CHECK(graph["run"]["seed"] == 7);
  CHECK(graph["run"]["checkpoint"]["best"] == "val_dice.mean");
  CHECK(nodes["batch"]["size"] == 4);  // two volumes of two patches
  CHECK(nodes["cache"]["in"] == "load");
  CHECK(nodes["rand_flip"]["in"] == "cache");
  CHECK(nodes["step"]["lr_schedule"] == "step");
  CHECK(nodes["step"]["gamma"] == 0.5);
  CHECK(nodes["val"]["every_epochs"] == 2);
  CHECK(nodes["train"]["lists"]["label"]["replace"] == json::array({json::array({"img", "lbl"})}));
  CHECK(nodes["train"]["share"] == 0);
  CHECK(nodes["as_discrete"]["argmax"] == json::array({true, false}));
  CHECK(nodes["acc"]["type"] == "element_accuracy");
  CHECK(made.err.find("configs/train.yaml:") != std::string::npos);
  b.succeeds("run graph.json --quiet --out run --set nodes.val.every_epochs=1");
}

TEST_CASE("a bundle's expressions are worked out as Python does") {
  const std::vector<std::pair<std::string, double>> cases{
      {"$1 + 2 * 3", 7},
      {"$-7 // 2", -4},
      {"$-7 % 3", 2},
      {"$2 ** 3 / 4", 2},
      {"$@two * 3", 6},
      {"$len(@list) + @list[-1]", 33},
      {"$@list#1", 20},
      {"@list::0", 10},
      {"$sum([i for i in @list if i > 10])", 50},
      {"$max(@list)", 30},
      {"$1 if @two == 2 else 0", 1},
      {"$int('4') + int(2.9)", 6},
      {"$(@two, 5)[1]", 5},
      {"$@list[1:][0]", 20},
      {"$len(f'a{@two}b')", 3},
      {"$1 if 'x' in {'x': 1} and not False else 2", 1},
      {"$sum([a * b for a, b in zip(@list, [1, 2, 3])])", 140}};
  json config = inference();
  config["two"] = 2;
  config["list"] = {10, 20, 30};
  for (const auto& [expression, value] : cases)
    config["preprocessing"]["transforms"].push_back(
        transform("ScaleIntensityRanged", {{"a_min", expression}, {"a_max", 1000}}));
  Bundle b;
  const json nodes = b.graph_of(config)["nodes"];
  for (std::size_t i = 0; i < cases.size(); ++i) {
    INFO(cases[i].first);
    const std::string name = "scale_intensity_range" + (i ? std::to_string(i + 1) : "");
    CHECK(nodes[name]["a_min"].get<double>() == cases[i].second);
  }
}

TEST_CASE("a bundle's expressions compare, count and sort as Python does") {
  const std::vector<std::pair<std::string, double>> cases{
      {"$sorted([8, 4, 9], reverse=True)[0]", 9},
      {"$sorted([(2, 1), (1, 3), (1, 2)])[0][1]", 2},
      {"$sum([1, 2], 10)", 13},
      {"$sum([])", 0},
      {"$1 if True == 1 else 5", 1},
      {"$1 if 1 in (True,) else 5", 1},
      {"$5 if True is 1 else 1", 1},
      {"${1: 3}[True]", 3},
      {"$len('ä')", 1},
      {"$len('äb'[1:])", 1},
      {"$len('aaa'.replace('a', 'bb', 1))", 4},
      {"$len(list(set([2, 2, 3])))", 2},
      {"$int(' 1_000 ')", 1000},
      {"$float('.5')", 0.5},
      {"$1 if os.path.isfile('configs') else 2", 2},
      {"$1 if os.path.isdir('configs') else 2", 1}};
  json config = inference();
  for (const auto& [expression, value] : cases)
    config["preprocessing"]["transforms"].push_back(
        transform("ScaleIntensityRanged", {{"a_min", expression}, {"a_max", 2000}}));
  Bundle b;
  json nodes = b.graph_of(config)["nodes"];
  for (std::size_t i = 0; i < cases.size(); ++i) {
    INFO(cases[i].first);
    const std::string name = "scale_intensity_range" + (i ? std::to_string(i + 1) : "");
    CHECK(nodes[name]["a_min"].get<double>() == cases[i].second);
  }
}

TEST_CASE("an argument that a call does not read, and what Python raises for, are refused") {
  const std::pair<const char*, const char*> cases[]{
      {"$min(4, 2, key=lambda x: -x)", "the argument key= of min() is not known here"},
      {"$sorted([8, 4], key=lambda x: -x)[0]", "the argument key= of sorted()"},
      {"$max([], default=3)", "max() of other than numbers"},
      {"$int('11', 2)", "the argument 2 of int()"},
      {"$int('3.7')", "int() of \"3.7\""},
      {"$len([1], 2)", "the argument 2 of len()"},
      {"$'abc'.startswith('b', 1) + 0", "the argument 1 of startswith()"},
      {"$len(os.path.basename('a', 'b'))", "the argument \"b\" of os.path.basename()"},
      {"$1 if 1 in 'abc' else 2", "1 in \"abc\""},
      {"$1 if 'one' in @files else 2", "in a list of files"},
      {"$1.2.3 + 1", "\"1.2.3\" is no number"}};
  for (const auto& [expression, said] : cases) {
    json config = inference();
    config["preprocessing"]["transforms"].push_back(
        transform("ScaleIntensityRanged", {{"a_min", expression}, {"a_max", 1000}}));
    Bundle b;
    b.write(config);
    INFO(expression);
    check_refused(b.make(), said);
  }
  // The order of a list of files is the graph's own.
  json config = inference();
  config["files"] = "$sorted(glob.glob('data/*.nii'), reverse=True)";
  Bundle b;
  b.write(config);
  check_refused(b.make(), "files from the last to the first");
}

TEST_CASE("a bundle whose key metric is an error keeps the epoch of the least") {
  json config = training();
  json checkpoint = training_graph(config)["run"]["checkpoint"];
  CHECK(checkpoint["best"] == "val_mse.mean");
  CHECK(checkpoint["mode"] == "max");  // MONAI's saver goes by the sign alone

  json& saver = config["evaluator"]["val_handlers"][0];
  saver["key_metric_negative_sign"] = true;
  saver["save_interval"] = 2;
  saver["n_saved"] = 4;
  checkpoint = training_graph(config)["run"]["checkpoint"];
  CHECK(checkpoint["mode"] == "min");
  CHECK(checkpoint["every_epochs"] == 2);
  CHECK(checkpoint["keep"] == 4);

  saver["key_metric_negative_sign"] = false;
  for (const char* less : {"$lambda a, b: a < b", "$lambda now, best: best < 0 or now < best"}) {
    config["evaluator"]["metric_cmp_fn"] = less;
    CHECK(training_graph(config)["run"]["checkpoint"]["mode"] == "min");
  }
  config["evaluator"]["metric_cmp_fn"] = "$lambda a, b: a > b";
  CHECK(training_graph(config)["run"]["checkpoint"]["mode"] == "max");

  // By the name that the saver gives.
  config["evaluator"]["additional_metrics"] = {
      {"val_mae", config["evaluator"]["key_val_metric"]["val_mse"]}};
  config["evaluator"]["additional_metrics"]["val_mae"]["_target_"] = "MeanAbsoluteError";
  saver["key_metric_name"] = "val_mae";
  CHECK(training_graph(config)["run"]["checkpoint"]["best"] == "val_mae.mean");
}

TEST_CASE("a metric of training batches names no best epoch, and the report says so") {
  json config = training();
  config["trainer"]["train_handlers"].push_back(config["evaluator"]["val_handlers"][0]);
  config["evaluator"]["val_handlers"] = json::array();
  Bundle b;
  b.folder.write("b/configs/train.json", config.dump(1));
  const auto made = b.made("--task train");
  CHECK(made.err.find("CheckpointSaver.save_key_metric: no counterpart") != std::string::npos);
  CHECK_FALSE(b.graph()["run"]["checkpoint"].contains("best"));
}

TEST_CASE("a schedule's parameters that a bundle leaves out are torch's defaults") {
  struct Case {
    const char* name;
    json given, here;
  };
  const Case cases[]{
      {"torch.optim.lr_scheduler.LinearLR",
       json::object(),
       {{"total_steps", 5}, {"start_factor", 1.0 / 3}, {"end_factor", 1.0}}},
      {"torch.optim.lr_scheduler.PolynomialLR",
       json::object(),
       {{"total_steps", 5}, {"power", 1.0}}},
      {"torch.optim.lr_scheduler.PolynomialLR",
       {{"total_iters", 9}},
       {{"total_steps", 9}, {"power", 1.0}}},
      {"torch.optim.lr_scheduler.StepLR", {{"step_size", 3}}, {{"gamma", 0.1}}},
      {"torch.optim.lr_scheduler.CosineAnnealingLR",
       {{"T_max", 7}},
       {{"total_steps", 7}, {"eta_min", 0.0}}},
      {"torch.optim.lr_scheduler.CosineAnnealingWarmRestarts", {{"T_0", 4}}, {{"T_mult", 1}}},
      {"torch.optim.lr_scheduler.CyclicLR",
       {{"base_lr", 0.1}, {"max_lr", 0.5}},
       {{"lr_schedule", "cyclic"}, {"lr", 0.5}, {"eta_min", 0.1}, {"gamma", 1.0}}},
      {"monai.optimizers.WarmupCosineSchedule",
       {{"warmup_steps", 2}, {"t_total", 20}},
       {{"warmup_multiplier", 0.0}, {"cycles", 0.5}, {"eta_min", 0.0}}}};
  for (const Case& c : cases) {
    INFO(c.name);
    json config = training();
    config["scheduler"] = {{"_target_", c.name}, {"optimizer", "@optimizer"}};
    config["scheduler"].update(c.given);
    config["trainer"]["train_handlers"].push_back(
        {{"_target_", "LrScheduleHandler"}, {"lr_scheduler", "@scheduler"}});
    json step = training_graph(config)["nodes"]["step"];
    for (const auto& [key, value] : c.here.items()) CHECK(step[key] == value);
  }
}

TEST_CASE("what an engine or a handler says and nothing here reads is named") {
  struct Case {
    const char* pointer;
    json value;
    const char* said;
    bool refused;
  };
  const Case cases[]{
      {"/trainer/epoch_length", 1, "SupervisedTrainer.epoch_length: no counterpart", true},
      {"/trainer/epoch_length", nullptr, "", false},
      {"/trainer/accumulation_steps", 4, "SupervisedTrainer.accumulation_steps", true},
      {"/trainer/made_up", 1, "SupervisedTrainer.made_up: no counterpart", true},
      {"/evaluator/epoch_length", 3, "SupervisedEvaluator.epoch_length", true},
      {"/evaluator/mode", "train", "SupervisedEvaluator.mode", true},
      {"/evaluator/mode", "$monai.utils.ForwardMode.EVAL", "", false},
      {"/evaluator/decollate", true, "", false},
      {"/evaluator/decollate", false, "", false},  // nothing comes after the network
      {"/evaluator/metric_cmp_fn", "$lambda a, b: a * 2 > b",
       "SupervisedEvaluator.metric_cmp_fn: no counterpart", false},
      {"/evaluator/val_handlers/0/key_metric_n_saved", 3, "CheckpointSaver.key_metric_n_saved",
       false},
      {"/evaluator/val_handlers/0/made_up", 3, "CheckpointSaver.made_up", false},
      {"/evaluator/val_handlers/0/key_metric_name", "nowhere",
       "CheckpointSaver.save_key_metric: no counterpart", false},
      {"/trainer/train_handlers/0/exec_at_start", true, "ValidationHandler.exec_at_start", false}};
  for (const Case& c : cases) {
    json config = training();
    config[json::json_pointer(c.pointer)] = c.value;
    const auto result = training_refused(config);
    INFO(c.pointer << " " << c.value);
    INFO(result.err);
    CHECK(result.code == (c.refused ? 3 : 0));
    CHECK(result.err.find(c.said) != std::string::npos);
    const std::string key = c.pointer + std::string(c.pointer).rfind('/') + 1;
    if (!*c.said) CHECK(result.err.find("." + key + ": no counterpart") == std::string::npos);
  }
  // A softmax over the batch is not one over the channels.
  json config = inference();
  config["evaluator"]["decollate"] = false;
  Bundle b;
  b.write(config);
  check_refused(b.make(), "SupervisedEvaluator.decollate: no counterpart");
}

TEST_CASE("_disabled_ goes by MONAI's rule for texts, and a text is true elsewhere") {
  const std::pair<json, bool> cases[]{{"false", false}, {"False", false}, {" True ", true},
                                      {"yes", false},   {true, true},     {0, false}};
  for (const auto& [said, disabled] : cases) {
    INFO(said);
    json config = inference();
    config["preprocessing"]["transforms"][2]["_disabled_"] = said;
    Bundle b;
    CHECK(b.graph_of(config)["nodes"].contains("orientation") != disabled);
  }
  json config = inference();
  config["postprocessing"]["transforms"][3]["separate_folder"] = "false";
  Bundle b;
  b.write(config);
  const auto made = b.made();
  CHECK(b.graph()["nodes"]["save"]["separate_folder"] == true);
  CHECK(made.err.find("separate_folder: replaced: by true") != std::string::npos);
}

TEST_CASE("what _disabled_ switches off is left out where a list names it by @") {
  json config = inference();
  config["turned"] = transform("Flipd", {{"spatial_axis", 0}, {"_disabled_", "true"}});
  config["other"] = "@turned";
  config["kept"] = transform("Flipd", {{"spatial_axis", 1}});
  auto& list = config["preprocessing"]["transforms"];
  for (const char* name : {"@turned", "@other", "@kept"}) list.push_back(name);
  Bundle b;
  b.write(config);
  const auto made = b.made();
  const json nodes = b.graph()["nodes"];
  CHECK(nodes["flip"]["spatial_axis"] == 1);
  CHECK_FALSE(nodes.contains("flip2"));
  CHECK(made.err.find("Flipd: without effect here: _disabled_ is true") != std::string::npos);
}

TEST_CASE("a lazy Compose is run.lazy, and its other parameters are not passed over") {
  json config = inference();
  config["preprocessing"]["lazy"] = true;
  config["preprocessing"]["transforms"][3]["lazy"] = true;  // as its chain
  Bundle b;
  b.write(config);
  const auto made = b.made();
  CHECK(b.graph()["run"]["lazy"] == true);
  CHECK(made.err.find("Compose.lazy: translated: run.lazy") != std::string::npos);

  config["preprocessing"]["lazy"] = nullptr;
  b.write(config);
  check_refused(b.make(), "Spacingd.lazy: no counterpart");
  config["preprocessing"]["transforms"][3].erase("lazy");
  config["preprocessing"]["overrides"] = {{"mode", "nearest"}};
  b.write(config);
  check_refused(b.make(), "Compose.overrides: no counterpart");
  config["preprocessing"].update({{"overrides", json::object()}, {"map_items", false}});
  const json graph = b.graph_of(config);
  CHECK_FALSE(graph.contains("run"));
}

TEST_CASE("norms of the same arithmetic become instance and batch, and the report says so") {
  const std::tuple<json, json, const char*> cases[]{
      {"SYNCBATCH", "batch", "norm: replaced: by batch"},
      {{"instance_nvfuser", {{"affine", true}}},
       {"instance", {{"affine", true}}},
       "norm: replaced: by instance"}};
  for (const auto& [given, here, told] : cases) {
    json config = inference();
    config["network_def"]["norm"] = given;
    Bundle b;
    b.write(config);
    CHECK(b.made().err.find(told) != std::string::npos);
    CHECK(b.graph()["models"]["net"]["norm"] == here);
  }
  json config = inference();
  config["network_def"]["norm"] = "LOCALRESPONSE";
  Bundle b;
  b.write(config);
  check_refused(b.make(), "UNet.norm: no counterpart");
}

TEST_CASE("SaveImage's resample is an invert in front, and buffers are told") {
  json config = inference();
  config["inferer"].update({{"buffer_steps", 4}, {"buffer_dim", 1}});
  auto& post = config["postprocessing"]["transforms"];
  post.erase(1);
  post[2].update({{"resample", true}, {"mode", "bilinear"}});
  Bundle b;
  write_data(b);
  b.write(config);
  const auto made = b.made();
  for (const char* told : {"SaveImage.resample: replaced: by an invert in front",
                           "SlidingWindowInferer.buffer_steps: without effect here"})
    CHECK(made.err.find(told) != std::string::npos);
  const json nodes = b.graph()["nodes"];
  CHECK(nodes["invert"]["keys"] == "pred");
  CHECK(nodes["invert"]["mode"] == "bilinear");
  CHECK(nodes["save"]["in"] == "invert");
  CHECK_FALSE(nodes["save"].contains("mode"));
  b.succeeds("run graph.json --quiet --no-out");
  post[2]["mode"] = "bicubic";
  b.write(config);
  check_refused(b.make(), "SaveImage.mode: no counterpart");
}

TEST_CASE("--set reads JSON, Python's literals and texts, as MONAI's command line does") {
  const auto set = [](const std::string& what) {
    Bundle b;
    b.folder.write("b/configs/train.json", training().dump(1));
    const auto made = b.made("--task train --set " + what);
    return std::pair{b.graph(), made.err};
  };
  const std::string shuffle = "trainer#train_data_loader#shuffle=";
  CHECK(set(shuffle + "True").first["nodes"]["train"]["shuffle"] == true);
  for (const char* not_so : {"False", "None", "false"})
    CHECK_FALSE(set(shuffle + not_so).first["nodes"]["train"].contains("shuffle"));
  CHECK(set(shuffle + "no").second.find("shuffle: replaced: by true") != std::string::npos);
  const json graph = set("network_def#channels='(2, 4)' --set network_def#norm=\"'batch'\" --set "
                         "files='$glob.glob(\"x/*.nii\")'")
                         .first;
  CHECK(graph["models"]["net"]["channels"] == json{2, 4});
  CHECK(graph["models"]["net"]["norm"] == "batch");
  CHECK(graph["nodes"]["train"]["lists"]["image"].get<std::string>().ends_with("x/*.nii"));
}

TEST_CASE("channel_dim reaches what reads the file, and a reader that is a component is read") {
  const auto config_of = [](const json& load, const json& channel_first) {
    json config = inference();
    config["dataset"]["data"] = "$[{'image': i, 'label': i} for i in @files]";
    config["preprocessing"]["transforms"][0].update(load);
    config["preprocessing"]["transforms"][1].update(channel_first);
    return config;
  };
  const auto nodes_of = [&](const json& load, const json& channel_first) {
    Bundle b;
    return b.graph_of(config_of(load, channel_first))["nodes"];
  };
  const auto refused = [&](const json& load, const json& channel_first, const std::string& why) {
    Bundle b;
    b.write(config_of(load, channel_first));
    check_refused(b.make(), why);
  };
  json nodes = nodes_of({{"as_closest_canonical", true}}, {{"channel_dim", -1}});
  CHECK(nodes["load"]["channel_dim"] == -1);
  CHECK(nodes["canonical"]["axcodes"] == "RAS");

  const auto reader = [](const char* name, const char* member, json value) {
    return json{{"reader", {{"_target_", name}, {member, std::move(value)}}}};
  };
  nodes = nodes_of(reader("NibabelReader", "as_closest_canonical", true), json::object());
  CHECK(nodes["canonical"]["axcodes"] == "RAS");
  CHECK(nodes["canonical"]["in"] == "load");
  nodes = nodes_of(reader("ITKReader", "channel_dim", 2), json::object());
  CHECK(nodes["load"]["channel_dim"] == 2);
  refused(reader("ITKReader", "reverse_indexing", true), json::object(),
          "ITKReader.reverse_indexing: no counterpart");
  // One of two keys that are read together: each has a node of its own.
  nodes = nodes_of({{"keys", {"image", "label"}}}, {{"channel_dim", -1}});
  CHECK(nodes["load"]["keys"] == json{"image"});
  CHECK(nodes["load"]["channel_dim"] == -1);
  CHECK(nodes["load"]["in"] == "load2");
  CHECK(nodes["load2"]["keys"] == json{"label"});
  CHECK_FALSE(nodes["load2"].contains("channel_dim"));
  // A file's last axis that is split behind the reader is that of its channels.
  nodes = nodes_of({{"keys", {"image", "label"}}}, {{"_target_", "SplitDimd"},
                                                    {"keys", "label"},
                                                    {"dim", -1},
                                                    {"output_postfixes", {"inst", "type"}}});
  CHECK(nodes["load"]["keys"] == json{"label"});
  CHECK(nodes["load"]["channel_dim"] == -1);
  CHECK(nodes["copy"]["names"] == json{"label_inst"});
  CHECK(nodes["channel2"]["channels"] == json{1});
}

TEST_CASE("plain scalars of YAML are what PyYAML takes them for") {
  const std::pair<const char*, json> cases[]{{"017", 15},
                                             {"0b11", 3},
                                             {"0x1F", 31},
                                             {"1:30", 90},
                                             {"1:30.5", 90.5},
                                             {"-1_000", -1000},
                                             {"1.5e+3", 1500.0},
                                             {".5", 0.5},
                                             {"!!float 3", 3.0},
                                             {"0", 0},
                                             {"-.5", "-.5"},
                                             {"+.5", "+.5"},
                                             {"1e3", "1e3"},
                                             {"089", "089"},
                                             {"yes", 1},
                                             {"'017'", "017"},
                                             {"2001-01-01", "2001-01-01"}};
  for (const auto& [scalar, value] : cases) {
    INFO(scalar);
    Bundle b;
    b.folder.write("b/configs/inference.yaml", "wanted: " + std::string(scalar) + "\n");
    // Numbers are given where a number is wanted, texts where a text is.
    json config = inference();
    auto& save = config["postprocessing"]["transforms"][3];
    if (value.is_string())
      save["output_postfix"] = "@wanted";
    else
      config["preprocessing"]["transforms"].push_back(
          transform("ScaleIntensityRanged", {{"a_min", "$0 + @wanted"}, {"a_max", 5000}}));
    b.folder.write("b/configs/more.json", config.dump(1));
    b.made("--config inference.yaml --config more.json");
    json nodes = b.graph()["nodes"];
    if (value.is_string())
      CHECK(nodes["save"]["output_postfix"] == value);
    else
      CHECK(nodes["scale_intensity_range"]["a_min"].get<double>() == value.get<double>());
  }
}

TEST_CASE("a second document of YAML, and a tag that does not fit, are refused") {
  const std::pair<const char*, const char*> cases[]{
      {"a: 1\n---\nb: 2\n", "inference.yaml:3:1: a second document"},
      {"a: !!float x\n", "\"x\" is no number that is read"}};
  for (const auto& [text, said] : cases) {
    Bundle b;
    b.folder.write("b/configs/inference.yaml", text);
    b.folder.write("b/configs/more.json", inference().dump(1));
    check_refused(b.make("--config inference.yaml --config more.json"), said);
  }
}

TEST_CASE("a number that no graph has is named") {
  json config = inference();
  config["inferer"]["overlap"] = "@wanted";
  Bundle b;
  b.folder.write("b/configs/inference.yaml", "wanted: .inf\n");
  b.folder.write("b/configs/more.json", config.dump(1));
  check_refused(b.make("--config inference.yaml --config more.json"), "a graph has no such number");
}

TEST_CASE("several configurations are merged as MONAI merges them") {
  Bundle b;
  b.write(inference());
  b.folder.write("b/configs/more.json", json{{"inferer#overlap", 0.25},
                                             {"+network_def", {{"num_res_units", 1}}},
                                             {"+imports", {"$import numpy"}}}
                                            .dump());
  b.made("--config inference.json --config more.json --set inferer::sw_batch_size=3");
  CHECK(b.graph()["nodes"]["infer"]["overlap"] == 0.25);
  CHECK(b.graph()["nodes"]["infer"]["sw_batch_size"] == 3);
  CHECK(b.graph()["models"]["net"]["num_res_units"] == 1);
  check_refused(
      b.make("--config more.json"),
      "\"inferer#overlap\": there is no \"inferer\" to set in; a configuration that has it "
      "is named before this one, with --config for each");
}

TEST_CASE("a bundle of HoVerNet: three outputs of a window's middle, pictures in colour") {
  json config = inference();
  config["network_def"] = {{"_target_", "HoVerNet"},
                           {"mode", "fast"},
                           {"in_channels", 3},
                           {"out_classes", 5},
                           {"adapt_standard_resnet", true},
                           {"pretrained_url", nullptr}};
  config["preprocessing"]["transforms"] = {
      transform("LoadImaged", {{"converter", "$lambda x: x.convert('RGB')"}})};
  config["inferer"] = {{"_target_", "SlidingWindowHoVerNetInferer"},
                       {"roi_size", 256},
                       {"overlap", "$1.0 - float(164) / float(256)"},
                       {"progress", true},
                       {"extra_input_padding", "$((256 - 164) // 2,) * 4"}};
  config["postprocessing"]["transforms"] = {
      {{"_target_", "FlattenSubKeysd"},
       {"keys", "pred"},
       {"sub_keys", {"horizontal_vertical", "nucleus_prediction", "type_prediction"}}},
      {{"_target_", "HoVerNetInstanceMapPostProcessingd"}, {"sobel_kernel_size", 21}},
      {{"_target_", "HoVerNetNuclearTypePostProcessingd"}}};
  Bundle b;
  const json nodes = b.graph_of(config)["nodes"];
  CHECK(nodes["load"]["picture_mode"] == "RGB");
  CHECK(nodes["infer"]["output_key"] ==
        json{"nucleus_prediction", "horizontal_vertical", "type_prediction"});
  CHECK(nodes["infer"]["roi_size"] == json{256, 256});
  CHECK(nodes["infer"]["overlap"] == 0.359375);
  CHECK(nodes["infer"]["extra_input_padding"] == json{46, 46, 46, 46});
  CHECK(b.run("check graph.json").code == 0);

  config["preprocessing"]["transforms"][0]["converter"] = "$lambda x: x.convert('CMYK')";
  Bundle other;
  other.write(config);
  check_refused(other.make(), "known are $lambda x: x.convert('RGB') and 'L'");
}

TEST_CASE("a bundle's training of HoVerNet: its batch, its loss, the frozen encoder") {
  Bundle b;
  b.folder.write("b/configs/train.yaml", R"yaml(
images: $list(sorted(glob.glob('data/*image.npy')))
maps: $list(sorted(glob.glob('data/*inst_map.npy')))
types: $list(sorted(glob.glob('data/*type_map.npy')))
all: &all [image, label_inst, label_type]
network: {_target_: HoVerNet, mode: fast, in_channels: 3, out_classes: 5, freeze_encoder: true,
          pretrained_url: null, adapt_standard_resnet: true}
steps:
- {_target_: LoadImaged, keys: *all}
- {_target_: EnsureChannelFirstd, keys: *all, channel_dim: -1}
- {_target_: Lambdad, keys: label_inst, func: "$lambda x: skimage.measure.label(x)"}
- {_target_: CenterSpatialCropd, keys: [image], roi_size: [256, 256]}
- {_target_: ComputeHoVerMapsd, keys: label_inst}
- {_target_: Lambdad, keys: label_inst, func: "$lambda x: x > 0", overwrite: label}
- {_target_: CenterSpatialCropd, keys: [label, hover_label_inst, label_type], roi_size: [164, 164]}
trainer:
  _target_: SupervisedTrainer
  max_epochs: 2
  train_data_loader:
    _target_: DataLoader
    dataset:
      _target_: CacheDataset
      data: "$[{'image': i, 'label_inst': j, 'label_type': k} for i, j, k in zip(@images, @maps, @types)]"
      transform: {_target_: Compose, transforms: "@steps"}
    batch_size: 4
    shuffle: true
  prepare_batch: "$monai.apps.pathology.engines.utils.PrepareBatchHoVerNet(extra_keys=['label_type', 'hover_label_inst'])"
  network: "@network"
  loss_function: {_target_: HoVerNetLoss, lambda_hv_mse: 1.0}
  optimizer: {_target_: torch.optim.Adam, lr: 0.0001,
              params: "$filter(lambda p: p.requires_grad, @network.parameters())"}
  inferer: {_target_: SimpleInferer}
  key_train_metric:
    dice: {_target_: MeanDice, include_background: false,
           output_transform: "$monai.apps.pathology.handlers.utils.from_engine_hovernet(keys=['pred', 'label'], nested_key='nucleus_prediction')"}
run: [$@trainer.run()]
)yaml");
  b.made("--task train");
  const json nodes = b.graph()["nodes"];
  CHECK(nodes["load"]["channel_dim"] == -1);
  CHECK(nodes["connected_components"]["keys"] == "label_inst");
  CHECK(nodes["copy_items"]["names"] == "label");
  CHECK(nodes["as_discrete"]["keys"] == "label");
  CHECK(nodes["forward"]["output_keys"] ==
        json{"nucleus_prediction", "horizontal_vertical", "type_prediction"});
  CHECK(nodes["loss"]["hv_label_key"] == "hover_label_inst");
  CHECK(nodes["loss"]["lambda_hv_mse"] == 1.0);
  CHECK(nodes["step"]["groups"][0]["frozen"] == true);
  CHECK(nodes["dice"]["keys"] == json{"nucleus_prediction", "label"});
  b.succeeds("check graph.json");
}

TEST_CASE("a generator's bundle: drawn latents are its network's input, pictures come out") {
  Bundle b;
  b.folder.write("b/configs/inference.json", R"json({
"bundle_root": ".", "output_dir": "./outputs", "n": 3, "device": "$torch.device('cpu')",
"network_def": {"_target_": "Generator", "latent_shape": 6, "start_shape": [4, 2, 2], "channels": [4, 1], "strides": [2, 2]},
"network": "$@network_def.to(@device)",
"dataset": {"_target_": "Dataset", "data": "$[torch.rand(6) for i in range(@n)]"},
"dataloader": {"_target_": "DataLoader", "dataset": "@dataset", "batch_size": 1},
"inferer": {"_target_": "SimpleInferer"},
"postprocessing": {"_target_": "Compose", "transforms": [
  {"_target_": "Activationsd", "keys": "pred", "sigmoid": true},
  {"_target_": "SaveImaged", "keys": "pred", "output_dir": "@output_dir", "output_ext": "png",
   "separate_folder": false, "scale": 255, "output_dtype": "$np.uint8"}]},
"evaluator": {"_target_": "SupervisedEvaluator", "device": "@device", "val_data_loader": "@dataloader",
  "network": "@network", "inferer": "@inferer", "postprocessing": "@postprocessing",
  "prepare_batch": "$lambda batchdata, *_,**__: (batchdata.to(@device),None,(),{})"},
"run": ["$@evaluator.run()"]
})json");
  b.made();
  const json nodes = b.graph()["nodes"];
  CHECK(nodes["cases"]["type"] == "noise");
  CHECK(nodes["cases"]["num_samples"] == 3);
  CHECK(nodes["cases"]["shape"] == json{6});
  CHECK(nodes["infer"]["keys"] == json{"latent"});
  b.succeeds("run graph.json --quiet --no-out");
  for (const char* name : {"0", "1", "2"})
    CHECK(
        std::filesystem::exists(b.folder.path / "b/outputs" / (std::string(name) + "_trans.png")));
}

namespace {

// Images of a latent diffusion model: a program of expressions, without an engine.
json latent_sampling() {
  return {{"device", "$torch.device('cpu')"},
          {"steps", 3},
          {"size", {4, 6}},
          {"unet",
           {{"_target_", "monai.networks.nets.DiffusionModelUNet"},
            {"spatial_dims", 2},
            {"in_channels", 2},
            {"out_channels", 2},
            {"channels", {4, 8}},
            {"attention_levels", {false, true}},
            {"num_head_channels", {0, 4}},
            {"num_res_blocks", 1},
            {"norm_num_groups", 2},
            {"use_flash_attention", true}}},
          {"vae",
           {{"_target_", "monai.networks.nets.AutoencoderKL"},
            {"spatial_dims", 2},
            {"in_channels", 1},
            {"out_channels", 1},
            {"latent_channels", 2},
            {"channels", {2, 4}},
            {"attention_levels", {false, false}},
            {"with_encoder_nonlocal_attn", false},
            {"with_decoder_nonlocal_attn", false},
            {"num_res_blocks", 1},
            {"norm_num_groups", 2}}},
          {"noise_plan",
           {{"_target_", "DDIMScheduler"},
            {"num_train_timesteps", 20},
            {"schedule", "scaled_linear_beta"},
            {"beta_start", 0.0015},
            {"beta_end", 0.0195},
            {"clip_sample", false}}},
          {"plan_steps", "$@noise_plan.set_timesteps(num_inference_steps=@steps)"},
          {"sampler",
           {{"_target_", "LatentDiffusionInferer"},
            {"_requires_", {"@plan_steps"}},
            {"scheduler", "@noise_plan"},
            {"scale_factor", 0.5}}},
          {"start", "$torch.randn([1, 2] + @size).to(@device)"},
          {"pictures",
           "$@sampler.sample(@start, @vae.to(@device), @unet.to(@device), scheduler=@noise_plan)"},
          {"writer",
           {{"_target_", "SaveImage"},
            {"output_dir", "out"},
            {"output_postfix", "made"},
            {"separate_folder", false}}},
          {"run", {"$print('begins')", "$@writer(@pictures[0])"}}};
}

}  // namespace

TEST_CASE("a program that samples a latent diffusion model becomes a graph that makes images") {
  const Bundle b;
  const json g = b.graph_of(latent_sampling());
  const json& nodes = g["nodes"];
  CHECK(nodes["noise"]["shape"] == json{2, 4, 6});
  CHECK(nodes["noise"]["num_samples"] == 1);
  CHECK(nodes["noise"]["distribution"] == "normal");
  const json& made = nodes["made"];
  CHECK(made["type"] == "diffusion_inferer");
  CHECK(made["scheduler"] == "ddim");
  CHECK(made["num_inference_steps"] == 3);
  CHECK(made["num_train_timesteps"] == 20);
  CHECK(made["clip_sample"] == false);
  CHECK(made["beta_end"] == 0.0195);
  CHECK(made["scale_factor"] == 0.5);
  CHECK(g["models"]["decoder"]["part"] == "decoder");
  CHECK(g["models"]["net"]["num_head_channels"] == json{0, 4});
  b.succeeds("run graph.json --quiet --no-out");
  CHECK(std::filesystem::exists(b.folder.path / "b/out/0_made.nii.gz"));
  b.made("--set steps=7");
  CHECK(b.graph()["nodes"]["made"]["num_inference_steps"] == 7);
}

TEST_CASE("a diffusion model that is called by a lambda, with a condition and weights of a file") {
  const Bundle b;
  json config = latent_sampling();
  for (const char* key : {"vae", "plan_steps", "pictures", "writer", "run"}) config.erase(key);
  config["unet"].update({{"with_conditioning", true}, {"cross_attention_dim", 2}});
  config["noise_plan"] = {{"_target_", "monai.networks.schedulers.DDPMScheduler"},
                          {"num_train_timesteps", 5}};
  config["sampler"] = {{"_target_", "DiffusionInferer"}, {"scheduler", "@noise_plan"}};
  config["start"] = "$torch.rand(2, 2, 8, 8)";
  config["asked"] = "$torch.tensor([[0.5, @steps]]).to(@device).unsqueeze(1)";
  config["draw"] =
      "$lambda z: @sampler.sample(input_noise=z, diffusion_model=@unet, conditioning=@asked)";
  config["load"] = "$@unet.load_old_state_dict";
  config["weights"] = "$@load(torch.load('models/w.pt', weights_only=True)['model'])";
  config["keep"] = {{"_target_", "Compose"},
                    {"transforms",
                     {{{"_target_", "ScaleIntensity"}, {"minv", 0.0}, {"maxv", 255.0}},
                      {{"_target_", "ToTensor"}, {"track_meta", false}},
                      {{"_target_", "SaveImage"},
                       {"output_dir", "out"},
                       {"output_ext", "jpg"},
                       {"output_dtype", "$torch.uint8"},
                       {"output_postfix", ""},
                       {"resample", false}}}}};
  config["as_tensor"] = {"@weights", "$torch.save(@draw(@start), 'out.pt')"};
  config["to_picture"] = {"@weights", "$@keep(@draw(@start.to(@device))[0])"};
  b.write(config);
  const auto result = b.made();
  CHECK(result.err.find("torch.save") != std::string::npos);
  CHECK(result.err.find("without JPEG's losses") != std::string::npos);
  const json g = b.graph(), nodes = g["nodes"];
  CHECK(nodes["noise"]["num_samples"] == 1);  // the first of the two is kept
  CHECK_FALSE(nodes["noise"].contains("distribution"));
  CHECK(nodes["context"]["value"].dump() == "[[0.5,3]]");
  CHECK(nodes["made"]["keys"] == json{"image", "context"});
  CHECK(nodes["made"]["scheduler"] == "ddpm");
  CHECK(nodes["made"]["num_inference_steps"] == 5);
  CHECK(nodes["scale_intensity"]["keys"] == "pred");
  CHECK(nodes["save"]["output_ext"] == ".png");
  CHECK_FALSE(g["models"].contains("decoder"));
  CHECK(g["models"]["net"]["weights"] == (b.folder.path / "b/models/w.pt").string());
  CHECK(g["models"]["net"]["weights_key"] == "model");
}

TEST_CASE("what a sampling bundle does at first counts: weights and timesteps") {
  const Bundle b;
  json config = latent_sampling();
  config.erase("plan_steps");
  config["sampler"].erase("_requires_");
  config["initialize"] = {"$@unet.load_state_dict(torch.load('models/w.pt'))",
                          "$@noise_plan.set_timesteps(num_inference_steps=6)"};
  config["run"] = {"$@writer(@pictures)"};
  b.write(config);
  const auto result = b.made();
  CHECK(result.err.find("MONAI's takes the batch for") != std::string::npos);
  const json g = b.graph();
  CHECK(g["models"]["net"]["weights"] == (b.folder.path / "b/models/w.pt").string());
  CHECK_FALSE(g["models"]["decoder"].contains("weights"));
  CHECK(g["nodes"]["made"]["num_inference_steps"] == 6);
}

TEST_CASE("weights that a training's bundle loads at first are its network's, a layer is refused") {
  json config = training();
  config["initialize"] = {"$@network.load_state_dict(torch.load('models/w.pt')['model'])"};
  const json net = training_graph(config)["models"]["net"];
  CHECK(net["weights"].get<std::string>().ends_with("b/models/w.pt"));
  CHECK(net["weights_key"] == "model");
  config["initialize"] = {"$@network.conv.add_module('last', torch.nn.Sigmoid())"};
  check_refused(training_refused(config), "a layer that is added to this network");
}

TEST_CASE("weights of another network are refused where nothing else is loaded") {
  json config = training();
  config["other"] = config["network_def"];
  config["initialize"] = {"$monai.networks.utils.copy_model_state(@network, @other.state_dict())"};
  check_refused(
      training_refused(config),
      "copy_model_state: no counterpart: weights that it takes over from another network");
  config["initialize"].push_back("$@network.load_state_dict(torch.load('models/w.pt'))");
  CHECK(training_graph(config)["models"]["net"]["weights"].get<std::string>().ends_with("/w.pt"));
}

TEST_CASE("a fall over all steps of a run goes by epochs, one over as many epochs is refused") {
  json config = training();
  config["epochs"] = config["trainer"]["max_epochs"];
  config["batch_size"] = 2;
  config["loader"] = config["trainer"]["train_data_loader"];
  config["trainer"]["max_epochs"] = "@epochs";
  config["trainer"]["train_data_loader"] = "@loader";
  config["scheduler"] = {{"_target_", "torch.optim.lr_scheduler.PolynomialLR"},
                         {"optimizer", "@optimizer"},
                         {"total_iters", "$(@epochs * len(@loader.dataset)) / @batch_size"},
                         {"power", 2.0}};
  json& handlers = config["trainer"]["train_handlers"];
  handlers.push_back({{"_target_", "LrScheduleHandler"}, {"lr_scheduler", "@scheduler"}});
  check_refused(training_refused(config), "len(@loader.dataset)");
  handlers.back()["epoch_level"] = false;
  const json step = training_graph(config)["nodes"]["step"];
  CHECK(step["lr_schedule"] == "polynomial");
  CHECK(step["power"] == 2.0);
  CHECK_FALSE(step.contains("epoch_level"));
  CHECK_FALSE(step.contains("total_steps"));
  config["scheduler"]["total_iters"] = "$(@batch_size * len(@loader.dataset)) / @batch_size";
  check_refused(training_refused(config), "len(@loader.dataset)");
}

TEST_CASE("what of a sampling program is not known is refused with its place") {
  const Bundle b;
  const auto refused = [&](const char* key, const json& value, const char* why) {
    json changed = latent_sampling();
    changed[key] = value;
    b.write(changed);
    const auto result = b.make();
    CHECK(result.code == 3);
    CHECK_MESSAGE(result.err.find(why) != std::string::npos, result.err);
  };
  refused("run", {"$@writer(@pictures[1])"}, "the first alone is known");
  refused("run", {"$@writer(@start)"}, "other than images that are made here");
  refused("run", {"$@writer(@pictures[0])", "$@writer(@pictures[0])"}, "further images are saved");
  json scaled = latent_sampling()["sampler"];
  scaled["scale_factor"] = "@start";
  refused("sampler", scaled, "LatentDiffusionInferer.scale_factor: no counterpart");
  refused("sampler", {{"_target_", "scripts.own.Sampler"}}, "no counterpart");
  refused("start", "$torch.randn(@size)", "is no torch.randn() of a batch");
  refused("pictures", "$@sampler.sample(@start, @vae, @unet, conditioning=@start)",
          "numbers of one image are known");
  refused("pictures", "$@sampler.sample(@start, @vae, @unet, seg=@start)", "the argument seg=");
  refused("noise_plan", {{"_target_", "OwnScheduler"}}, "DDPM, DDIM, PNDM and RFlow are known");
}

namespace {

// A loader's first image beside what an autoencoder says of it: a program of expressions.
json reconstruction() {
  json config = inference();
  for (const char* key :
       {"ckpt", "evaluator", "handlers", "inferer", "postprocessing", "network_def", "network"})
    config.erase(key);
  json& chain = config["preprocessing"]["transforms"];
  chain.push_back(transform("ScaleIntensityd", json::object()));
  chain.push_back(transform("ResizeWithPadOrCropd", {{"spatial_size", {8, 8, 4}}}));
  config["dataloader"].update({{"batch_size", 2}, {"shuffle", true}});
  config["vae"] = latent_sampling()["vae"];
  config["vae"]["spatial_dims"] = 3;
  config["net"] = "$@vae.to(@device)";
  config["batch"] = "$monai.utils.first(@dataloader)['image'].to(@device)";
  config["again"] = "$@net(@batch)[0][0]";
  for (const char* name : {"seen", "made"})
    config[name] = {{"_target_", "SaveImage"},
                    {"_requires_", "$os.makedirs(@output_dir)"},
                    {"output_dir", "@output_dir"},
                    {"output_postfix", name},
                    {"separate_folder", false}};
  config["run"] = {"$@seen(@batch[0])", "$@made(@again)"};
  return config;
}

}  // namespace

TEST_CASE("a program that saves a loader's first image and an autoencoder's of it") {
  const Bundle b;
  write_data(b);
  b.write(reconstruction());
  const auto result = b.made();
  CHECK(result.err.find("DataLoader.shuffle: replaced: the first sample") != std::string::npos);
  CHECK(result.err.find("with its channel") == std::string::npos);
  CHECK(result.err.find("AutoencoderKL: replaced: its image is made of the latent image's mean") !=
        std::string::npos);
  const json g = b.graph(), nodes = g["nodes"];
  CHECK(g["models"]["net"]["type"] == "autoencoder_kl");
  CHECK(nodes["cases"]["to"] == 1);
  CHECK(nodes["batch"]["size"] == 1);
  CHECK(nodes["answer"]["keys"] == "image");
  CHECK(nodes["save"]["keys"] == "image");
  CHECK(nodes["save2"]["keys"] == "pred");
  CHECK(nodes["save2"]["in"] == "each");
  b.succeeds("run graph.json --quiet --no-out");
  for (const char* name : {"seen", "made"})
    CHECK(std::filesystem::exists(b.folder.path / "b/eval" /
                                  ("one_" + std::string(name) + ".nii.gz")));
  CHECK_FALSE(std::filesystem::exists(b.folder.path / "b/eval/two_seen.nii.gz"));

  json config = reconstruction();
  config["dataset"]["data"] = "$[{'image': i} for i in @files][-1:]";
  config["initialize"] = {"$@vae.load_state_dict(torch.load('models/w.pt'))"};
  config["run"][0] = "$@seen(@batch[0, 0, ...])";
  b.write(config);
  CHECK(b.made().err.find("the image is saved with its channel") != std::string::npos);
  CHECK(b.graph()["models"]["net"]["weights"].get<std::string>().ends_with("b/models/w.pt"));
  CHECK(b.graph()["nodes"]["cases"]["from"] == -1);
  CHECK_FALSE(b.graph()["nodes"]["cases"].contains("to"));
}

TEST_CASE("what of a loader's first image is not known is refused with its place") {
  const auto refused = [](const char* key, const json& value, const std::string& why) {
    const Bundle b;
    json config = reconstruction();
    config[key] = value;
    b.write(config);
    check_refused(b.make(), why);
  };
  refused("again", "$@net(@batch)[1][0]", "of what a network says of a batch the first alone");
  refused("again", "$@net(@batch)", "write [0] behind its call");
  refused("again", "$@net(@batch[0])", "other than a field of a batch");
  refused("again", "$@batch[0]", "no answer of a known network");
  refused("batch", "$monai.utils.first(@dataloader)", "a batch's field that is 0");
  refused("again", "$@net(monai.utils.first(@dataloader)['label'])[0][0]", "of that image alone");
  refused("again", "$Image.fromarray(@batch)", "is not known here");
  json part = reconstruction()["dataset"];
  part["data"] = "$monai.data.partition_dataset([{'image': i} for i in @files], ratios=[1, 1])[1]";
  refused("dataset", part, "its first sample is that of a part of a list");
  json other = latent_sampling()["vae"];
  other["_target_"] = "scripts.own.Autoencoder";
  refused("vae", other, "Autoencoder: no counterpart: there is no such network");
}

namespace {

// Two networks against each other on small pictures.
json adversaries() {
  return {
      {"device", "$torch.device('cpu')"},
      {"pictures", "$list(sorted(glob.glob('data/*.nii')))"},
      {"maker",
       {{"_target_", "Generator"},
        {"latent_shape", 5},
        {"start_shape", {4, 2, 2, 2}},
        {"channels", {4, 1}},
        {"strides", {2, 2}}}},
      {"judge",
       {{"_target_", "Discriminator"},
        {"in_shape", {1, 8, 8, 8}},
        {"channels", {2, 1}},
        {"strides", {2, 2}},
        {"last_act", nullptr}}},
      {"made_by", "$@maker.apply(monai.networks.normal_init).to(@device)"},
      {"judged_by", "$@judge.to(@device)"},
      {"criterion", {{"_target_", "PatchAdversarialLoss"}, {"criterion", "bce"}}},
      {"prepare",
       {{"_target_", "Compose"},
        {"transforms",
         {transform("LoadImaged", {{"keys", "reals"}}),
          transform("EnsureChannelFirstd", {{"keys", "reals"}}),
          transform("ScaleIntensityd", {{"keys", "reals"}}),
          transform("Resized", {{"keys", "reals"}, {"spatial_size", {8, 8, 8}}}),
          transform("RandFlipd", {{"keys", "reals"}, {"prob", 0.5}, {"spatial_axis", 0}})}}}},
      {"loader",
       {{"_target_", "DataLoader"},
        {"batch_size", 2},
        {"shuffle", true},
        {"dataset",
         {{"_target_", "CacheDataset"},
          {"data", "$[{'reals': i} for i in @pictures]"},
          {"transform", "@prepare"}}}}},
      {"maker_step",
       {{"_target_", "torch.optim.Adam"},
        {"params", "$@made_by.parameters()"},
        {"lr", 0.0003},
        {"betas", {0.5, 0.999}}}},
      {"judge_step",
       {{"_target_", "torch.optim.Adam"}, {"params", "$@judged_by.parameters()"}, {"lr", 0.0002}}},
      {"trainer",
       {{"_target_", "GanTrainer"},
        {"device", "@device"},
        {"max_epochs", 2},
        {"train_data_loader", "@loader"},
        {"g_network", "@made_by"},
        {"g_optimizer", "@maker_step"},
        {"g_loss_function", "$lambda x: @criterion(@judged_by(x), True, False)"},
        {"d_network", "@judged_by"},
        {"d_optimizer", "@judge_step"},
        {"d_loss_function",
         "$lambda f, r: 0.5 * (@criterion(@judged_by(f.detach()), False, True) + "
         "@criterion(@judged_by(r), target_is_real=True, for_discriminator=True))"},
        {"d_train_steps", 3},
        {"latent_shape", 5},
        {"key_train_metric", "$None"},
        {"train_handlers",
         {{{"_target_", "CheckpointSaver"},
           {"save_dir", "models"},
           {"save_dict", {{"model", "@made_by"}}},
           {"save_interval", 0},
           {"save_final", true}}}}}},
      {"training", {"$@made_by.conv.add_module('last', torch.nn.Sigmoid())", "$@trainer.run()"}}};
}

}  // namespace

TEST_CASE("a bundle's networks against each other: the judge's steps, then the maker's") {
  const Bundle b;
  write_data(b);
  b.folder.write("b/configs/train.json", adversaries().dump(1));
  b.made("--task train");
  const json g = b.graph();
  CHECK(g["models"]["maker"]["last_act"] == "SIGMOID");
  CHECK(g["models"]["maker"]["init"] == "normal");
  CHECK_FALSE(g["models"]["judge"].contains("init"));
  const json& nodes = g["nodes"];
  CHECK(nodes["latent"]["shape"] == json{5});
  CHECK(nodes["latent_again"]["key"] == "again");
  CHECK(nodes["batch"]["size"] == 2);
  const json& steps = nodes["judge_step"];
  CHECK(steps["type"] == "several_steps");
  CHECK(steps["times"] == 3);
  REQUIRE(steps["step"].size() == 6);
  CHECK(steps["step"][0]["keys"] == "fakes");
  CHECK(steps["step"][1]["target_is_real"] == false);
  CHECK(steps["step"][1]["criterion"] == "bce");
  CHECK(steps["step"][2]["keys"] == "reals");
  CHECK(steps["step"][3]["target_is_real"] == true);
  CHECK(steps["step"][4]["weights"] == json{0.5, 0.5});
  CHECK(steps["step"][5]["net"] == "judge");
  CHECK(steps["step"][5]["lr"] == 0.0002);
  CHECK(nodes["judged"]["in"] == "make_again");
  CHECK(nodes["step"]["net"] == "maker");
  CHECK(nodes["step"]["betas"] == json{0.5, 0.999});
  b.succeeds("run graph.json --quiet --out run");
  CHECK(b.folder.summary("run")["metrics"].contains("judge_step.loss"));

  b.made("--task train --set trainer#g_update_latents=false");
  CHECK_FALSE(b.graph()["nodes"].contains("latent_again"));
  CHECK(b.graph()["nodes"]["judged"]["in"] == "judge_step");

  const auto refused = [&](const std::string& more, const char* why) {
    const auto result = b.make("--task train " + more);
    CHECK(result.code == 3);
    CHECK_MESSAGE(result.err.find(why) != std::string::npos, result.err);
  };
  refused("--set 'trainer#g_loss_function=$lambda x: @criterion(x, True, False)'", "is not known");
  refused("--set 'trainer#d_loss_function=$scripts.own.loss'", "is not known");
  refused(
      "--set 'trainer#d_loss_function=$lambda f, r: @criterion(@judged_by(f), False, True) + "
      "@criterion(@judged_by(other), True, True)'",
      "is not known");
  refused("--set 'trainer#g_prepare_batch=$lambda **k: 0'", "GanTrainer.g_prepare_batch");
  refused("--set 'maker_step#params=$@judged_by.parameters()'", "not those of this network");
  json changed = adversaries();
  changed["training"][0] = "$@made_by.conv.add_module('last', torch.nn.Tanh())";
  check_refused(training_refused(changed), "torch.nn.Tanh");
}

namespace {

// A diffusion model's training, which validates.
json denoising() {
  json config = training();
  config["network_def"] = latent_sampling()["unet"];
  config["network_def"].update({{"spatial_dims", 3}, {"in_channels", 1}, {"out_channels", 1}});
  config["noise_plan"] = {{"_target_", "DDPMScheduler"},
                          {"num_train_timesteps", 10},
                          {"schedule", "scaled_linear_beta"},
                          {"clip_sample", false}};
  config["noise_inferer"] = {{"_target_", "monai.inferers.DiffusionInferer"},
                             {"scheduler", "@noise_plan"}};
  config["noise_batch"] = {{"_target_", "monai.engines.DiffusionPrepareBatch"},
                           {"num_train_timesteps", 10}};
  for (const char* engine : {"trainer", "evaluator"}) {
    config[engine]["inferer"] = "@noise_inferer";
    config[engine]["prepare_batch"] = "@noise_batch";
  }
  config["trainer"].update({{"max_epochs", 1}, {"loss_function", {{"_target_", "MSELoss"}}}});
  config["evaluator"]["metric_cmp_fn"] = "$operator.lt";
  config["evaluator"]["val_handlers"] = "$list(filter(bool, @quiet))";
  config["quiet"] = {{{"_target_", "StatsHandler"}, {"_disabled_", "$dist.is_initialized()"}},
                     nullptr};
  return config;
}

}  // namespace

TEST_CASE("a diffusion model's training: noise in the batch, which is what the network is to say") {
  const Bundle b;
  write_data(b);
  json config = denoising();
  b.folder.write("b/configs/train.json", config.dump(1));
  b.made("--task train");
  const json nodes = b.graph()["nodes"];
  CHECK(nodes["noisy"]["type"] == "diffusion_prepare_batch");
  CHECK(nodes["noisy"]["num_train_timesteps"] == 10);
  CHECK(nodes["noisy"]["schedule"] == "scaled_linear_beta");
  CHECK_FALSE(nodes["noisy"].contains("clip_sample"));  // of sampling alone
  CHECK(nodes["forward"]["keys"] == json{"noisy", "timesteps"});
  CHECK(nodes["loss"]["label_key"] == "target");
  CHECK(nodes["ebatch"]["size"] == 1);
  CHECK(nodes["infer"]["in"] == "noisy2");
  CHECK(nodes["val_mse"]["keys"] == json{"pred", "target"});
  b.succeeds("run graph.json --quiet --out run");
  CHECK(b.folder.summary("run")["metrics"].dump().find("val_mse.") != std::string::npos);
  config["noise_batch"]["num_train_timesteps"] = 20;
  check_refused(training_refused(config), "it draws other timesteps than the scheduler has");
}

TEST_CASE("a task of the Decathlon by MONAI's class: its folder, its split, one of its channels") {
  json config = denoising();
  config["first"] = 1;
  const json chain = {
      {"_target_", "Compose"},
      {"transforms",
       {transform("LoadImaged", json::object()), transform("EnsureChannelFirstd", json::object()),
        transform("Lambdad", {{"func", "$lambda x: x[@first, :, :, :]"}}),
        transform("EnsureChannelFirstd", {{"channel_dim", "no_channel"}})}}};
  const auto part = [&](const char* section) {
    return json{{"_target_", "monai.apps.DecathlonDataset"},
                {"root_dir", "medical"},
                {"task", "Task01_BrainTumour"},
                {"section", section},
                {"cache_rate", 0.0},
                {"download", false},
                {"transform", chain}};
  };
  config["trainer"]["train_data_loader"]["dataset"] = part("training");
  config["evaluator"]["val_data_loader"]["dataset"] = part("validation");
  const json nodes = training_graph(config)["nodes"];
  CHECK(nodes["train"]["type"] == "decathlon");
  CHECK(nodes["train"]["root"].get<std::string>().ends_with("b/medical/Task01_BrainTumour"));
  CHECK(nodes["train"]["split"] == "training");
  CHECK(nodes["train"]["val_frac"] == 0.2);
  CHECK(nodes["train"]["shuffle"] == true);
  CHECK(nodes["images"]["keys"] == "image");
  CHECK(nodes["select_channels"]["channels"] == json{1});
  CHECK_FALSE(nodes.contains("cache"));
  CHECK(nodes["val"]["split"] == "validation");
}

TEST_CASE("new says that --set is of a bundle's items, not of a graph's") {
  const std::string help = shell::run("$SLUICE new --help").out;
  CHECK(help.find("bundle: changes an item of its") != std::string::npos);
  CHECK(help.find("nodes.step.lr") == std::string::npos);
}

TEST_CASE("parts of a list by their number, folds of them, and the folds of a file") {
  json config = inference();
  const auto source = [&](const char* data) {
    config["dataset"]["data"] = data;
    const json nodes = Bundle().graph_of(config)["nodes"];
    for (const json& node : nodes)
      if (node["type"] == "datalist") return node;
    return json();
  };
  config["list"] = "$monai.data.load_decathlon_datalist('all.json', True, 'training', 'data')";
  config["parts"] = "$monai.data.partition_dataset(@list, num_partitions=3, shuffle=True, seed=7)";
  json node = source("$@parts[-1]");
  CHECK(node["num_partitions"] == 3);
  CHECK(node["share"] == 2);
  CHECK(node["shuffle_shares"] == true);
  CHECK(node["share_seed"] == 7);
  CHECK(!node.contains("shares"));
  node = source("$monai.data.select_cross_validation_folds(@parts, folds=[0, -1])");
  CHECK(node["share"] == json{0, 2});
  CHECK(source("$monai.data.select_cross_validation_folds(@parts, 1)")["share"] == 1);
  node = source("$monai.auto3dseg.datafold_read('folds.json', 'data', fold=1)[1]");
  CHECK(node["fold"] == 1);
  CHECK(node["split"] == "validation");
  CHECK(node["list_key"] == "training");
  for (const auto& [data, why] :
       {std::pair{"$@parts[3]", "there are 3 parts"},
        {"$monai.data.partition_dataset(@parts[0], [1, 1])[0]", "of a part"},
        {"$monai.data.partition_dataset(@list)[0]", "neither ratios nor a number of parts"},
        {"$monai.data.partition_dataset(@list, num_partitions=2, even_divisible=True)[0]",
         "num_partitions alone"}}) {
    config["dataset"]["data"] = data;
    const Bundle b;
    b.write(config);
    check_refused(b.make(), why);
  }
}

TEST_CASE("a share of a list by its length, which is counted where the file is there") {
  json config = inference();
  config["list"] = "$monai.data.load_decathlon_datalist('all.json', True, 'training', 'data')";
  config["dataset"]["data"] = "$@list[int(0.5 * len(@list)):]";
  config["dataloader"]["collate_fn"] = "$monai.data.utils.no_collation";
  Bundle b;
  b.write(config);
  check_refused(b.make(), "len() of a list that is not there");
  b.folder.write("b/all.json", R"({"training": ["a.nii", "b.nii", "c.nii"]})");
  const auto made = b.made();
  CHECK(made.err.find("collate_fn") == std::string::npos);
  bool found = false;
  const json nodes = b.graph()["nodes"];
  for (const json& node : nodes)
    if (node["type"] == "datalist") found = node["from"] == 1;
  CHECK(found);
}

TEST_CASE("a training on rows of an .npz file: shares, draws with replacement, repeated batches") {
  const std::string text = R"yaml(
npz: {_target_: NPZDictItemDataset, npzfile: all.npz, keys: {images: image, segs: label}}
parts: $monai.data.partition_dataset(np.arange(len(@npz)), (8, 2), shuffle=True)
subset: $torch.utils.data.Subset(@npz, @parts[0])
shape: $@subset[0]['image'].shape
network: {_target_: UNet, spatial_dims: 2, in_channels: 1, out_channels: 4, channels: [4, 8], strides: [2]}
steps:
- {_target_: ScaleIntensityd, keys: image}
- {_target_: EnsureChannelFirstd, keys: [image, label], channel_dim: no_channel}
- {_target_: RandSmoothDeformd, keys: [image, label], spatial_size: "@shape", rand_size: [3, 3], def_range: 0.1,
   field_mode: $monai.utils.InterpolateMode.BICUBIC, prob: 0.5,
   grid_mode: "$(monai.utils.GridSampleMode.BICUBIC, monai.utils.GridSampleMode.NEAREST)"}
set: {_target_: CacheDataset, data: "@subset", transform: {_target_: Compose, transforms: "@steps"}}
trainer:
  _target_: SupervisedTrainer
  max_epochs: 2
  train_data_loader:
    _target_: ThreadDataLoader
    dataset: "@set"
    batch_size: 4
    repeats: 5
    sampler: {_target_: torch.utils.data.WeightedRandomSampler, replacement: true, num_samples: 80,
              weights: $torch.ones(len(@set))}
  network: "@network"
  loss_function: {_target_: DiceLoss, to_onehot_y: true, softmax: true}
  optimizer: {_target_: torch.optim.Adam, lr: 0.0001, params: $@network.parameters()}
run: [$@trainer.run()]
)yaml";
  Bundle b;
  b.folder.write("b/configs/train.yaml", text);
  b.made("--task train");
  const json nodes = b.graph()["nodes"];
  CHECK(nodes["train"]["type"] == "npz_items");
  CHECK(nodes["train"]["arrays"] == json{"images", "segs"});
  CHECK(nodes["train"]["shares"] == json{8.0, 2.0});
  CHECK(nodes["train"]["shuffle_shares"] == true);
  CHECK(nodes["train"]["channel_dim"] == "no_channel");
  // 20 batches an epoch, of which each stands for five: 4 batches are drawn.
  CHECK(nodes["sampler"]["num_samples"] == 16);
  CHECK(nodes["again"]["times"] == 5);
  CHECK(nodes["forward"]["in"] == "again");
  b.succeeds("check graph.json");

  // Steps that leave a part of a batch's repeats to the next epoch are as many as whole ones fill.
  const auto with_samples = [&](const char* number) {
    std::string other = text;
    other.replace(other.find("num_samples: 80"), 15, std::string("num_samples: ") + number);
    b.folder.write("b/configs/train.yaml", other);
    return b.make("--task train");
  };
  const auto cut = with_samples("88");
  CHECK(cut.err.find("ThreadDataLoader.repeats: replaced: an epoch has 20 steps, not 22") !=
        std::string::npos);
  CHECK(b.graph()["nodes"]["sampler"]["num_samples"] == 16);
  for (const char* number : {"90", "12"})
    check_refused(with_samples(number), "ThreadDataLoader.repeats");

  // The rows without Subset.
  std::string whole = text;
  const std::string cached = "CacheDataset, data: \"@subset\",";
  whole.replace(whole.find(cached), cached.size(),
                "NPZDictItemDataset, npzfile: all.npz, keys: {images: image, segs: label},");
  b.folder.write("b/configs/train.yaml", whole);
  b.made("--task train");
  CHECK(b.graph()["nodes"]["train"]["type"] == "npz_items");
  CHECK_FALSE(b.graph()["nodes"]["train"].contains("shares"));
}

TEST_CASE("data sets side by side pair a file with itself, and what differs is done to each") {
  const std::string text = R"yaml(
files: $list(sorted(glob.glob('data/*.nii')))
both: [{_target_: LoadImage, ensure_channel_first: true, image_only: true}, {_target_: ScaleIntensity}]
turned: [{_target_: RandFlip, prob: 1.0, spatial_axis: 0}]
steps: {_target_: Compose, transforms: $@both + @turned}
sets:
- _target_: ShuffleBuffer
  data: {_target_: Dataset, data: "@files", transform: {_target_: Compose, transforms: "@both"}}
  seed: "$int(3) if @other_seed else int(2)"
- {_target_: ShuffleBuffer, data: {_target_: Dataset, data: "@files", transform: $@steps.set_random_state(3)}, seed: 2}
other_seed: false
pairs:
  _target_: IterableDataset
  data: "$map(lambda t: dict(image=monai.transforms.concatenate(t), moving=t[0], fixed=t[1]), zip(*@sets))"
loader: {_target_: ThreadDataLoader, dataset: "@pairs", batch_size: 1}
network: {_target_: UNet, spatial_dims: 3, in_channels: 2, out_channels: 1, channels: [4, 8], strides: [2]}
evaluator:
  _target_: SupervisedEvaluator
  network: "@network"
  val_data_loader: "@loader"
  epoch_length: $len(@files) // @loader#batch_size
  inferer: $monai.inferers.SimpleInferer()
  postprocessing:
    _target_: Compose
    transforms:
    - {_target_: SaveImaged, keys: [moving, fixed], output_postfix: [moving, fixed], output_dir: eval, output_ext: .nii,
       output_name_formatter: "$lambda x, s: dict(idx=s._data_index, subject=x['filename_or_obj'])"}
eval: [$monai.utils.set_determinism(seed=123), $@evaluator.run()]
)yaml";
  Bundle b;
  write_data(b);
  b.folder.write("b/configs/inference.yaml", text);
  const auto made = b.made();
  for (const char* said : {"SupervisedEvaluator.epoch_length: replaced: every file once",
                           "ShuffleBuffer: replaced: the files in their order",
                           "SaveImage.output_name_formatter: replaced: files are named after"})
    CHECK(made.err.find(said) != std::string::npos);
  const json graph = b.graph(), nodes = graph["nodes"];
  CHECK(graph["run"]["seed"] == 123);
  CHECK(nodes["cases"]["lists"].size() == 1);
  CHECK(nodes["load"]["keys"] == "moving");
  CHECK(occurrences(nodes.dump(), "\"type\":\"scale_intensity\"") == 1);
  CHECK(nodes["copy"]["names"] == "fixed");
  CHECK(nodes["rand_flip"]["keys"] == "fixed");
  CHECK(nodes["both"]["keys"] == json{"moving", "fixed"});
  CHECK(nodes["both"]["name"] == "image");
  b.succeeds("run graph.json --quiet --no-out");
  CHECK(b.folder.read("b/eval/one/one_moving.nii") != b.folder.read("b/eval/one/one_fixed.nii"));

  check_refused(b.make("--set other_seed=true"),
                "images of different files meet there, by another order of each data set");
  check_refused(b.make("--set \"pairs#data=\\$map(lambda t: t[0], zip(*@sets))\""),
                "IterableDataset: no counterpart: known is $map(lambda t: dict(");
}

TEST_CASE("a file's axes that a bundle transposes before there are channels are the file's") {
  json config = inference();
  config["dataset"]["data"] = "@files";  // each file is a sample
  json& chain = config["preprocessing"]["transforms"];
  chain = {{{"_target_", "LoadImage"}}, {{"_target_", "Transpose"}, {"indices", {2, 0, 1, -1}}}};
  config["postprocessing"]["transforms"].erase(1);  // Invertd
  Bundle b;
  b.write(config);
  b.made();
  const json nodes = b.graph()["nodes"];
  CHECK(nodes["cases"]["type"] == "path_lists");
  CHECK(nodes["cases"]["lists"]["image"].get<std::string>().ends_with("data/*.nii"));
  CHECK(nodes["transpose"]["indices"] == json{3, 1, 2, 0});
  chain[1]["indices"] = {2, 0, 1};
  b.write(config);
  check_refused(b.make(), "its image's axes are the file's");
  chain[0]["ensure_channel_first"] = true;
  chain[1]["indices"] = {0, 3, 1, 2};
  CHECK(b.graph_of(config)["nodes"]["transpose"]["indices"] == json{0, 3, 1, 2});
}

TEST_CASE(
    "a network of a script whose text is not known is refused, also where a type has its name") {
  json config = inference();
  config["network_def"] = {{"_target_", "scripts.net.RegResNet"}};
  Bundle b;
  b.folder.write("b/scripts/net.py", "class RegResNet(nn.Module):\n  pass\n");
  b.write(config);
  check_refused(b.make(), "whose text is not the one that \"reg_resnet\" was made after");
}

TEST_CASE("DeepEdit's training: clicks in the network's own iteration become interact") {
  Bundle b;
  b.folder.write("b/configs/train.yaml", R"yaml(
images: $list(sorted(glob.glob('images/*.nii')))
labels: $list(sorted(glob.glob('labels/*.nii')))
label_names: {spleen: 1, background: 0}
network: {_target_: UNet, spatial_dims: 3, in_channels: "$len(@label_names) + 1", out_channels: $len(@label_names),
          channels: [4, 8], strides: [2]}
steps:
- {_target_: LoadImaged, keys: [image, label]}
- {_target_: NormalizeLabelsInDatasetd, keys: label, label_names: "@label_names"}
- {_target_: FindAllValidSlicesMissingLabelsd, keys: label, sids: sids}
- {_target_: AddInitialSeedPointMissingLabelsd, keys: label, guidance: guidance, sids: sids}
- {_target_: AddGuidanceSignalDeepEditd, keys: image, guidance: guidance, number_intensity_ch: 1}
clicks:
- {_target_: Activationsd, keys: pred, softmax: true}
- {_target_: AsDiscreted, keys: pred, argmax: true}
- {_target_: ToNumpyd, keys: [image, label, pred]}
- {_target_: FindDiscrepancyRegionsDeepEditd, keys: label, pred: pred, discrepancy: discrepancy}
- {_target_: AddRandomGuidanceDeepEditd, keys: NA, guidance: guidance, discrepancy: discrepancy, probability: probability}
- {_target_: AddGuidanceSignalDeepEditd, keys: image, guidance: guidance, number_intensity_ch: 1}
trainer:
  _target_: SupervisedTrainer
  max_epochs: 2
  train_data_loader:
    _target_: DataLoader
    batch_size: 1
    dataset: {_target_: Dataset, data: "$[{'image': i, 'label': l} for i, l in zip(@images, @labels)]",
              transform: {_target_: Compose, transforms: "@steps"}}
  iteration_update: {_target_: Interaction, deepgrow_probability: 0.4, train: true, label_names: "@label_names",
                     click_probability_key: probability, transforms: {_target_: Compose, transforms: "@clicks"}}
  network: "@network"
  loss_function: {_target_: DiceCELoss, to_onehot_y: true, softmax: true}
  optimizer: {_target_: torch.optim.Adam, lr: 0.0001, params: $@network.parameters()}
run: [$@trainer.run()]
)yaml");
  b.made("--task train");
  const json nodes = b.graph()["nodes"];
  CHECK(nodes["find_all_valid_slices_missing_labels"]["labels"] == json{0, 1});
  const json& clicks = nodes["clicks"];
  CHECK(clicks["type"] == "interact");
  CHECK(clicks["enter"] == 0.4);
  CHECK(clicks["times"] == 1);
  CHECK(clicks["probability"] == "falling");
  REQUIRE(clicks["body"].size() == 5);
  CHECK(clicks["body"][2]["type"] == "find_discrepancy_regions_deep_edit");
  CHECK(clicks["body"][2]["label"] == "label");
  CHECK(clicks["body"][3]["labels"] == json{0, 1});
  CHECK(nodes["forward"]["in"] == "clicks");
  b.succeeds("check graph.json");
  // An iteration of one's own is code.
  check_refused(
      b.run(
          "new bundle b -o other.json --task train --set trainer#iteration_update='$scripts.step'"),
      "iteration_update");
}

TEST_CASE("lambdas of known shapes become nodes") {
  const std::vector<std::pair<std::string, json>> cases{
      {"$lambda y: y[1:]", {{"type", "select_channels"}, {"from", 1}}},
      {"$lambda x:x > 0.5", {{"type", "as_discrete"}, {"threshold", 0.5}, {"strict", true}}},
      {"$lambda x: x * 1e2",
       {{"type", "scale_intensity_range"},
        {"a_min", 0},
        {"a_max", 1},
        {"b_min", 0},
        {"b_max", 100.0}}},
      {"$lambda x: torch.FloatTensor(x)", {{"type", "cast_to_type"}, {"dtype", "float32"}}},
      {"$lambda x: torch.where(x[[2]] > 0, 4, torch.where(x[[0]] > 0, 1, torch.where(x[[1]] > "
       "0, 2, 0)))",
       {{"type", "merge_channels"}, {"order", {2, 0, 1}}, {"labels", {4, 1, 2}}}}};
  for (const auto& [lambda, node] : cases) {
    INFO(lambda);
    json config = inference();
    config["network_def"]["out_channels"] = 3;
    auto& post = config["postprocessing"]["transforms"];
    post[2] = {{"_target_", "Lambdad"}, {"keys", "pred"}, {"func", lambda}};
    Bundle b;
    const json made_node = b.graph_of(config)["nodes"][node["type"].get<std::string>()];
    for (const auto& [key, value] : node.items()) CHECK(made_node[key] == value);
  }
}

TEST_CASE("DiNTS takes its architecture from a TopologyInstance, and arrays from a file") {
  json config = inference();
  config["codes"] = "$torch.load('arrays.pt', map_location=torch.device('cuda'))";
  config["space"] = {{"_target_", "monai.networks.nets.TopologyInstance"},
                     {"num_blocks", 1},
                     {"num_depths", 1},
                     {"channel_mul", 0.25},
                     {"arch_code", {{{1}}, {{4}}}},
                     {"device", "$torch.device('cuda')"}};
  config["network_def"] = {{"_target_", "DiNTS"},  {"dints_space", "@space"},
                           {"in_channels", 1},     {"num_classes", 3},
                           {"node_a", {{1}, {1}}}, {"use_downsample", false}};
  auto& spacing = config["preprocessing"]["transforms"][3];
  spacing["pixdim"] = "$torch.from_numpy(@codes['real'])";
  Bundle b;
  b.write(config);
  check_refused(b.make(), "arrays.pt#real");
  std::filesystem::copy(SLUICE_SOURCE_DIR "/tests/golden/weights/arrays.pt",
                        b.folder.path / "b/arrays.pt");
  b.made();
  const json net = b.graph()["models"]["net"];
  CHECK(net["arch_code_c"] == json{{4}});
  CHECK(net["out_channels"] == 3);
  CHECK(net["channel_mul"] == 0.25);
  CHECK(b.graph()["nodes"]["spacing"]["pixdim"] == json{0.5, 75, 1});
}

TEST_CASE("a label's dilated classes of a bundle's lambda are two nodes, and 0 drops a field") {
  json config = inference();
  auto& post = config["postprocessing"]["transforms"];
  post[2] = {{"_target_", "Lambdad"},
             {"keys", "pred"},
             {"func",
              "$lambda x, s=@network_def#out_channels: np.concatenate(tuple([ndimage."
              "binary_dilation((x==_k).astype(x.dtype), iterations=48).astype(float) for _k in "
              "range(s)]), axis=0)"}};
  post.push_back({{"_target_", "Lambdad"}, {"keys", "image"}, {"func", "$lambda x: 0"}});
  Bundle b;
  const json nodes = b.graph_of(config)["nodes"];
  CHECK(nodes["as_discrete"]["to_onehot"] == 2);
  CHECK(nodes["binary_dilation"]["iterations"] == 48);
  CHECK(nodes["binary_dilation"]["in"] == "as_discrete");
  CHECK(nodes["delete_items"]["keys"] == "image");
}

TEST_CASE("clicks from a JSON file a sample: points beside the image, each patch a sample") {
  json config = inference();
  config["files"] = "$sorted(glob.glob('data/*.png'))";
  config["clicks"] = "$sorted(glob.glob('data/*.txt'))";
  config["network_def"]["spatial_dims"] = 2;
  config["network_def"]["in_channels"] = 5;
  config["preprocessing"]["transforms"] = {
      transform("LoadImaged", json::object()),
      {{"_target_", "AddClickSignalsd"}, {"image", "image"}, {"gaussian", false}},
      transform("SqueezeDimd", json::object())};
  config["dataset"]["data"] =
      "$[{'image': i, 'foreground': json.loads(pathlib.Path(c).read_text())} for i, c in "
      "zip(@files, @clicks)]";
  config["inferer"] = {{"_target_", "SimpleInferer"}};
  Bundle b;
  b.write(config);
  const auto made = b.made();
  const json nodes = b.graph()["nodes"];
  CHECK(nodes["points"]["keys"] == json{"foreground"});
  CHECK(nodes["add_click_signals"]["in"] == "load");
  CHECK_FALSE(nodes.contains("squeeze_dim"));
  CHECK(made.err.find("SqueezeDimd: without effect here: a patch is a sample") !=
        std::string::npos);
  config["preprocessing"]["transforms"][1]["gaussian"] = true;
  Bundle other;
  other.write(config);
  CHECK(other.make().err.find("AddClickSignalsd.gaussian: no counterpart") != std::string::npos);
}

TEST_CASE("a bundle on whole slides: a list, the places of tissue, a map of probabilities") {
  json config = inference();
  const json image = {{"_target_", "Lambdad"},
                      {"keys", "image"},
                      {"func", "$lambda x: os.path.join(@data_dir, 'images', x + '.tif')"}};
  config["data_dir"] = "slides";
  config["network_def"] = {{"_target_", "TorchVisionFCModel"},
                           {"model_name", "resnet18"},
                           {"num_classes", 1},
                           {"use_conv", true}};
  config["preprocessing"]["transforms"] = {transform(
      "ScaleIntensityRanged", {{"a_min", 0}, {"a_max", 255}, {"b_min", -1}, {"b_max", 1}})};
  config["list"] = {{"_target_", "CSVDataset"},
                    {"src", "test.csv"},
                    {"kwargs_read_csv", {{"names", {"image"}}, {"header", nullptr}, {"sep", "\t"}}},
                    {"transform", image}};
  config["dataset"] = {{"_target_", "MaskedPatchWSIDataset"},
                       {"data", "@list"},
                       {"mask_level", 6},
                       {"patch_size", {224, 224}},
                       {"transform", "@preprocessing"},
                       {"reader", "cuCIM"}};
  config["dataloader"]["batch_size"] = 40;
  config["inferer"] = {{"_target_", "SimpleInferer"}};
  config["postprocessing"]["transforms"] = {
      {{"_target_", "Activationsd"}, {"keys", "pred"}, {"sigmoid", true}}};
  config["handlers"].push_back(
      {{"_target_", "monai.handlers.ProbMapProducer"}, {"output_dir", "@output_dir"}});
  config["evaluator"]["decollate"] = false;
  Bundle b;
  json nodes = b.graph_of(config)["nodes"];
  CHECK(nodes["cases"]["suffix"] == ".tif");
  CHECK(nodes["cases"]["columns"] == json{{"image", 0}});
  CHECK(nodes["cases"]["delimiter"] == "\t");
  CHECK(nodes["cases"]["root"].get<std::string>().ends_with("b/slides/images"));
  CHECK(nodes["grid"]["mask_level"] == 6);
  CHECK(nodes["ebatch"]["size"] == 40);
  CHECK(nodes["map"]["in"] == "activations");
}

TEST_CASE("what has no counterpart is named with file and line, and no graph is written") {
  struct Case {
    const char* pointer;
    json value;
    const char* said;
  };
  const Case cases[]{
      {"/preprocessing/transforms/2/_target_", "RandMyOwnd", "RandMyOwnd: no counterpart"},
      {"/preprocessing/transforms/2/axcodes", "$scripts.codes(3)",
       "\"scripts.codes()\" is not known"},
      {"/preprocessing/transforms/3/pixdim", "$__import__('os').system('touch evil')",
       "nothing of a bundle is executed"},
      {"/preprocessing/transforms/3/wrong_name", 1, "has no such parameter"},
      {"/postprocessing/transforms/2/threshold", "high", "as_discrete.threshold"},
      {"/network_def/_target_", "scripts.networks.MyNet",
       "MyNet: no counterpart: there is no such network; `sluice inspect` lists"},
      {"/network_def/channels", "@nowhere",
       "@nowhere names nothing: give it with --set nowhere=VALUE, or name the configuration"},
      {"/files", "$os.listdir('.')", "\"os.listdir()\" is not known here"},
      {"/evaluator/_target_", "scripts.MyEvaluator", "of evaluators there is SupervisedEvaluator"},
      {"/evaluator/_target_", "scripts.DetectionEvaluator", "`sluice graphs detect` copies"},
      {"/evaluator/iteration_update", "$scripts.update", "code of its own"}};
  for (const Case& c : cases) {
    json config = inference();
    config[json::json_pointer(c.pointer)] = c.value;
    Bundle b;
    b.write(config);
    const auto made = b.make();
    INFO(c.pointer);
    check_refused(made, c.said);
    CHECK(made.err.find("configs/inference.json:") != std::string::npos);
    CHECK_FALSE(std::filesystem::exists(b.folder.path / "graph.json"));
    CHECK_FALSE(std::filesystem::exists(b.folder.path / "evil"));
  }
}

TEST_CASE("a bundle that saves twice names both after the file that was read") {
  json config = inference();
  json& post = config["postprocessing"]["transforms"];
  json first = post.back();
  first["output_postfix"] = "prob";
  first["output_dtype"] = "$torch.float32";
  post.insert(post.begin() + 2, first);
  Bundle b;
  write_data(b);
  b.write(config);
  b.made();
  b.succeeds("run graph.json --quiet --no-out");
  CHECK(std::filesystem::exists(b.folder.path / "b/eval/one/one_prob.nii.gz"));
  CHECK(std::filesystem::exists(b.folder.path / "b/eval/one/one_seg.nii.gz"));
}

TEST_CASE("a training on one nucleus of a patch: labels split by number, points, classes") {
  const json load = transform("LoadImaged", {{"keys", {"image", "label"}}, {"image_only", false}});
  const json split = {{"_target_", "SplitLabeld"},
                      {"keys", "label"},
                      {"mask_value", ""},
                      {"min_area", 5},
                      {"others_value", 255}};
  const auto chain = [](json transforms) {
    return json{{"_target_", "Compose"}, {"transforms", std::move(transforms)}};
  };
  const auto training = [&](json network, json loss, json transforms) {
    transforms.insert(transforms.begin(), {load, split});
    return json{{"bundle_root", "."},
                {"list", "$json.loads(pathlib.Path(@bundle_root + '/dataset.json').read_text())"},
                {"network", std::move(network)},
                {"trainer",
                 {{"_target_", "SupervisedTrainer"},
                  {"max_epochs", 2},
                  {"train_data_loader",
                   {{"_target_", "DataLoader"},
                    {"batch_size", 4},
                    {"shuffle", true},
                    {"dataset",
                     {{"_target_", "CacheDataset"},
                      {"data", "$@list['training']"},
                      {"transform", chain(std::move(transforms))}}}}},
                  {"network", "@network"},
                  {"loss_function", std::move(loss)},
                  {"optimizer",
                   {{"_target_", "torch.optim.Adam"},
                    {"params", "$@network.parameters()"},
                    {"lr", 0.0001}}},
                  {"inferer", {{"_target_", "SimpleInferer"}}}}}};
  };
  const auto graph_of = [&](const json& config) {
    Bundle b;
    b.folder.write("b/configs/train.json", config.dump(1));
    b.folder.write("b/dataset.json", R"({"training": [{"image": "a.png", "label": "b.png"}]})");
    b.made("--task train");
    return b.graph();
  };
  const json points = graph_of(training(
      {{"_target_", "BasicUNet"}, {"spatial_dims", 2}, {"in_channels", 5}, {"out_channels", 1}},
      {{"_target_", "DiceLoss"}, {"sigmoid", true}},
      {{{"_target_", "AddPointGuidanceSignald"}, {"image", "image"}, {"use_distance", true}},
       {{"_target_", "Affined"}, {"keys", {"image", "label"}}, {"translate_params", {1, 2}}},
       {{"_target_", "CropForegroundd"},
        {"keys", {"image", "label"}},
        {"source_key", "image"},
        {"start_coord_key", "first"},
        {"end_coord_key", nullptr}},
       {{"_target_", "SelectItemsd"}, {"keys", {"image", "label", "image_meta_dict"}}}}));
  CHECK(points["nodes"]["split_label"]["mask_value"] == nullptr);
  CHECK(points["nodes"]["add_point_guidance_signal"]["use_distance"] == true);
  // Of both keys, as MONAI's default.
  CHECK(points["nodes"]["affine"].value("mode", "") == "bilinear");
  CHECK(points["nodes"]["crop_foreground"].value("start_coord_key", "") == "first");
  CHECK(points["nodes"]["select_items"]["keys"] == json{"image", "label"});
  const json classes = graph_of(training(
      {{"_target_", "DenseNet121"}, {"spatial_dims", 2}, {"in_channels", 4}, {"out_channels", 4}},
      {{"_target_", "torch.nn.CrossEntropyLoss"}},
      {{{"_target_", "AddLabelAsGuidanced"}, {"keys", "image"}, {"source", "label"}},
       {{"_target_", "SetLabelClassd"}, {"keys", "label"}, {"offset", -1}},
       {{"_target_", "SelectItemsd"}, {"keys", {"image", "label"}}}}));
  CHECK(classes["nodes"]["add_label_as_guidance"]["source"] == "label");
  CHECK(classes["nodes"]["set_label_class"]["offset"] == -1);
}

TEST_CASE(
    "--partial writes the graph without what is missing, and --strict refuses replaced parts") {
  json config = inference();
  config["preprocessing"]["transforms"][2]["_target_"] = "RandMyOwnd";
  Bundle b;
  b.write(config);
  CHECK(b.make("--partial").code == 0);
  CHECK_FALSE(b.graph()["nodes"].contains("orientation"));
  config = inference();
  config["evaluator"]["amp"] = true;
  Bundle strict;
  strict.write(config);
  CHECK(strict.make("--strict").code == 3);
  CHECK(strict.make().code == 0);
}

TEST_CASE("damaged configurations are errors with a place") {
  const std::vector<std::pair<std::string, std::string>> cases{
      {"configs/inference.json", "{\"a\": 1, \"a\": 2}"},
      {"configs/inference.json", "{\"a\": "},
      {"configs/inference.yaml", "a: 1\na: 2\n"},
      {"configs/inference.yaml", "a: !!python/object/apply:os.system ['touch evil']\n"},
      {"configs/inference.yaml", "a: [1, 2\n"},
      {"configs/inference.json", "[1]"},
      {"configs/inference.json", "{\"a\": \"%b\", \"b\": \"%a\"}"},
      {"configs/inference.json",
       "{\"network\": \"@x\", \"x\": \"@network\", \"evaluator\": {\"_target_\": "
       "\"SupervisedEvaluator\", \"network\": \"@network\"}}"}};
  for (const auto& [name, text] : cases) {
    Bundle b;
    b.folder.write("b/" + name, text);
    INFO(text);
    check_refused(b.make(), name);
    CHECK_FALSE(std::filesystem::exists(b.folder.path / "evil"));
  }
}

TEST_CASE("options of bundles are for bundles, and a folder without configurations says so") {
  Bundle b;
  b.folder.write("b/readme", "");
  CHECK(b.make().code == 2);
  CHECK(b.make().err.find("has no configs/inference.json") != std::string::npos);
  CHECK(b.run("new segmentation b --task train").code == 2);
  CHECK(b.make("--task predict").code == 2);
}

TEST_CASE("networks on an EfficientNet are known before any of them is registered") {
  const auto said = shell::run("$SLUICE inspect flexible_unet");
  CHECK(said.out.find("efficientnet-b2") != std::string::npos);
}
