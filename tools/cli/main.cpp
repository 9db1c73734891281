// `sluice`: the command line. CLI11 is slow to compile and stands in this file only.
#include <unistd.h>
#include <CLI/CLI.hpp>

#include <csignal>
#include <iostream>
#include <sstream>

#include "engine/base/cause.h"
#include "engine/base/version.h"
#include "tools/cli/cli.h"
#include "tools/cli/shape.h"

namespace sluice::cli {
namespace {

void graphs(CLI::App* command, Options& o, const std::string& text, bool required = true) {
  command->add_option("graph", o.graphs, text)
      ->required(required)
      ->expected(1, CLI::detail::expected_max_vector_size)
      ->option_text("GRAPH...");
}

// A number within bounds, which NaN is not: CLI::Range lets it pass.
CLI::Validator number(double least, double most) {
  return CLI::Validator(
      [=](std::string& text) {
        double value = 0;
        if (CLI::detail::lexical_cast(text, value) && value >= least && value <= most)
          return std::string();
        std::ostringstream why;
        why << "Value " << text << " not in range " << least << " to " << most;
        return why.str();
      },
      "NUMBER");
}

// Of a list: one word each time it is given, so that what follows is not taken for more of it.
CLI::Option* one_each_time(CLI::Option* option) {
  return option->expected(1)->allow_extra_args(false)->multi_option_policy(
      CLI::MultiOptionPolicy::TakeAll);
}

void set(CLI::App* command, Options& o,
         const std::string& what =
             "Changes a value of the graph: nodes.step.lr=3e-4, "
             "vars.root=/data; +path=value adds, ~path removes") {
  one_each_time(command->add_option("--set", o.set, what))->option_text("PATH=VALUE");
}

void thread_options(CLI::App* command, Options& o) {
  command
      ->add_option("--threads", o.threads,
                   "Data threads; 0: as `run` in the graph says, else as many as cores")
      ->check(CLI::Range(0, 4096))
      ->option_text("N");
  command->add_option("--io-threads", o.io_threads, "Threads that read and write files")
      ->check(CLI::Range(0, 4096))
      ->option_text("N");
  command->add_option("--step-threads", o.step_threads, "Threads of the training region")
      ->check(CLI::Range(0, 4096))
      ->option_text("N");
}

void run_options(CLI::App* command, Options& o, const std::string& without_out) {
  set(command, o);
  command->add_option("--out", o.out, "Folder for results; " + without_out)->option_text("DIR");
  command->add_flag("--overwrite", o.overwrite, "Replaces the run that --out holds");
  thread_options(command, o);
  command->add_flag("--quiet", o.quiet, "No progress");
  command->add_flag("--json", o.json, "One JSON document on stdout");
  command->add_flag("--trace", o.trace,
                    "Writes trace.pftrace into the folder, for `sluice trace` and Perfetto");
}

CLI::Option* pairs(CLI::App* command, const std::string& name, std::vector<std::string>& to,
                   const std::string& text) {
  return command->add_option(name, to, text)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->expected(1, CLI::detail::expected_max_vector_size);
}

void advise_options(CLI::App* command, Options& o) {
  graphs(command, o, "Graph file or run folder; several are merged left to right");
  set(command, o);
  thread_options(command, o);
  command->add_option("--seconds", o.seconds, "How long each run takes; 30 unless told")
      ->check(number(0.5, 1e9))
      ->option_text("N");
  command->add_option("--write", o.out, "The changed graph's file, a new one")->option_text("FILE");
  command
      ->add_option("--memory", o.budget,
                   "What caches may take, 10G is 10^10; else half of what is free")
      ->transform(CLI::AsSizeValue(true))
      ->check(number(1, 1e18))
      ->option_text("BYTES");
  command->add_flag("--exact", o.exact, "Only what leaves results as they are, to the bit");
  command->add_flag("--precision", o.precision, "Tries networks in bfloat16 too");
  command->add_flag("--quiet", o.quiet, "No progress");
  command->add_flag("--json", o.json, "One JSON document on stdout");
}

void plan_options(CLI::App* command, Options& o) {
  graphs(command, o, "Graph file or run folder; several are merged left to right");
  set(command, o);
  thread_options(command, o);
  one_each_time(command->add_option("--ranks", o.ranks, "How many processes: 8,32,256"))
      ->required()
      ->delimiter(',')
      ->check(CLI::Range(1, 65536))
      ->option_text("N,...");
  command->add_option("--profile", o.run, "A run whose profile says the costs; else one is made")
      ->option_text("DIR");
  command->add_option("--seconds", o.seconds, "... that takes so long; 30 unless told")
      ->check(number(0.5, 1e9))
      ->option_text("N");
  command->add_option("--node", o.node, "Processes on a machine; 1 unless told")
      ->check(CLI::Range(1, 4096))
      ->option_text("N");
  command->add_option("--cores", o.cores, "... which has so many cores; as many as this one")
      ->check(CLI::Range(1, 65536))
      ->option_text("N");
  command->add_option("--link", o.link, "Between machines; 12.5GB/s unless told")
      ->option_text("RATE");
  command
      ->add_option("--nvlink", o.inside,
                   "From each process to others on its machine; 200GB/s between GPUs unless told, "
                   "1GB/s between CPUs")
      ->option_text("RATE");
  command
      ->add_option("--latency", o.latency,
                   "Of a message; 5us unless told, 50us between processes on CPUs")
      ->option_text("TIME");
  command->add_flag("--json", o.json, "One JSON document on stdout");
}

void bundle_options(CLI::App* command, Options& o) {
  one_each_time(
      command->add_option("--config", o.configs,
                          "bundle: a file, or a name in its configs; several are merged left to "
                          "right"))
      ->option_text("FILE");
  set(command, o,
      "bundle: changes an item of its configuration: dataset_dir=/data, "
      "train#trainer#max_epochs=50; +item=value adds to a list or dictionary");
  command->add_option("--task", o.task, "bundle: inference unless told")
      ->option_text("inference|train");
  command->add_flag("--strict", o.strict, "bundle: refuses what another thing would replace, too");
  command->add_flag("--partial", o.partial, "bundle: writes the graph without what is missing");
}

void nnunet_options(CLI::App* command, Options& o) {
  auto* recipe =
      command->add_option("--recipe", o.recipe, "segmentation: nnunet, which plans as nnU-Net does")
          ->option_text("nnunet");
  command->add_option("--planner", o.planner, "nnunet: whose plan; default unless told")
      ->option_text("default|resenc_m|resenc_l|resenc_xl")
      ->needs(recipe);
  command->add_option("--gpu-memory", o.gpu_memory, "nnunet: what to plan for; the planner's own")
      ->option_text("GB")
      ->needs(recipe);
  command
      ->add_option("--fingerprint", o.fingerprint,
                   "nnunet: dataset_fingerprint.json; else measured")
      ->option_text("FILE")
      ->needs(recipe);
  command->add_option("--write-fingerprint", o.write_fingerprint, "nnunet: keeps what was measured")
      ->option_text("FILE")
      ->needs(recipe);
  command->add_flag("--plan-only", o.plan_only, "nnunet: prints the plan, with reasons; no graphs")
      ->needs(recipe);
  command->add_option("--folds", o.folds, "nnunet: of the cross-validation; 5 unless told")
      ->option_text("N")
      ->needs(recipe);
  command
      ->add_flag("--probabilities", o.probabilities,
                 "nnunet: validations keep them, to choose ensembles by")
      ->needs(recipe);
  command->add_flag("--json", o.json, "nnunet: the plan as nnU-Net's plans.json on stdout")
      ->needs(recipe);
}

CLI::Option* size(CLI::App* command, Options& o) {
  return one_each_time(command->add_option("--size", o.size,
                                           "Extents of an image, 64,64,64 or one number; else "
                                           "those of the graph's windows or crops"))
      ->delimiter(',')
      ->option_text("X,Y,Z");
}

void export_options(CLI::App* command, Options& o) {
  command
      ->add_option("run", o.run,
                   "A run's folder, or one of its checkpoints; a graph whose network names its "
                   "weights")
      ->required()
      ->option_text("RUN");
  auto* file = command->add_option("-o,--out", o.out, "The file, .onnx")->option_text("FILE");
  auto* package =
      command
          ->add_option("--package", o.package,
                       "Writes a folder with all that a prediction needs instead: `sluice run DIR`")
          ->option_text("DIR")
          ->excludes(file);
  command
      ->add_option("--selftest", o.selftest,
                   "An image for the package's self-test; else one is made up")
      ->option_text("FILE")
      ->needs(package);
  command
      ->add_flag("--map", o.map,
                 "Adds the manifests of a MONAI Application Package, app.json and pkg.json")
      ->needs(package);
  command->add_option("--net", o.key, "Which network, where there are several")
      ->option_text("NAME");
  command->add_option("--weights", o.weights, "Others than the run's newest")->option_text("FILE");
  // Of a file alone: a package has the graph's own windows and heads.
  command
      ->add_option("--precision", o.precision_name,
                   "What the file computes in; its inputs and outputs stay float32")
      ->check(CLI::IsMember({"float32", "float16", "int8"}))
      ->option_text("float32|float16|int8")
      ->excludes(package);
  command->add_option("--scales", o.scales, "int8: what `sluice calibrate` wrote")
      ->option_text("FILE")
      ->excludes(package);
  command->add_option("--head", o.head, "What stands behind the network's first output")
      ->check(CLI::IsMember({"logits", "softmax", "sigmoid", "argmax"}))
      ->option_text("logits|softmax|sigmoid|argmax")
      ->excludes(package);
  size(command, o)->excludes(package);
  command->add_option("--outputs", o.outputs, "The first so many of the network's; 1 unless told")
      ->check(CLI::Range(1, 64))
      ->option_text("N")
      ->excludes(package);
  command
      ->add_flag("--check", o.check,
                 "Holds the file, as ONNX Runtime computes it, against this build; of a package "
                 "`sluice verify` does so")
      ->excludes(package);
  command->add_flag("--json", o.json, "One JSON document on stdout");
}

void calibrate_options(CLI::App* command, Options& o) {
  command->add_option("graph", o.run, "A graph that predicts or validates")
      ->required()
      ->option_text("GRAPH");
  command->add_option("--weights", o.weights, "A run's, or a file's; else those of the graph")
      ->option_text("RUN");
  command->add_option("--net", o.key, "Which network, where there are several")
      ->option_text("NAME");
  command->add_option("--samples", o.samples, "How many of each source; 32 unless told")
      ->check(CLI::Range(1, 1000000))
      ->option_text("N");
  command
      ->add_option("--method", o.method,
                   "Where large numbers are cut: at the largest; at 99.99 % of them; where the "
                   "squared error is least")
      ->check(CLI::IsMember({"minmax", "percentile", "mse"}))
      ->option_text("minmax|percentile|mse");
  command->add_flag("--asymmetric", o.asymmetric,
                    "Zero points of their own, for engines on a CPU; TensorRT takes none");
  set(command, o);
  command->add_option("--step-threads", o.step_threads, "Threads of the network")
      ->check(CLI::Range(1, 4096))
      ->option_text("N");
  command->add_option("-o,--out", o.out, "The file, scales.json")->required()->option_text("FILE");
}

void serve_options(CLI::App* command, Options& o) {
  command->add_option("package", o.package, "A package's folder")->required()->option_text("DIR");
  command->add_option("--host", o.host, "Others than this machine with SLUICE_TOKEN alone")
      ->option_text("ADDRESS");
  command->add_option("--port", o.port, "8080 unless told; 0: any")
      ->check(CLI::Range(0, 65535))
      ->option_text("N");
  command->add_option("--queue", o.queue, "Requests that wait; 8 unless told; more are refused")
      ->check(CLI::Range(0, 1024))
      ->option_text("N");
  command
      ->add_option("--max-size", o.budget,
                   "Of an upload, unpacked, at 4 bytes a voxel or more; 1G unless told")
      ->transform(CLI::AsSizeValue(true))
      ->check(number(1, 1e18))
      ->option_text("BYTES");
  command
      ->add_option("--timeout", o.timeout,
                   "That an upload may take, and then its prediction; 600 unless told")
      ->check(number(0.1, 1e6))
      ->option_text("SECONDS");
}

void weights_options(CLI::App* command, Options& o, const std::string& out = "") {
  command
      ->add_option("file", o.data,
                   "A .safetensors file, one of torch.save(), a run's or a checkpoint's folder")
      ->required()
      ->option_text("FILE");
  command->add_option("--key", o.key, "Which dictionary of it: state_dict, network_weights")
      ->option_text("KEY");
  command->add_option("--strip-prefix", o.strip_prefix, "What is left out of names: module.")
      ->option_text("TEXT");
  const std::string forms =
      "A .safetensors file, or TRAINER__PLANS__CONFIGURATION/fold_0/NAME.pth, which nnU-Net reads";
  if (out.empty())
    command->add_option("-o,--out", o.out, forms)->option_text("FILE");
  else
    command->add_option("out", o.out, forms)->required()->option_text(out);
  command->add_flag("--json", o.json, "One JSON document on stdout");
}

void apply_options(CLI::App* command, Options& o) {
  command->add_option("type", o.name, "Node or network type")->required()->option_text("TYPE");
  pairs(command, "--in", o.ins, "The node's fields, from .npy, .nii, .nii.gz, .nrrd, .mha or .png")
      ->option_text("KEY=FILE...");
  pairs(command, "--out", o.outs,
        "Where fields go: .npy, .nii or .nii.gz; {} numbers several. Of a network: pred, pred_1, "
        "..., and state=FILE.safetensors")
      ->option_text("KEY=FILE...");
  pairs(command, "--grad", o.grads, "Gradients of what comes out, of its shape; 1 for a loss")
      ->option_text("KEY=FILE...");
  pairs(command, "--out-grad", o.out_grads,
        "Where gradients to the node's fields go, or to a network's parameters by their names")
      ->option_text("KEY=FILE...");
  command->add_flag("--check-grad", o.check_grad,
                    "Holds gradients against central differences; 1 where they are 1e-4 apart");
  command->add_flag("--train", o.train, "A network as in training: batch statistics, dropout");
  pairs(command, "--param", o.param,
        "A parameter: prob=1, keys='[\"a\"]'; of a network also weights=FILE")
      ->option_text("NAME=VALUE...");
  command->add_option("--seed", o.seed, "Of a random node's draws")->option_text("N");
  command->add_flag("--json", o.json, "One JSON document on stdout");
}

void commands(CLI::App& app, Options& o) {
  auto* run = app.add_subcommand("run", "Runs a graph");
  graphs(run, o, "Graph file; several are merged left to right; none: the one in --resume", false);
  run_options(run, o, "else the first free one of runs/NAME-1, runs/NAME-2, ...");
  run->add_flag("--no-out", o.no_out, "Keeps nothing")->excludes("--out", "--overwrite", "--trace");
  run->add_option("--resume", o.resume,
                  "Goes on from a run's folder, and in it unless --out differs")
      ->excludes("--no-out")
      ->option_text("DIR");
  run->add_flag("--continue", o.go_on,
                "Goes on with the run in --out where there is one, else begins: for launchers that "
                "start a command again")
      ->excludes("--resume", "--overwrite", "--no-out")
      ->needs("--out");
  run->add_option("--steps", o.steps, "Ends after so many steps, with a checkpoint to go on from")
      ->check(CLI::Range(1, 1000000000))
      ->option_text("N");
  run->add_option("--minutes", o.minutes,
                  "Ends after so long, with a checkpoint to go on from: for a cluster's time limit")
      ->check(number(1e-6, 1e9))
      ->option_text("T");
  run->add_option("--processes", o.processes,
                  "Starts so many processes on this machine that train together")
      ->check(CLI::Range(1, 4096))
      ->option_text("N");
  run->add_option("--each", o.each,
                  "One run a value, each in a folder of its own: "
                  "vars.fold=0,1,2,3,4")
      ->excludes("--resume", "--no-out")
      ->option_text("PATH=A,B,...");
  run->add_option("--at-once", o.at_once,
                  "So many runs of --each at a time, which share the cores; 1 unless told")
      ->check(CLI::Range(1, 4096))
      ->needs("--each")
      ->option_text("N");
  run->add_flag("--force", o.force, "Resumes though the state may mean nothing to this graph")
      ->needs("--resume");

  auto* profile = app.add_subcommand("profile", "Runs for a while; prints what limits throughput");
  graphs(profile, o, "Graph file; several are merged left to right");
  run_options(profile, o, "else nothing is kept but what nodes such as save_image write");
  for (const char* name : {"--overwrite", "--trace"}) profile->get_option(name)->needs("--out");
  profile->add_option("--seconds", o.seconds, "How long; 0: the whole run")
      ->check(number(0, 1e9))
      ->option_text("N");
  one_each_time(profile->add_option(
                    "--what-if", o.what_if,
                    "Predicts the rate after a change: threads=4, load.threads=4, ahead.size=16, "
                    "free:load, null:data, null:model; verdict: the one that the verdict names"))
      ->option_text("CHANGE");
  profile->add_flag("--verify", o.verify, "Runs each change too: predicted beside measured");
  profile->add_flag("--isolate", o.isolate,
                    "Replays what came in through each node alone, on 1, 2, 4, ... threads");
  profile->add_flag("--all", o.all, "Shows the nodes too that are busy less than 1%");

  advise_options(
      app.add_subcommand("advise", "Tries what would make a graph faster; says what pays"), o);

  plan_options(app.add_subcommand("plan", "Says what training would take on more processes"), o);

  auto* check = app.add_subcommand("check", "Says everything that is wrong with graphs");
  graphs(check, o, "Graph files; -: stdin");
  check->add_flag("--merge", o.merge, "The files are merged left to right to one graph");
  set(check, o);
  check->add_flag("--json", o.json, "One JSON document on stdout");

  auto* dot = app.add_subcommand("dot", "Draws a graph");
  graphs(dot, o, "Graph file or run folder; several are merged left to right; -: stdin");
  dot->get_option("graph")->required(false);
  set(dot, o);
  dot->add_option("--run", o.run, "A run's folder: draws what it measured")->option_text("DIR");
  dot->add_option("--net", o.key, "Draws this network of it, step by step")->option_text("NAME");
  size(dot, o);
  dot->add_option("-o", o.out, "File: .dot, .svg, .png, .pdf or .html; else DOT on stdout")
      ->option_text("FILE");

  apply_options(app.add_subcommand("apply", "Fires one node or network on files"), o);

  auto* report =
      app.add_subcommand("report", "Writes what a run left, or all folds, as one HTML file");
  report->add_option("folder", o.run, "A run's folder, or that of all folds")
      ->required()
      ->option_text("DIR");
  report->add_option("-o", o.out, "File; else report.html in the folder")->option_text("FILE");

  auto* ready = app.add_subcommand("graphs", "Lists the ready graphs, or prints or copies one");
  auto* which = ready->add_option("graph", o.name, "Its name; else all")->option_text("NAME");
  ready->add_option("-o,--out", o.out, "The copy's file, a new one; else stdout")
      ->option_text("FILE")
      ->needs(which);

  auto* inspect = app.add_subcommand("inspect", "Says what a node takes and gives");
  inspect->add_option("type", o.name, "Type or family; else all")->option_text("TYPE");
  inspect->add_flag("--markdown", o.markdown, "All types as nodes/README.md");
  inspect->add_flag("--json", o.json, "One JSON document on stdout");

  app.add_subcommand("lsp", "Answers editors: the language server protocol on stdin and stdout");
  auto* fmt = app.add_subcommand("fmt", "Indents graph files; comments and line ends stay");
  graphs(fmt, o, "Graph files");
  fmt->add_flag("--check", o.check, "Names the files that it would change, and exits with 2");

  app.add_subcommand("schema", "Prints the JSON Schema of graph files, for editors");

  auto* starter =
      app.add_subcommand("new", "Looks at a folder with data and writes a graph for it");
  starter->add_option("kind", o.name, "What the graph is for")
      ->required()
      ->option_text(
          "segmentation|classification|prediction|postprocessing|best_configuration|bundle");
  starter->add_option("folder", o.data, "Folder with data")->option_text("DIR");
  starter->add_option("-o,--out", o.out, "The graph's file, a new one; else stdout")
      ->option_text("FILE");
  starter
      ->add_option("--weights", o.predictors,
                   "prediction: the run whose network segments; one model of nnU-Net's or several")
      ->option_text("DIR...");
  nnunet_options(starter, o);
  bundle_options(starter, o);

  auto* doctor = app.add_subcommand("doctor", "Says what this machine has, and what is in the way");
  doctor->add_flag("--json", o.json, "One JSON document on stdout");

  app.add_subcommand("completions", "Prints a script that completes command lines in a shell")
      ->add_option("shell", o.name, "Shell")
      ->required()
      ->option_text("bash|zsh|fish");
  auto* trace = app.add_subcommand("trace", "Says what a run's trace holds");
  trace->add_option("run", o.name, "A run's folder, or its trace.pftrace")
      ->required()
      ->option_text("DIR");
  trace->add_option("--sample", o.sample, "One sample's life")->option_text("NAME");
  trace->add_option("--epoch", o.epoch, "... in this epoch of its stream")->option_text("N");
  trace->add_option("--from", o.from, "Time from this node ...")->option_text("NODE");
  trace->add_option("--to", o.to, "... to this one")->option_text("NODE");
  trace->add_option("--chrome", o.chrome, "Writes Chrome's JSON")->option_text("FILE");
  trace->add_flag("--json", o.json, "One JSON document on stdout");
  trace
      ->add_option("--merge", o.merged,
                   "Writes the traces of all the run's processes as one, for Perfetto")
      ->option_text("FILE")
      ->excludes("--sample", "--epoch", "--from", "--to", "--chrome", "--json");

  auto* cache =
      app.add_subcommand("cache", "Says what a cache's folder holds, and makes room in it");
  cache->add_option("action", o.name, "What to do")->required()->option_text("list|prune");
  cache->add_option("folder", o.data, "A cache's folder; else ~/.cache/sluice")->option_text("DIR");
  cache->add_option("--budget", o.budget, "prune: until so many bytes are left; 10G is 10^10")
      ->transform(CLI::AsSizeValue(true))
      ->check(number(0, 1e18))
      ->option_text("BYTES");
  cache->add_option("--days", o.days, "prune: what was not used for so many days")
      ->check(number(0, 1e5))
      ->option_text("N");
  cache->add_flag("--verify", o.verify,
                  "Reads every entry; prune removes those that are not as they were written");
  cache->add_flag("--json", o.json, "One JSON document on stdout");

  auto* data = app.add_subcommand(
      "data", "Looks at all files of a data set: what is wrong, what they hold, what has changed");
  data->add_option("action", o.name, "What to do")->required()->option_text("check|index|diff");
  data->add_option("what", o.graphs,
                   "A folder, or a graph, whose sources say which files; diff: a manifest or a "
                   "folder that has one, and what to hold it against, else the files as they are")
      ->expected(1, CLI::detail::expected_max_vector_size)
      ->option_text("DIR|GRAPH...");
  data->add_option("-o,--out", o.out, "index: the manifest's file, else manifest.sha256 in DIR")
      ->option_text("FILE");
  set(data, o);
  data->add_flag("--json", o.json, "One JSON document on stdout");

  weights_options(
      app.add_subcommand("weights", "Says what a file of weights holds, and converts it"), o);
  auto* convert = app.add_subcommand("convert", "Writes weights in another form");
  weights_options(convert, o, "OUT");

  export_options(
      app.add_subcommand("export", "Writes a run's network as an ONNX file, for other engines"), o);

  calibrate_options(
      app.add_subcommand("calibrate",
                         "Measures what a network's convolutions read, for an int8 export"),
      o);

  auto* prune = app.add_subcommand(
      "prune",
      "Takes whole channels out of a run's network, and writes the graph that trains it on");
  prune->add_option("run", o.run, "A run's folder")->required()->option_text("RUN");
  prune->add_option("--net", o.key, "Which network, where there are several")->option_text("NAME");
  prune->add_option("--channels", o.share, "The share that stays of each level's; 0.5 unless told")
      ->check(number(1e-3, 0.999))
      ->option_text("SHARE");
  prune
      ->add_option("--multiple", o.multiple,
                   "What numbers of channels are rounded to; 1 unless told")
      ->check(CLI::Range(1, 1024))
      ->option_text("N");
  prune->add_option("-o,--out", o.out, "A new folder, for graph.json and model.safetensors")
      ->required()
      ->option_text("DIR");

  auto* verify = app.add_subcommand(
      "verify", "Says whether a package is whole and computes here what it did where it was made");
  verify->add_option("package", o.package, "A package's folder")->required()->option_text("DIR");
  verify->add_flag("--json", o.json, "One JSON document on stdout");

  serve_options(app.add_subcommand("serve", "Answers predictions with a package over HTTP"), o);

  auto* runs = app.add_subcommand("runs", "Lists runs: how they ended, what they came to");
  runs->add_option("folder", o.run, "Where to look; runs, or else here")->option_text("DIR");
  runs->add_option("--sort", o.sort,
                   "A metric, by its best value; or name, started, steps, epochs, wall_s, status")
      ->option_text("METRIC");
  runs->add_flag("--csv", o.csv, "All figures, for a spreadsheet");
  runs->add_flag("--json", o.json, "One JSON document on stdout")->excludes("--csv");
  auto* compare = app.add_subcommand(
      "compare", "Holds runs beside each other: the settings that differ, and the figures");
  graphs(compare, o, "Run folders");
  compare->add_flag("--json", o.json, "One JSON document on stdout");

  auto* open = app.add_subcommand("open", "Opens a page in the browser: write, run, compare");
  open->add_option("what", o.run, "A graph, a run's folder or a folder; here unless told")
      ->option_text("GRAPH");
  open->add_option("--port", o.page_port, "Any free one unless told")
      ->check(CLI::Range(0, 65535))
      ->option_text("N");
  open->add_option(
          "--socket", o.page_socket,
          "Listens on this file, which you alone may connect to, and on no port; --port is "
          "then the browser's end (8000)")
      ->option_text("FILE");
  open->add_flag("--no-browser", o.no_browser, "Prints the address alone");
  open->add_flag("--read-only", o.read_only, "Nothing is written or started");

  auto* explain = app.add_subcommand("explain", "Explains a diagnostic");
  explain->add_option("code", o.name, "Code; else all")->option_text("CODE");
}

int dispatch(const CLI::App& app, const Options& o) {
  const std::string command = app.get_subcommands().front()->get_name();
  if (command == "check") return check(o);
  if (command == "dot") return draw(o);
  if (command == "report") return report(o);
  if (command == "inspect") return inspect(o);
  if (command == "graphs") return graphs(o);
  if (command == "schema") return schema();
  if (command == "lsp") return lsp();
  if (command == "fmt") return format(o);
  if (command == "explain") return explain(o);
  if (command == "apply") return apply(o);
  if (command == "completions") return completions(o.name);
  if (command == "doctor") return doctor(o);
  if (command == "trace") return trace(o);
  if (command == "new") return new_graph(o);
  if (command == "cache") return cache(o);
  if (command == "advise") return advise(o);
  if (command == "plan") return plan_ranks(o);
  if (command == "data") return data(o);
  if (command == "weights") return weights(o);
  if (command == "convert") return convert(o);
  if (command == "export") return export_network(o);
  if (command == "verify") return verify_package(o);
  if (command == "serve") return serve(o);
  if (command == "prune") return prune(o);
  if (command == "runs") return list_runs(o);
  if (command == "compare") return compare_runs(o);
  if (command == "open") return open_page(o);
  if (command == "calibrate") return calibrate(o);
  return start(command, o);
}

// What is wrong with the command line: the first command or option that nothing knows, with what it
// might have been, else what CLI11 says.
std::string complaint(const CLI::App& app, const std::string& otherwise, int argc, char** argv) {
  const auto chosen = app.get_subcommands();
  std::vector<std::string> known;
  if (chosen.empty()) {
    for (const auto* command : app.get_subcommands([](const CLI::App*) { return true; }))
      known.push_back(command->get_name());
  } else {
    for (const auto* option : chosen.front()->get_options())
      for (const auto& name : option->get_lnames()) known.push_back("--" + name);
  }
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i], word = argument.substr(0, argument.find('='));
    const bool is_option = word.starts_with("--");
    if (std::find(known.begin(), known.end(), word) != known.end()) continue;
    if (is_option == chosen.empty()) continue;
    const std::string hint = did_you_mean(word, known);
    return (is_option ? "there is no option " : "there is no command ") + word +
           (hint.empty() ? "" : "; " + hint);
  }
  return otherwise;
}

Shape shape_of(const CLI::App& app) {
  Shape shape;
  for (const auto* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    shape.push_back({command->get_name(), command->get_description(), {}});
    for (const auto* option : command->get_options()) {
      OptionShape o;
      for (const auto& name : option->get_lnames()) o.names.push_back("--" + name);
      for (const auto& name : option->get_snames()) o.names.push_back("-" + name);
      o.doc = option->get_description();
      const int most = option->get_items_expected_max();
      o.many = most > 1;
      if (most > 0)
        o.value = option->get_option_text().empty() ? "TEXT" : option->get_option_text();
      shape.back().options.push_back(std::move(o));
    }
  }
  return shape;
}

int parse(int argc, char** argv) {
  CLI::App app("Trains networks on medical images from a graph of nodes.", "sluice");
  app.require_subcommand(1);
  app.set_version_flag("--version", std::string("sluice ") + version);
  Options options;
  commands(app, options);
  if (argc > 1 && argv[1] == std::string("complete"))  // its words are another line's: not parsed
    return complete(shape_of(app), {argv + 2, argv + argc});
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& e) {  // --help, --version
    return app.exit(e);
  } catch (const CLI::ParseError& e) {
    print_error(complaint(app, e.what(), argc, argv));
    std::cerr << "`sluice --help` and `sluice COMMAND --help` say more\n";
    return code(Exit::usage);
  }
  return dispatch(app, options);
}

}  // namespace
}  // namespace sluice::cli

// Before the constructors of static objects, which may find no memory either.
__attribute__((constructor(101))) static void before_statics() {
  sluice::exit_when_memory_is_out();
}

int main(int argc, char** argv) {
  sluice::cli::set_parent(getppid());
  std::signal(SIGCHLD, SIG_DFL);  // where a parent ignores it, nobody learns how our own ended
  std::signal(SIGXFSZ, SIG_IGN);  // a file that may not grow is an error of the call that writes it
  const std::string command = argc > 1 ? argv[1] : "";
  if (command == "run" || command == "profile" || command == "advise" || command == "plan")
    sluice::cli::keep_signals();
  try {
    return sluice::cli::flushed(sluice::cli::parse(argc, argv));
  } catch (...) {
    const sluice::Cause why = sluice::cause(sluice::Exit::usage);
    sluice::cli::print_error(why.text);
    return sluice::cli::code(why.exit);
  }
}
