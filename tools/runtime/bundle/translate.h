// From a bundle's configuration to a graph, part by part.
#pragma once

#include "engine/graph/catalogue.h"
#include "tools/runtime/bundle/report.h"
#include "tools/runtime/bundle/table.h"
#include "tools/runtime/bundle/values.h"

namespace sluice::bundle {

// A graph's text in the making: what stands under a key, and the comment before it.
struct Entry {
  std::string name;
  Json body;
  std::string comment;
};
struct GraphParts {
  std::string head;  // comment lines
  std::string name;
  Json run = Json::object();
  std::vector<Entry> models, nodes;
};
std::string graph_text(const GraphParts& parts);  // graph_writer.cpp

class Translator {
 public:
  Translator(const Config& config, const Catalogue& catalogue)
      : values(config), config_(config), catalogue_(catalogue) {
    for (const auto& spec : catalogue.all()) types_.push_back(spec->name);
  }

  void inference();
  void train();
  // After either: what calls of "initialize" and the like have done to networks that are there.
  void finish();

  GraphParts graph;
  Report report;
  Values values;

 private:
  const Config& config_;
  const Catalogue& catalogue_;
  std::vector<std::string> types_;
  int dims_ = 3;
  Json outputs_ = Json::array();  // the fields of a network with several outputs, in its order
  std::int64_t patches_ = 1;      // samples that leave a chain for one that enters

  // ---- translate.cpp: components by their Specs
  std::string type_of(const std::string& target) const;
  std::string node_name(const std::string& wanted) const;
  std::string comment_of(const Item& item) const;
  void missing(const Item& item, const std::string& text, bool blocks);
  // Parameters of a component that nothing has asked for by now and no row calls harmless.
  void rest(const Item& component, const std::string& why, bool blocks);
  void known_norm(const Item& member, const std::string& what, const ParamSpec& param, Json& value);
  // Parameters by the component's Spec into `body`; those with a value for each key into `per_key`.
  using PerKey = std::vector<std::pair<std::string, Json>>;
  void fill(const Item& component, const Spec& spec, Json& body, bool blocks,
            PerKey* per_key = nullptr);
  std::string emit(const Item& component, const std::string& type, Json body, bool blocks,
                   const std::string& name = "");
  std::string add_node(const std::string& name, Json body, const std::string& comment);

  // ---- chains.cpp: data to samples, and transforms
  struct Loader {
    std::string last;  // the node that samples leave
    std::int64_t batch_size = 1, repeats = 1;
    bool drop_last = false;
    std::vector<ItemPtr> transforms;  // for Invert
  };
  Loader loader(const Value& data_loader, bool shuffle_wanted, const std::string& name,
                const std::vector<std::string>& wanted, const Json& more);
  std::string source(const Item& dataset, const Value& data, Json body, const std::string& name,
                     const std::vector<ItemPtr>& transforms,
                     const std::vector<std::string>& wanted);
  std::vector<ItemPtr> transforms_of(const Value& value);
  std::string chain(const std::vector<ItemPtr>& transforms, std::string in,
                    const ItemPtr& cached_by = nullptr);
  std::string transform(const Item& item, const std::string& in);
  std::string split(const Item& item, const std::string& in);
  std::string script(const Item& item, const std::string& in);
  std::string load(const Item& item, const std::string& in);
  ItemPtr reader_of(const Item& load);
  void channels_last(const Json& of, const Json& axis, std::string in);
  std::string save(const Item& item, const std::string& in);
  std::string back_to_file(const Item& save, const std::string& in);
  std::string clicks(const Item& item, const std::string& in);
  std::string invert(const Item& item, const std::string& in);
  std::string lambda(const Item& item, const std::string& in);
  std::string choice(const Item& item, const std::string& type, const std::string& in);
  Json inner_nodes(const std::vector<ItemPtr>& transforms);
  std::string sampler(const Item& item, std::int64_t repeated, const std::string& in);
  bool is_random(const Item& item) const;

  // What stands where a shape has `_A`, by that name; null where a Lambda has another shape.
  Json captures(const std::string& shape, const Item& item);

  // ---- pairs.cpp
  bool paired_fields(const Item& set, const Value& pairs, std::vector<std::string>& names,
                     std::string& joined);
  std::string side_by_side(const Item& set, Json body, const std::string& name, bool training);

  // ---- prompts.cpp
  void ask(const Item& evaluator);
  Json asked_classes(const Item& evaluator, const Value& samples);
  void subclasses(const Item& transform);

  // ---- slides.cpp
  std::string decathlon(const Item& set, Json body, const std::string& name,
                        const std::vector<ItemPtr>& transforms);
  std::string slide_list(const Item& list, Json body, const std::string& name,
                         std::vector<ItemPtr>& transforms);
  std::string slides(const Item& set, const Value& data, Json body, const std::string& name,
                     std::vector<ItemPtr>& transforms);

  // ---- sampling.cpp: images that a diffusion model makes of noise
  bool sampling();  // whether the bundle's program makes such
  std::vector<Value> program();
  void told(const ItemPtr& item, std::vector<Value>& effects);
  void told_by(const char* key, std::vector<Value>& effects);
  void required(const Item& item, std::vector<Value>& effects);
  bool sampled_network(const Value* given, const std::string& name,
                       const std::vector<Value>& effects);
  std::string condition(const Json& numbers, const std::string& key, const std::string& over,
                        const std::string& in, const std::string& comment);
  void loaded(const Value& weights, Json& body);
  void scale_factor(const Item& inferer, Json& body);
  bool noise_schedule(const Value& given, const std::string& type, Json& body);
  // Training: batches with noise, and the network on them; "" of an engine of other inferers.
  std::string denoise(const Item& engine, const std::string& in, const std::string& name);
  std::string noisy(const Item& engine, const Value& inferer, std::string in);
  void saved(const Value& save, const std::string& key, std::string in);

  // ---- answers.cpp: a loader's first image beside what a network says of it
  void answers(const std::vector<Value>& effects);
  void first_alone(const Item& loading);

  // ---- controlnet.cpp: a controlnet that leads a diffusion model
  void lead(const Item& trainer);

  // ---- detection.cpp: a network that finds boxes
  struct Detector {
    ItemPtr item;
    Json selector = Json::object(), loss = Json::object();  // of box_selector, retina_net_loss
    Json windows;                                           // of sliding_window; null: none is set
    Json divisible, classes = Json::array(), changes = Json::array();
    std::string box_key = "boxes", label_key = "labels";
  };
  void feature_pyramid(const Item& net, const Spec& spec, Json& body);
  std::optional<Detector> detector(const Item& engine, const Value& given);
  bool set_up(Detector& d, const Value& setting);
  Json outputs_of(const Detector& d) const;
  std::string anchors(const Detector& d, const std::string& key, const std::string& in);
  void find_boxes(const Item& evaluator, const std::string& source_name, const Json& more);
  std::string look_for_boxes(const Item& evaluator, const Item& inferer, const Detector& d,
                             std::string in);
  void save_boxes(const Detector& d, std::string in);
  void boxes_metric(const Value& dict, const Detector& d, const std::string& in);
  void train_detector(const Item& trainer);
  void warm_up(const Item& handler, const Item& scheduler);

  // ---- adversaries.cpp: two networks against each other
  // A loss of what the judge says of images.
  struct Judging {
    std::string of;  // "fakes" or "reals"
    bool real = true;
    double weight = 1;
    Json loss = {};  // the node
  };
  void gan(const Item& trainer);
  void vae_gan(const Item& trainer, bool judge_first);
  bool opponents(const Item& trainer);
  std::string batches(const Loader& data, const std::string& in, const std::string& comment);
  static std::pair<Json, Json> asked(const Judging& term, const std::string& of,
                                     const std::string& output);
  std::string step_of(const Item& trainer, const std::string& whose, const std::string& in);
  std::string judge_steps(const Item& trainer, const std::string& reals, const std::string& in);
  Json perceptual(const Item& item);
  std::string learn(const Item& trainer, std::string last);
  std::vector<Judging> judging(const Item& trainer, const char* key, const Item& judge,
                               Json& judge_body);
  bool judging_terms(const Expr& e, double weight, const Item& judge, const At& at,
                     std::vector<Judging>& terms);
  void look_at_appended(const Item& maker, Json& maker_body);

  // ---- engines.cpp: networks, inference, training
  ItemPtr engine(const std::vector<std::string>& names, const std::string& ending);
  void network(const Value& value, const std::string& name = "net");
  void architecture(const Item& item, const Spec& spec, Json& body);
  void weights(const Item& loader);
  void look_at_calls();
  void handlers(const Value& list, bool training);
  void save_checkpoints(const ItemPtr& saver);
  void keep_best(const Item& evaluator);
  bool smaller_is_better(const Item& evaluator);
  std::string infer(const Item& evaluator, const std::string& in);
  void metrics(const Value& dict, const std::string& in, const std::string& scores);
  void evaluate(const Item& evaluator, const std::string& source_name, const Json& more);
  void validate();
  bool is_one_hot(const Item& transform);
  bool is_classifier() const;
  bool registers() const;  // a network that answers with a moved image
  bool counts_whole_batches(const Item& engine, std::int64_t size);
  bool whole_images() const;
  Json forward_node(const std::string& in) const;
  Value prepared_batch(const Item& engine);
  void look_at_iteration(const Item& engine);
  std::string interact(const Item& engine, const std::string& in, bool training);
  bool is_steps_of_run(const ItemPtr& given);
  void schedule(const Item& handler);
  void optimizer(const Item& item, const std::string& in, const std::string& net = "net");
  void precision(const Item& engine);
  void look_at_batches(const Item& engine, const std::vector<ItemPtr>& post);

  std::string field_;                // what transforms that name none are of; "": image
  std::string target_;               // what the network is to say; "": label
  std::set<std::string> asked_for_;  // whose _requires_ were worked out
  std::vector<std::pair<ItemPtr, Value>> calls_;  // on networks: the line, what it says
  bool slides_ = false;                           // regions are what the network sees
  std::int64_t batch_size_ = 1;                   // of the evaluation
  ItemPtr map_;                                   // ProbMapProducer
  std::vector<ItemPtr> preprocessing_;            // of the loader last made
  Json step_ = Json::object();                    // the optimizer's schedule
  Json validation_;                               // "after" and "every_epochs"
  std::map<std::string, std::string> writers_;    // of the bundle's own: class, by extension
  // Metrics of the evaluator last made: "val_mean_dice" there, "val_mean_dice.mean" here.
  std::map<std::string, std::string> metrics_;
  ItemPtr best_saver_;           // the CheckpointSaver of the best epoch
  ItemPtr validator_;            // the evaluator that ValidationHandler names
  std::string source_;           // the node of the loader last made
  ItemPtr saver_;                // ClassificationSaver, DetectionSaver
  std::string input_ = "image";  // the field that the network takes
  bool splits_classes_ = false;  // a script makes fields of classes, which metrics do not need
  bool one_hot_ = false;         // metrics see a mask a class, of labels as well
  bool file_axes_ = false;       // images are as their files have them: channels are not first
  Value interaction_;            // of the engine that is being translated: DeepEdit's clicks
  Json labels_ = Json::array();  // DeepEdit's, as their transforms number them
  Json prompts_;                 // classes that a network is asked for
};

}  // namespace sluice::bundle
