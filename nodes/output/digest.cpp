// digest: a line on stdout for each sample, with the SHA-256 of what its fields hold, so that two
// ways to the same samples can be compared.
#include <cstdio>
#include <string>

#include "engine/base/durable_file.h"
#include "engine/base/message.h"
#include "engine/run/registry.h"
#include "engine/state/dtype.h"
#include "engine/state/sample.h"

namespace sluice {
namespace {

// Of each field that holds a tensor: "image float32 4,1,64,64,64\n" and its values in C order.
std::string digest_of(const Sample& sample) {
  Sha256 sum;
  for (const auto& [name, field] : sample.fields()) {
    if (!field.tensor.defined()) continue;
    const at::Tensor t = field.tensor.cpu().contiguous();
    const Dtype* dtype = find_dtype(t.scalar_type());
    std::string head = name + " " + (dtype ? std::string(dtype->name) : t.dtype().name().data());
    for (std::int64_t i = 0; i < t.dim(); ++i)
      head += (i == 0 ? " " : ",") + std::to_string(t.size(i));
    head += "\n";
    sum.update(head.data(), head.size());
    sum.update(t.const_data_ptr(), t.nbytes());
  }
  return sum.hex();
}

struct Digest final : Node {
  static Spec spec() {
    return Spec("digest",
                "Prints a line for each sample in order, `epoch index SHA-256 name`: the digest of "
                "its fields' names, types, extents and values.")
        .in("sample")
        .ordered()
        .lane(LaneKind::io)
        .passes()
        .any_device();
  }

  void process(Firing& f) override {
    const Stamp& stamp = f.stamp();
    std::printf("%u %llu %s %s\n", stamp.epoch, static_cast<unsigned long long>(stamp.index),
                digest_of(f.in()).c_str(), printable(f.in().name).c_str());
  }
};

const Register<Digest> registered;

}  // namespace
}  // namespace sluice
