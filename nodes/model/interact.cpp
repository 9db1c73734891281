// interact: MONAI's Interaction of deepgrow, on batches. A network predicts, nodes inside of this
// one click where it is wrong, and it predicts again: a loop inside of one node, so a batch is one
// packet in and one out.
//
// Invariant: draws depend on the member and the iteration alone, so neither the batch's size nor
// threads change a click. Whether a member clicks is drawn first: one that does not needs no
// prediction, since nothing of it would change.
#include <ATen/Functions.h>
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <filesystem>

#include "engine/base/warnings.h"
#include "engine/run/inner_node.h"
#include "engine/state/list_field.h"
#include "engine/state/resource.h"

namespace sluice {
namespace {

struct Interact final : Node {
  struct Params {
    std::string net, key = "image", output_key = "pred", probability = "falling";
    std::int64_t times = 0, zero_channels_from = 1;
    double enter = 1;
    std::vector<std::int64_t> emit_at;
    Json body = Json::array();
  } p;

  static Spec spec() {
    return Spec("interact",
                "Lets simulated clicks correct a network's prediction: it predicts, the nodes of "
                "the body click and show the clicks, and it predicts again.")
        .in("sample")
        .out("sample")
        .param("net", &Params::net,
               "The network's name in \"models\"; it is read as for validation.")
        .required()
        .param("key", &Params::key,
               "The network's input, [N, C, X, Y(, Z)] float32, with channels for the clicks.")
        .param("times", &Params::times, "Corrections; 0: none, the batch goes on as it came.")
        .required()
        .range(0, 1000)
        .param(
            "body", &Params::body,
            "Nodes {\"type\": ..., parameters} that are done one after the other on each member "
            "that clicks. They find the prediction in \"pred\" (output_key) and a \"probability\" "
            "of 1.")
        .required()
        .length(1)
        .param("probability", &Params::probability,
               "How likely a member clicks in the iteration j = 0, 1, ...: falling: 1 - j / times.")
        .choices({"falling", "always"})
        .param("emit_at", &Params::emit_at,
               "Numbers of corrections after which the prediction is kept: 0 and 5 make the fields "
               "pred_0 and pred_5 (output_key), with gradients nowhere.")
        .range(0, 1000)
        .param("output_key", &Params::output_key, "Where the body finds the prediction.")
        .param("enter", &Params::enter,
               "How likely a batch is corrected at all; of the others the channels of clicks are "
               "set to 0.")
        .range(0, 1)
        .param("zero_channels_from", &Params::zero_channels_from,
               "The first channel of clicks, for batches that are not corrected.")
        .at_least(0)
        .reports({"passes"})
        .reads("net")
        .random()
        .lane(LaneKind::step)
        .limit(1)
        .takes("@key", Form::batch, 2, 3)
        .enters("@key", "net")
        .gives("@output_key#emit_at", Form::batch)
        .like("@key")
        .channels("@net.out_channels")
        .dtype("float32")
        .any_device();
  }

  void open(const OpenContext& context) override {
    network_ = context.resources->network(p.net);
    will_click_ = random_key(context.seed, context.node + "/click");
    node_ = context.node;
    if (!p.body.is_array() || p.body.empty())
      throw Error(Exit::usage, "body needs a list of at least one node");
    if (p.enter < 1 && !p.emit_at.empty())
      throw Error(Exit::usage,
                  "emit_at keeps predictions of every batch, but with enter " +
                      Json(p.enter).dump() +
                      " some batches are not predicted; leave emit_at out or set enter to 1");
    for (const std::int64_t at : p.emit_at)
      if (at > p.times)
        throw Error(Exit::usage, "emit_at has " + std::to_string(at) + ", but times is " +
                                     std::to_string(p.times));
    OpenContext inside = context;
    inside.fuse = false;  // a member is done when it leaves the body
    for (std::size_t k = 0; k < p.body.size(); ++k)
      body_.push_back(InnerNode::make(p.body[k], node_ + "/" + std::to_string(k), inside));
  }

  void process(Firing& f) override {
    const at::Tensor& image = f.in().tensor(p.key);
    if (image.dim() < 4)
      throw DataError("\"" + p.key + "\" has " + std::to_string(image.dim()) +
                      " axes; a network takes a batch [N, C, X, Y(, Z)]");
    if (p.times == 0 && p.emit_at.empty() && p.enter >= 1) return f.emit_ptr(f.ptr());
    if (p.enter < 1 && !f.random().chance(p.enter)) return f.emit(without_clicks(f.in()));
    const at::NoGradGuard no_grad;
    network_->train(false);
    Loop loop = begin(f);
    for (std::int64_t j = 0; j <= p.times; ++j) {
      if (f.stopped()) return;
      iterate(f, loop, j);
    }
    f.log("passes", static_cast<double>(loop.passes) / static_cast<double>(loop.members.size()));
    f.emit(finished(f.in(), loop));
  }

 private:
  struct Member {
    Sample sample;
    Stamp stamp;
    std::string name;
  };
  struct Loop {
    std::vector<Member> members;
    std::vector<at::Tensor> hosts;  // the batch's fields on the host, which members view
    std::vector<std::pair<std::string, at::Tensor>> kept;
    std::int64_t passes = 0, clicks = 0;
  };
  using Chosen = std::vector<std::size_t>;

  Sample without_clicks(const Sample& in) const {
    Sample out = in;
    Field image = in.at(p.key);
    image.tensor = image.tensor.clone();
    const std::int64_t first = std::min(p.zero_channels_from, image.tensor.size(1));
    image.tensor.narrow(1, first, image.tensor.size(1) - first).zero_();
    out.set(p.key, std::move(image));
    return out;
  }

  // A batch's members, on the host.
  Loop begin(const Firing& f) const {
    const Sample& in = f.in();
    Loop loop;
    loop.members.resize(static_cast<std::size_t>(in.tensor(p.key).size(0)));
    for (std::size_t m = 0; m < loop.members.size(); ++m) {
      Member& member = loop.members[m];
      member.stamp = f.stamp();
      member.stamp.path = {static_cast<std::uint32_t>(m)};
      member.stamp.depth = 2;
      member.name = "member " + std::to_string(m);
    }
    for (const auto& [key, field] : in.fields()) {
      const at::Tensor host = field.tensor.defined() ? field.tensor.cpu() : field.tensor;
      for (std::size_t m = 0; m < loop.members.size(); ++m)
        give(loop.members[m], key, field, host, m);
      loop.hosts.push_back(host);
    }
    return loop;
  }

  void give(Member& member, const std::string& key, const Field& batch, const at::Tensor& host,
            std::size_t m) const {
    const MetaPtr& meta = batch.meta[std::min(m, batch.meta.size() - 1)];
    if (const auto draws = draws_of(*meta)) member.stamp.index = *draws, member.stamp.path = {};
    if (key == p.key && !meta->path.empty())
      member.name = std::filesystem::path(meta->path).filename().string();
    const bool each =
        host.defined() && host.dim() > 0 && m < static_cast<std::size_t>(host.size(0));
    member.sample.set(key, Field(each ? host[static_cast<std::int64_t>(m)] : host, meta));
  }

  // The j-th prediction, and the clicks on what is wrong with it. After the last correction there
  // is a prediction where it is wanted, and no click.
  void iterate(const Firing& f, Loop& loop, std::int64_t j) {
    const bool keeps = std::find(p.emit_at.begin(), p.emit_at.end(), j) != p.emit_at.end();
    const Chosen clicking = clicking_at(loop, j);
    Chosen all(loop.members.size());
    for (std::size_t m = 0; m < all.size(); ++m) all[m] = m;
    const Chosen& predicted = keeps ? all : clicking;
    if (predicted.empty()) return;
    const at::Tensor pred = predictions(f, loop, predicted, j);
    loop.passes += std::ssize(predicted);
    loop.clicks += std::ssize(clicking);
    if (keeps) loop.kept.emplace_back(p.output_key + "_" + std::to_string(j), pred);
    if (clicking.empty()) return;
    const at::Tensor host = pred.cpu();
    at::parallel_for(0, std::ssize(clicking), 1, [&](std::int64_t begin, std::int64_t end) {
      for (auto i = static_cast<std::size_t>(begin); i < static_cast<std::size_t>(end); ++i) {
        const auto row = static_cast<std::int64_t>(keeps ? clicking[i] : i);
        click(f, loop.members[clicking[i]], host[row], j);
      }
    });
  }

  Chosen clicking_at(const Loop& loop, std::int64_t j) const {
    Chosen chosen;
    if (j == p.times) return chosen;
    const double likely =
        p.probability == "always" ? 1 : 1 - static_cast<double>(j) / static_cast<double>(p.times);
    for (std::size_t m = 0; m < loop.members.size(); ++m)
      if (Random(will_click_, at(loop.members[m], j)).chance(likely)) chosen.push_back(m);
    return chosen;
  }

  // What a member's draws of an iteration are keyed by.
  static Stamp at(const Member& member, std::int64_t j) {
    Stamp stamp = member.stamp;
    stamp.path[1] = static_cast<std::uint32_t>(j);
    return stamp;
  }

  at::Tensor predictions(const Firing& f, const Loop& loop, const Chosen& chosen, std::int64_t j) {
    std::vector<at::Tensor> images;
    for (const std::size_t m : chosen) images.push_back(loop.members[m].sample.tensor(p.key));
    const at::Tensor pred =
        network_->forward(at::stack(images).to(f.in().tensor(p.key).device())).to(at::kFloat);
    if (!pred.isfinite().all().item<bool>())
      throw Error(Exit::non_finite, "network \"" + p.net + "\" predicts what is not finite after " +
                                        std::to_string(j) + " of " + std::to_string(p.times) +
                                        " corrections");
    return pred;
  }

  void click(const Firing& f, Member& member, const at::Tensor& pred, std::int64_t j) const {
    Sample in = member.sample;
    in.set(p.output_key, Field(pred, in.at(p.key).meta));
    in.set("probability",
           Field(at::scalar_tensor(1.0, at::kFloat), std::make_shared<const Meta>()));
    const std::function<bool()> stopped = [&f] { return f.stopped(); };
    Firing firing(at(member, j), 0, {{std::make_shared<const Sample>(std::move(in))}}, stopped);
    try {
      SamplePtr out = firing.ptr();
      for (const InnerNode& inner : body_)
        if (!(out = inner.run(std::move(out), firing)))
          throw DataError("a node of the body keeps the sample back");
      for (auto& [key, field] : member.sample.fields()) field = out->at(key);
    } catch (const DataError& e) {
      throw DataError(member.name + ", after " + std::to_string(j) + " corrections: " + e.what());
    }
  }

  // The fields that came, with what the body made of them.
  Sample finished(const Sample& in, const Loop& loop) const {
    Sample out = in;
    bool image_changed = false;
    for (std::size_t i = 0; i < loop.hosts.size(); ++i) {
      auto& [key, field] = out.fields()[i];
      std::vector<at::Tensor> rows;
      for (const Member& member : loop.members) rows.push_back(member.sample.tensor(key));
      const at::Tensor& host = loop.hosts[i];
      if (!host.defined() ||
          std::all_of(rows.begin(), rows.end(), [&](const auto& t) { return t.is_alias_of(host); }))
        continue;
      image_changed |= key == p.key;
      const bool list = is_list(*field.meta.front());
      if (!list && std::any_of(rows.begin(), rows.end(),
                               [&](const auto& t) { return t.sizes() != rows[0].sizes(); }))
        throw DataError("the body makes \"" + key + "\" of different shapes");
      field.tensor = (list ? stacked_lists(rows) : at::stack(rows)).to(field.tensor.device());
    }
    if (loop.clicks > 0 && !image_changed)
      warn("the body of \"" + node_ + "\" leaves \"" + p.key +
           "\" as it is, so its clicks change nothing: let add_guidance_signal end it");
    for (const auto& [key, pred] : loop.kept) out.set(key, Field(pred, in.at(p.key).meta));
    return out;
  }

  std::shared_ptr<Network> network_;
  std::vector<InnerNode> body_;
  std::uint64_t will_click_ = 0;
  std::string node_;
};

const Register<Interact> registered;

}  // namespace
}  // namespace sluice
