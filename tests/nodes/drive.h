// What the nodes' tests share: the driver of one node, and a sample to drive it with.
#pragma once

#include "engine/drive.h"

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

}  // namespace sluice
