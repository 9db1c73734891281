// What the nodes' tests share: the driver of one node, and a sample to drive it with.
#pragma once

#include <ATen/ATen.h>

#include <cmath>

#include "engine/run/device.h"
#include "engine/state/drive.h"

namespace sluice {

// A sample with one field; add others with set().
inline Sample sample_of(const std::string& key, at::Tensor tensor,
                        const Affine& affine = identity_affine) {
  auto meta = std::make_shared<Meta>();
  meta->affine = affine;
  meta->has_affine = true;
  Sample sample;
  sample.name = "case";
  sample.set(key, Field(std::move(tensor), std::move(meta)));
  return sample;
}

// A firing on a device's lane: what is read when the device is done is read when the test says so,
// and until then the inputs hold nothing of use. With `made`, one whose work a recording did.
class LateFiring {
 public:
  LateFiring(Driver& driver, const Sample& sample, const Sample* made = nullptr,
             const Stamp& stamp = at_index(0))
      : truth_(sample), late_(sample) {
    for (const auto& [key, field] : sample.fields()) {
      Field poisoned = field;
      poisoned.tensor = at::full_like(field.tensor, field.tensor.is_floating_point() ? NAN : 99);
      late_.set(key, std::move(poisoned));
    }
    firing_ = Firing(stamp, 0, {{std::make_shared<const Sample>(late_)}}, stopped_);
    firing_.on(&stream_);
    made ? driver.node().repeated(firing_, *made) : driver.node().process(firing_);
  }
  const Sample& emitted() { return *firing_.outs().at(0).sample; }
  // The device is done; what was logged.
  std::vector<std::pair<std::string, double>> done() {
    for (const auto& [key, field] : truth_.fields())
      at::Tensor(late_.at(key).tensor).copy_(field.tensor);
    for (const auto& look : firing_.later()) look();
    return std::move(firing_.logs());
  }

 private:
  struct Nowhere final : Stream {
    PointPtr mark() override { return nullptr; }
    void wait(const Point&) override {}
  };
  Nowhere stream_;
  const std::function<bool()> stopped_ = [] { return false; };
  Sample truth_, late_;
  Firing firing_;
};

}  // namespace sluice
