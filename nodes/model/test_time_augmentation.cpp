// test_time_augmentation: MONAI's TestTimeAugmentation (Wang et al. 2019, doi:
// 10.1016/j.neucom.2019.01.103). A sample is predicted several times, each time behind random
// transforms; the predictions are turned back and their statistics are taken.
//
// Invariant: draws depend on the sample and the repetition alone.
#include <ATen/Functions.h>
#include <ATen/core/grad_mode.h>

#include "engine/run/inner_node.h"
#include "engine/state/resource.h"
#include "nodes/turning_back.h"

namespace sluice {
namespace {

struct TestTimeAugmentation final : Node {
  struct Params {
    std::string net, key = "image", output_key = "pred";
    Json transforms = Json::array(), body = Json::array();
    std::int64_t num_examples = 10, batch_size = 1;
    bool nearest_interp = true, apply_inverse_to_pred = true;
  } p;

  static Spec spec() {
    return Spec("test_time_augmentation",
                "Predicts a sample several times behind random transforms, turns the predictions "
                "back, and says where they agree.")
        .in("sample")
        .out("sample",
             "With the fields pred_mode, pred_mean, pred_std (output_key), [C, ...] float32 each.")
        .param("net", &Params::net,
               "The network's name in \"models\"; it is read as for validation.")
        .required()
        .param("key", &Params::key, "The network's input, [C, X, Y(, Z)] float32, one sample.")
        .param("transforms", &Params::transforms,
               "Nodes {\"type\": ..., parameters} that are done one after the other before each "
               "prediction; what moves voxels must be affine (flips, rand_affine, rand_zoom, "
               "crops, ...), since it is undone.")
        .required()
        .length(1)
        .param("body", &Params::body,
               "Nodes that are done to each prediction, which they find in \"pred\" (output_key), "
               "before it is turned back: activations, as_discrete, ...")
        .param("num_examples", &Params::num_examples, "Predictions of a sample.")
        .range(2, 1000)
        .param("batch_size", &Params::batch_size, "Of them in one forward pass.")
        .at_least(1)
        .param("nearest_interp", &Params::nearest_interp,
               "Predictions are turned back by the nearest voxel; otherwise linearly.")
        .param("apply_inverse_to_pred", &Params::apply_inverse_to_pred,
               "false: predictions are no images (classes), and stay as they are.")
        .param("output_key", &Params::output_key, "Begins the names of the fields.")
        .reports({"vvc"})
        .reads("net")
        .random()
        .lane(LaneKind::step)
        .limit(1)
        .takes("@key", Form::image, 2, 3)
        .gives("@output_key@=_mode", Form::any)
        .dtype("float32")
        .gives("@output_key@=_mean", Form::any)
        .dtype("float32")
        .gives("@output_key@=_std", Form::any)
        .dtype("float32")
        .any_device();
  }

  void open(const OpenContext& context) override {
    network_ = context.resources->network(p.net);
    lazy_ = context.lazy;
    if (!p.transforms.is_array() || p.transforms.empty())
      throw Error(Exit::usage, "transforms needs a list of at least one node");
    OpenContext inside = context;
    inside.fuse = false;  // each is done when it leaves its node
    const auto make = [&](const Json& entries, const std::string& where) {
      std::vector<InnerNode> nodes;
      for (std::size_t k = 0; k < entries.size(); ++k) {
        if (!entries[k].is_object())
          throw Error(Exit::usage, where + " is a list of nodes, one after the other");
        nodes.push_back(
            InnerNode::make(entries[k], context.node + "/" + where + std::to_string(k), inside));
      }
      return nodes;
    };
    transforms_ = make(p.transforms, "transforms");
    body_ = make(p.body, "body");
  }

  void process(Firing& f) override {
    const at::NoGradGuard no_grad;
    require_spatial(f.in().tensor(p.key), p.key);
    network_->train(false);
    std::vector<at::Tensor> all;
    for (std::int64_t first = 0; first < p.num_examples; first += p.batch_size) {
      if (f.stopped()) return;
      const std::int64_t last = std::min(first + p.batch_size, p.num_examples);
      predict(f, first, last, all);
    }
    emit(f, at::stack(all));
  }

 private:
  void predict(Firing& f, std::int64_t first, std::int64_t last, std::vector<at::Tensor>& all) {
    std::vector<SamplePtr> moved;
    std::vector<at::Tensor> images;
    for (std::int64_t n = first; n < last; ++n) {
      moved.push_back(run(transforms_, f.ptr(), at(f.stamp(), n), f));
      images.push_back(moved.back()->tensor(p.key).to(at::kFloat));
      if (images.back().sizes() != images.front().sizes())
        throw DataError("the transforms give images of " + c10::str(images.front().sizes()) +
                        " and of " + c10::str(images.back().sizes()) +
                        ": set batch_size to 1, or crop or pad them to one size");
    }
    const at::Tensor preds = network_->forward(at::stack(images)).to(at::kFloat);
    for (std::int64_t n = first; n < last; ++n) {
      const SamplePtr& from = moved[static_cast<std::size_t>(n - first)];
      Sample sample = *from;
      sample.set(p.output_key, Field(preds[n - first], from->at(p.key).meta));
      all.push_back(finished(
          *run(body_, std::make_shared<const Sample>(std::move(sample)), at(f.stamp(), n), f),
          f.in().at(p.key)));
    }
  }

  // What the draws of a repetition are keyed by.
  static Stamp at(Stamp stamp, std::int64_t n) {
    if (stamp.depth < Stamp::max_depth) ++stamp.depth;
    stamp.path[stamp.depth - 1] = static_cast<std::uint32_t>(n);
    return stamp;
  }

  static SamplePtr run(const std::vector<InnerNode>& nodes, SamplePtr sample, const Stamp& stamp,
                       Firing& f) {
    const std::function<bool()> stopped = [&f] { return f.stopped(); };
    Firing firing(stamp, 0, {{sample}}, stopped);
    for (const InnerNode& node : nodes)
      if (!(sample = node.run(std::move(sample), firing)))
        throw DataError("a node inside keeps the sample back: " + firing.skip_reason());
    return sample;
  }

  // On the grid that the image has outside.
  at::Tensor finished(const Sample& predicted, const Field& image) const {
    const Field& pred = predicted.at(p.output_key);
    if (!p.apply_inverse_to_pred) return pred.tensor.to(at::kFloat);
    const at::Tensor& moved = predicted.tensor(p.key);
    if (pred.tensor.sizes().slice(1) != moved.sizes().slice(1))
      throw DataError("the prediction " + c10::str(pred.tensor.sizes()) +
                      " is not on the grid of the image " + c10::str(moved.sizes()) +
                      ": set apply_inverse_to_pred to false");
    return turned_back(
               pred, image.geometry().history.size(),
               {p.nearest_interp ? Interpolation::nearest : Interpolation::linear, {}, lazy_})
        .tensor.to(at::kFloat);
  }

  void emit(Firing& f, const at::Tensor& all) const {
    const MetaPtr meta = f.in().at(p.key).meta.front();
    Sample out = f.in();
    out.set(p.output_key + "_mode",
            Field(std::get<0>(all.to(at::kLong).mode(0)).to(at::kFloat), meta));
    out.set(p.output_key + "_mean", Field(all.mean(0), meta));
    out.set(p.output_key + "_std", Field(all.std(0), meta));
    f.log("vvc", all.std().item<double>() / all.mean().item<double>());
    f.emit(std::move(out));
  }

  std::shared_ptr<Network> network_;
  std::vector<InnerNode> transforms_, body_;
  bool lazy_ = false;
};

const Register<TestTimeAugmentation> registered;

}  // namespace
}  // namespace sluice
