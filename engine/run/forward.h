// A node that wraps another one and forwards every call to it. A wrapper overrides only the calls
// that it changes.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "engine/run/node.h"

namespace sluice {

class Forward : public Node {
 public:
  explicit Forward(std::unique_ptr<Node> node) : node_(std::move(node)) {}
  void open(const OpenContext& context) override { node_->open(context); }
  void process(Firing& f) override { node_->process(f); }
  void flush(Flush& f) override { node_->flush(f); }
  std::optional<std::uint64_t> recordable(const Firing& f) const override {
    return node_->recordable(f);
  }
  void repeated(Firing& f, const Sample& made) override { node_->repeated(f, made); }
  void observe(const Observation& o) override { node_->observe(o); }
  void save(State& state) const override { node_->save(state); }
  void load(const State& state) override { node_->load(state); }
  void merge(const State& part) override { node_->merge(part); }
  CacheStore* store() override { return node_->store(); }
  SamplePtr item_record(std::uint64_t item) const override { return node_->item_record(item); }
  std::optional<std::vector<std::uint64_t>> epoch_items(std::uint32_t epoch,
                                                        std::uint64_t listed) override {
    return node_->epoch_items(epoch, listed);
  }
  std::optional<std::uint64_t> epoch_size() const override { return node_->epoch_size(); }
  std::optional<std::uint64_t> item_count() const override { return node_->item_count(); }

 protected:
  const std::unique_ptr<Node> node_;
};

}  // namespace sluice
