// What a network's passes share from one to the next.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>

#include "kernels/net/stages.h"

namespace sluice {

struct Prepared {
  // The network's own tensors with what steps made of them, for passes that need no gradients.
  std::mutex mutex;
  std::shared_ptr<const Replica> replica;
  std::uint64_t version = 0;

  Parts parts;
};

}  // namespace sluice
