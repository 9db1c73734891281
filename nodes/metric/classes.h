// What the metrics of classifiers share: logits and classes of a sample or of a batch, and the
// names that metrics of single classes have.
//
// Invariant: scores() is [N, C] float32 and truth() [N] int64 on the host, N the same, every class
// below C (below 2 where C is 1); whatever does not fit is a DataError that names the sample.
#pragma once

#include <ATen/Functions.h>

#include <string>
#include <vector>

#include "engine/base/error.h"
#include "engine/graph/spec.h"
#include "engine/state/sample.h"
#include "nodes/fields.h"

namespace sluice {

struct Classified {
  at::Tensor scores, truth;
};

inline Classified classified(const Sample& sample, const std::vector<std::string>& keys) {
  at::Tensor scores = sample.tensor(keys[0]).detach().to(at::kCPU, at::kFloat);
  at::Tensor truth = sample.tensor(keys[1]).to(at::kCPU, at::kLong);
  if (scores.dim() == 1) {  // a sample, not a batch
    scores = scores.unsqueeze(0);
    truth = truth.reshape({-1});
  }
  if (truth.dim() == 2 && truth.size(1) == 1) truth = truth.squeeze(1);
  if (scores.dim() != 2 || truth.dim() != 1 || truth.size(0) != scores.size(0))
    throw DataError(sample.name + ": \"" + keys[0] + "\" " + list_text(scores.sizes()) + " and \"" +
                    keys[1] + "\" " + list_text(truth.sizes()) +
                    " are not [N, C] scores and [N] classes");
  scores = scores.contiguous();
  truth = truth.contiguous();
  const std::int64_t classes = scores.size(1) == 1 ? 2 : scores.size(1);
  for (std::int64_t n = 0; n < truth.size(0); ++n)
    if (const auto t = truth.const_data_ptr<std::int64_t>()[n]; t < 0 || t >= classes)
      throw DataError(sample.name + " (member " + std::to_string(n) + "): class " +
                      std::to_string(t) + "; there are 0 to " + std::to_string(classes - 1));
  return {scores, truth};
}

// The class of each row: the highest score, the first of equals; of one score: whether it is
// above 0, the logit of 1/2.
inline std::vector<std::int64_t> chosen(const at::Tensor& scores) {
  const std::int64_t c = scores.size(1);
  std::vector<std::int64_t> out;
  for (const float* s = scores.const_data_ptr<float>(); std::ssize(out) < scores.size(0); s += c)
    out.push_back(c == 1 ? s[0] > 0 : std::max_element(s, s + c) - s);
  return out;
}

// What such metrics declare: the two keys, and what each class is called.
template <class Params>
Spec& add_classes_params(Spec& s, const char* keys) {
  return s.in("sample")
      .param("keys", &Params::keys, keys)
      .length(2, 2)
      .param("class_names", &Params::class_names,
             "Names for the metrics: class_Hand, ...; empty: numbers.")
      .ordered()
      .reports({"mean", "class_*"})
      .takes("@keys", Form::any, 0)
      .any_device();
}

// "class_plane", or "class_3" where no names are given.
inline std::string class_metric(const std::vector<std::string>& names, std::size_t c) {
  return "class_" + (c < names.size() ? names[c] : std::to_string(c));
}

inline void require_names(const std::vector<std::string>& names, std::size_t classes) {
  if (!names.empty() && names.size() != classes)
    throw Error(Exit::usage, "class_names has " + std::to_string(names.size()) + " names for " +
                                 std::to_string(classes) + " classes");
}

}  // namespace sluice
