// as_discrete: MONAI's AsDiscreted. What it does it does in this order: argmax, one-hot, threshold,
// rounding.
#include <ATen/ops/argmax.h>
#include <ATen/ops/ge.h>
#include <ATen/ops/gt.h>
#include <ATen/ops/round.h>

#include "kernels/image/labels.h"
#include "kernels/image/one_hot.h"
#include "kernels/loss/target.h"
#include "nodes/transform/each_key.h"

namespace sluice {
namespace {

struct AsDiscrete final : EachKey<AsDiscrete> {
  struct Params : KeyParams {
    std::vector<bool> argmax{false};
    Maybe<std::int64_t> to_onehot;
    Maybe<double> threshold;
    Maybe<std::string> rounding;
    bool strict = false, keepdim = true;
    std::int64_t dim = 0;
    Params() { keys = {"pred"}; }
  } p;

  static Spec spec() {
    return each_key_spec<Params>("as_discrete",
                                 "Turns values into labels: argmax, one-hot, threshold, rounding.",
                                 "Fields [C, ...]; for a threshold alone batches of them too.")
        .param("argmax", &Params::argmax,
               "Index of the largest channel, [1, ...]; one, or one a key.")
        .per("keys")
        .param("to_onehot", &Params::to_onehot,
               "Number of classes to spread labels over; one, or one a key. Labels that are no "
               "class are an "
               "error on the host, and set no channel on a device.")
        .at_least(1)
        .per("keys")
        .param("threshold", &Params::threshold,
               "1 where the value is at least this, else 0; one, or one a key.")
        .per("keys")
        .param("rounding", &Params::rounding,
               "torchrounding: to whole numbers, halves to even ones; one, or one a key.")
        .choices({"torchrounding"})
        .per("keys")
        .param("strict", &Params::strict, "1 only where the value is above the threshold.")
        .param("dim", &Params::dim, "The axis of the channels.")
        .param("keepdim", &Params::keepdim, "Whether argmax keeps that axis, of one element.")
        .any_device()
        .takes("@keys", Form::any)
        .changes("@keys")
        .dtype("float32")
        .changes("@keys")
        .channels("1")
        .when("argmax", true)
        .changes("@keys")
        .channels("@to_onehot")
        .when("to_onehot");
  }

  void change(Field& field, std::size_t i) const {
    at::Tensor& t = field.tensor;
    const bool index = flag(p.argmax, i);
    const auto classes = maybe(p.to_onehot, i);
    if (index || classes) {  // over the first axis
      const std::int64_t axis = axis_of(p.dim, t, p.keys[i]);
      t = t.movedim(axis, 0);
      if (index) t = indices(t);
      if (classes) t = spread(t, *classes, p.keys[i]);
      t = t.movedim(0, axis);
      if (index && !p.keepdim && t.size(axis) == 1) t = t.squeeze(axis);
    }
    if (const auto least = maybe(p.threshold, i))
      t = p.strict ? at::gt(t, *least) : at::ge(t, *least);
    t = t.to(at::kFloat);
    if (maybe(p.rounding, i)) t = at::round(t);
    t = t.contiguous();
  }

 private:
  static at::Tensor indices(const at::Tensor& scores) {
    const bool few = scores.size(0) <= 256 && scores.dim() > 1;
    return few ? kernels::argmax_channels(scores.contiguous()) : at::argmax(scores, 0, true);
  }
  static at::Tensor spread(const at::Tensor& labels, std::int64_t classes, const std::string& key) {
    if (labels.size(0) != 1)
      throw DataError("field \"" + key + "\": to_onehot wants one channel, found " +
                      std::to_string(labels.size(0)));
    if (labels.is_cpu())  // on a device it would have to wait for the value
      if (const auto bad = find_bad_label(labels.unsqueeze(0), classes))
        throw DataError("field \"" + key + "\": " + Json(bad->value).dump() +
                        " is no class of to_onehot " + std::to_string(classes));
    return one_hot(labels.contiguous().unsqueeze(0), classes, at::kFloat).squeeze(0);
  }
};

const Register<AsDiscrete> registered;

}  // namespace
}  // namespace sluice
