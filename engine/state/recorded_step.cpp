#include "engine/state/recorded_step.h"

#include <ATen/ops/empty_like.h>

#include <algorithm>
#include <set>
#include <utility>

#include "engine/base/error.h"
#include "engine/run/forward.h"
#include "engine/state/sample.h"

namespace sluice {
namespace {

// One node of the region.
struct Member {
  Node* node = nullptr;
  std::vector<int> inputs;  // by in-port: the member that it comes from; -1: from outside
};

class RecordedStep {
 public:
  static constexpr int warm_up = 3;  // steps of one shape in a row that run as usual

  RecordedStep(std::shared_ptr<TensorDevice> device, std::shared_ptr<RecordedSteps> counts)
      : counts_(std::move(counts)), device_(std::move(device)) {}

  void add(Member member) { members_.push_back(std::move(member)); }

  // The firing of one member; the first one's decides for the whole step.
  void process(std::size_t member, Firing& f) {
    if (member == 0) begin(f);
    if (made_)
      members_[member].node->repeated(f, (*made_)[member]);
    else
      members_[member].node->process(f);
  }

 private:
  using Numbers = std::vector<std::int64_t>;

  void begin(Firing& f) {
    made_.reset();
    const Numbers shapes = shapes_of(f.in());
    const auto settings = settings_of(f);
    in_row_ = shapes == last_ ? in_row_ + 1 : 1;
    last_ = shapes;
    const bool known = recording_ && shapes == shapes_;
    if (shapes.empty() || !settings || (!known && in_row_ <= warm_up)) return;
    if (!known || *settings != settings_) {
      record(f);
      shapes_ = shapes;
      settings_ = *settings;
    }
    repeat(f);
  }

  // Types, sizes and strides; none where a field is not on the device.
  Numbers shapes_of(const Sample& sample) const {
    Numbers all;
    for (const auto& [key, field] : sample.fields()) {
      const at::Tensor& t = field.tensor;
      if (!t.defined() || t.device() != device_->place()) return {};
      all.push_back(static_cast<std::int64_t>(std::hash<std::string>()(key)));
      all.push_back(static_cast<std::int64_t>(t.scalar_type()));
      all.push_back(t.dim());
      all.insert(all.end(), t.sizes().begin(), t.sizes().end());
      all.insert(all.end(), t.strides().begin(), t.strides().end());
    }
    return all;
  }

  std::optional<std::vector<std::uint64_t>> settings_of(const Firing& f) {
    std::vector<std::uint64_t> all;
    for (const Member& m : members_) {
      const auto one = m.node->recordable(f);
      if (!one) return std::nullopt;
      all.push_back(*one);
    }
    return all;
  }

  void record(Firing& f) {
    Stream& stream = *f.stream();
    if (recording_) stream.mark()->wait();
    recording_.reset();  // its memory goes before the next one's comes
    inputs_ = Sample();
    inputs_.name = f.in().name;
    for (const auto& [key, field] : f.in().fields())
      inputs_.set(key, Field(at::empty_like(field.tensor), field.meta));
    recording_ =
        device_->record([this, &stream, stamp = f.stamp()] { return run(stamp, stream); }, stream);
    kept_ = stream.take_kept();
    ++counts_->recorded;
  }

  // The bodies one after the other on the fixed inputs; the tensors that they made.
  Recording::Tensors run(const Stamp& stamp, Stream& stream) {
    const std::function<bool()> stopped = [] { return false; };
    const auto first = std::make_shared<const Sample>(inputs_);
    std::vector<SamplePtr> outs;
    Recording::Tensors made;
    keys_.assign(members_.size(), {});
    for (std::size_t m = 0; m < members_.size(); ++m) {
      std::vector<std::vector<SamplePtr>> ports;
      for (const int from : members_[m].inputs)
        ports.push_back({from < 0 ? first : outs[static_cast<std::size_t>(from)]});
      Firing firing(stamp, 0, ports, stopped);
      firing.on(&stream);
      members_[m].node->process(firing);
      outs.push_back(firing.outs().empty() ? std::make_shared<const Sample>()
                                           : firing.outs().front().sample);
      for (const auto& [key, field] : outs.back()->fields())
        if (!came_in(ports, key, field)) {
          keys_[m].push_back(key);
          made.push_back(field.tensor.detach());
        }
    }
    return made;
  }

  static bool came_in(const std::vector<std::vector<SamplePtr>>& ports, const std::string& key,
                      const Field& field) {
    return std::any_of(ports.begin(), ports.end(), [&](const auto& port) {
      const Field* before = port.front()->find(key);
      return before && before->tensor.is_same(field.tensor);
    });
  }

  void repeat(Firing& f) {
    Stream& stream = *f.stream();
    for (const auto& [key, field] : f.in().fields())
      device_->copy(inputs_.tensor(key), field.tensor, stream);
    const Recording::Tensors& tensors = recording_->repeat(stream);
    auto made = std::make_shared<std::vector<Sample>>(members_.size());
    auto tensor = tensors.begin();
    for (std::size_t m = 0; m < members_.size(); ++m)
      for (const std::string& key : keys_[m]) {
        at::Tensor own = at::empty_like(*tensor);
        device_->copy(own, *tensor++, stream);
        (*made)[m].set(key, Field(std::move(own), std::make_shared<const Meta>()));
      }
    stream.keep(made);
    made_ = std::move(made);
    ++counts_->repeated;
  }

  const std::shared_ptr<RecordedSteps> counts_;
  const std::shared_ptr<TensorDevice> device_;
  std::vector<Member> members_;
  Numbers last_, shapes_;  // of the last step, of the recording
  int in_row_ = 0;         // steps of the last one's shapes
  std::vector<std::uint64_t> settings_;
  Sample inputs_;                                    // what the recording reads
  std::vector<std::shared_ptr<const void>> kept_;    // and what its bodies need to be there
  std::vector<std::vector<std::string>> keys_;       // by member: fields that it makes
  std::shared_ptr<const std::vector<Sample>> made_;  // by member; null: this step runs as usual
  std::unique_ptr<Recording> recording_;
};

// A member, seen from the scheduler.
class RecordedNode final : public Forward {
 public:
  RecordedNode(std::unique_ptr<Node> node, std::shared_ptr<RecordedStep> step, std::size_t member)
      : Forward(std::move(node)), step_(std::move(step)), member_(member) {}
  void process(Firing& f) override { step_->process(member_, f); }

 private:
  const std::shared_ptr<RecordedStep> step_;
  const std::size_t member_;
};

const PlanNode& at(const Plan& plan, int node) {
  return plan.nodes[static_cast<std::size_t>(node)];
}

// The nodes between the reader and the updater of a network, in order; else none, and why.
std::vector<int> region(const Plan& plan, const std::vector<int>& updaters, std::string& why) {
  if (updaters.size() != 1) return why = "several nodes update it", std::vector<int>();
  std::set<int> found;
  std::vector<int> open{updaters.front()};
  int gates = 0;
  while (!open.empty()) {
    const int i = open.back();
    open.pop_back();
    if (!found.insert(i).second) continue;
    const PlanNode& n = at(plan, i);
    if (n.lane != LaneKind::step || n.spec->arity != Arity::one_to_one || n.outs.size() > 1)
      return why = "\"" + n.path() + "\" is no 1:1 node of the step lane", std::vector<int>();
    if (n.gate) {
      ++gates;
      continue;
    }
    for (const GraphInput& in : n.inputs) open.push_back(in.from);
  }
  if (gates != 1) return why = "samples come into it at several nodes", std::vector<int>();
  std::vector<int> in_order;
  for (const int i : plan.order)
    if (found.contains(i)) in_order.push_back(i);
  return in_order;
}

Member member_of(const Plan& plan, const std::vector<int>& nodes, int i, Node* node) {
  Member m;
  m.node = node;
  m.inputs.assign(at(plan, i).spec->ins.size(), -1);
  for (const GraphInput& in : at(plan, i).inputs) {
    const auto from = std::find(nodes.begin(), nodes.end(), in.from);
    if (from != nodes.end())
      m.inputs[static_cast<std::size_t>(in.port)] = static_cast<int>(from - nodes.begin());
  }
  return m;
}

}  // namespace

std::shared_ptr<const RecordedSteps> record_steps(const Plan& plan,
                                                  const std::shared_ptr<TensorDevice>& device,
                                                  std::vector<std::unique_ptr<Node>>& nodes) {
  if (!plan.turns) return nullptr;
  auto counts = std::make_shared<RecordedSteps>();
  counts->updater = at(plan, plan.turns->updaters.front()).path();
  const std::vector<int> members = region(plan, plan.turns->updaters, counts->why_not);
  auto step = std::make_shared<RecordedStep>(device, counts);
  for (std::size_t m = 0; m < members.size(); ++m) {
    auto& node = nodes[static_cast<std::size_t>(members[m])];
    step->add(member_of(plan, members, members[m], node.get()));
    node = std::make_unique<RecordedNode>(std::move(node), step, m);
  }
  return counts;
}

}  // namespace sluice
