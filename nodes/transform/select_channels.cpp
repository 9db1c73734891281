// select_channels: what bundles write as Lambdad(func="$lambda x: x[1:]").
#include <ATen/ops/stack.h>

#include "nodes/transform/each_key.h"

namespace sluice {
namespace {

struct SelectChannels final : EachKey<SelectChannels> {
  struct Params : KeyParams {
    std::optional<std::vector<std::int64_t>> channels;
    std::optional<std::int64_t> from, to;
  } p;

  static Spec spec() {
    return each_key_spec("select_channels", "Keeps some of the channels.",
                         "Fields to change, each [C, ...].")
        .param("channels", &Params::channels,
               "The channels to keep, in this order; negative: from the last.")
        .param("from", &Params::from, "The first channel to keep; negative: from the last.")
        .param("to", &Params::to, "The channel after the last to keep; negative: from the last.")
        .exclusive("channels", "from")
        .exclusive("channels", "to")
        .any_device()
        .takes("@keys", Form::image)
        .changes("@keys");
  }

  void change(Field& field, std::size_t i) const {
    at::Tensor& t = field.tensor;
    if (p.channels) {
      std::vector<at::Tensor> kept;
      for (const std::int64_t c : *p.channels) {
        if (c >= t.size(0) || c < -t.size(0))
          throw DataError("field \"" + p.keys[i] + "\" has " + std::to_string(t.size(0)) +
                          " channels; there is no channel " + std::to_string(c));
        kept.push_back(t.select(0, c < 0 ? c + t.size(0) : c));
      }
      if (!kept.empty()) t = at::stack(kept);
    } else {
      t = t.slice(0, p.from, p.to).contiguous();
    }
    if (t.size(0) == 0 || (p.channels && p.channels->empty()))
      throw DataError("field \"" + p.keys[i] + "\" has no channel left");
  }
};

const Register<SelectChannels> registered;

}  // namespace
}  // namespace sluice
