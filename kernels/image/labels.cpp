#include "kernels/image/labels.h"

#include <ATen/Dispatch.h>
#include <ATen/ops/argmax.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/stack.h>

#include <algorithm>
#include <string>

#include "engine/base/error.h"
#include "kernels/base/intensity_math.h"
#include "kernels/image/float_image.h"

namespace sluice::kernels {
namespace {

constexpr std::int64_t block =
    1024;  // voxels at a time: scores and classes stay in the first cache

// The winning channel of voxels `start` to `start + n`; channels are `stride` floats apart.
template <class Index>
void argmax_block(const float* scores, std::int64_t channels, std::int64_t stride,
                  std::int64_t start, std::int64_t n, Index* out) {
  float best[block];
  std::int32_t winner[block];
  std::copy_n(scores + start, n, best);
  std::fill_n(winner, n, 0);
  for (std::int32_t c = 1; c < channels; ++c) {
    const float* now = scores + c * stride + start;
    for (std::int64_t i = 0; i < n; ++i) {
      const bool better = outranks(now[i], best[i]);
      winner[i] = better ? c : winner[i];
      best[i] = better ? now[i] : best[i];
    }
  }
  for (std::int64_t i = 0; i < n; ++i) out[i] = static_cast<Index>(winner[i]);
}

// Class indices of any dtype as int32; -1 for what is not a whole number or does not fit.
template <class T>
void indices_block(const T* values, std::int64_t n, std::int32_t* out) {
  for (std::int64_t i = 0; i < n; ++i) {
    if constexpr (std::is_integral_v<T>) {
      const std::int64_t v = values[i];
      out[i] = v >= 0 && v <= 65535 ? static_cast<std::int32_t>(v) : -1;
    } else {
      const float v = static_cast<float>(values[i]);
      const std::int32_t index = v >= 0 && v <= 65535 ? static_cast<std::int32_t>(v) : -1;
      out[i] = static_cast<float>(index) == v ? index : -1;
    }
  }
}

void read_indices(const at::Tensor& map, std::int64_t start, std::int64_t n, std::int32_t* out) {
  AT_DISPATCH_ALL_TYPES_AND3(at::kBool, at::kHalf, at::kBFloat16, map.scalar_type(), "labels", [&] {
    indices_block(map.const_data_ptr<scalar_t>() + start, n, out);
  });
}

void require_classes(const std::int32_t* indices, const at::Tensor& map, const char* what,
                     std::int64_t start, std::int64_t n, std::int64_t classes) {
  bool fine = true;
  for (std::int64_t i = 0; i < n; ++i) fine &= indices[i] >= 0 && indices[i] < classes;
  if (fine) return;
  std::int64_t i = 0;
  while (indices[i] >= 0 && indices[i] < classes) ++i;
  std::string value = std::to_string(map.flatten()[start + i].item().toDouble());
  value.erase(value.find_last_not_of('0') + 1);
  if (value.ends_with('.')) value.pop_back();
  throw DataError(std::string(what) + " has the value " + value + "; classes are 0 to " +
                  std::to_string(classes - 1));
}

// From a device the winning classes are fetched, not the scores: one byte for C floats.
at::Tensor fetched(const at::Tensor& map) {
  if (map.device().is_cpu()) return map;
  return (map.size(0) > 1 ? argmax_channels(map) : map).cpu();
}

// Pairs (prediction, truth) counted in four tables: neighbours mostly fall into the same entry, and
// an entry is only written every few cycles.
class PairCounts {
 public:
  explicit PairCounts(std::int64_t classes) : classes_(classes), tables_(4 * classes * classes) {}

  void add(const std::int32_t* p, const std::int32_t* t, std::int64_t n) {
    for (std::int64_t i = 0; i < n; ++i) ++tables_[((i & 3) * classes_ + p[i]) * classes_ + t[i]];
  }

  Overlap overlap() const {
    Overlap o;
    for (auto* v : {&o.both, &o.pred, &o.truth}) v->resize(classes_);
    for (std::int64_t k = 0; k < static_cast<std::int64_t>(tables_.size()); ++k) {
      const std::int64_t p = k / classes_ % classes_, t = k % classes_;
      o.pred[p] += tables_[k];
      o.truth[t] += tables_[k];
      if (p == t) o.both[p] += tables_[k];
    }
    return o;
  }

 private:
  std::int64_t classes_;
  std::vector<std::int64_t> tables_;
};

// How many channels of a voxel are set, and which is the first that is.
template <class T>
void hot_block(const T* hot, std::int64_t channels, std::int64_t stride, std::int64_t n,
               std::uint8_t* set, std::uint8_t* out) {
  std::fill_n(set, n, 0);
  std::fill_n(out, n, 0);
  for (std::int64_t c = channels; c-- > 0;) {
    const T* now = hot + c * stride;
    for (std::int64_t i = 0; i < n; ++i) {
      const bool is = now[i] != T(0);
      set[i] = static_cast<std::uint8_t>(std::min(set[i] + is, 2));
      out[i] = is ? static_cast<std::uint8_t>(c) : out[i];
    }
  }
}

// What is done with a block: marking where a map is a value, and filling marked voxels.
using Marks = void (*)(const void* map, std::int64_t start, std::int64_t n, double value, bool* is);
using Fills = void (*)(void* out, std::int64_t start, std::int64_t n, const bool* is, double value);

template <class T>
void mark(const void* map, std::int64_t start, std::int64_t n, double value, bool* is) {
  const T* v = static_cast<const T*>(map) + start;
  const bool can = !c10::overflows<T>(value) && static_cast<double>(static_cast<T>(value)) == value;
  const T wanted = can ? static_cast<T>(value) : T(0);
  for (std::int64_t i = 0; i < n; ++i) is[i] = (v[i] == wanted) & can;
}
Marks marks_of(at::ScalarType type) {
  return AT_DISPATCH_ALL_TYPES_AND3(at::kBool, at::kHalf, at::kBFloat16, type, "labels",
                                    [] { return Marks(mark<scalar_t>); });
}
template <class T>
void fill(void* out, std::int64_t start, std::int64_t n, const bool* is, double value) {
  T* v = static_cast<T*>(out) + start;
  const T given = c10::checked_convert<T>(value, "the labels' type");
  for (std::int64_t i = 0; i < n; ++i) v[i] = is[i] ? given : v[i];
}

// One channel's voxels that are set: 1 in a prediction, which is refused where it is anything but 0
// or 1, and not 0 in a label.
template <class T>
void count_set(const T* p, const T* t, std::int64_t n, Overlap& out) {
  std::int64_t both = 0, pred = 0, truth = 0;
  for (std::int64_t start = 0; start < n; start += block) {
    std::int32_t b = 0, x = 0, y = 0, neither = 0;
    for (std::int64_t i = start; i < std::min(n, start + block); ++i) {
      const std::int32_t in_p = p[i] != T(0), in_t = t[i] != T(0);
      neither += in_p & static_cast<std::int32_t>(p[i] != T(1));
      x += in_p;
      y += in_t;
      b += in_p & in_t;
    }
    if (neither > 0) {
      const T* const odd =
          std::find_if(p + start, p + n, [](T v) { return v != T(0) && v != T(1); });
      throw DataError("the prediction has the value " + std::to_string(static_cast<double>(*odd)) +
                      "; a channel that is a class or a region of its own is 0 or 1, which "
                      "activations and as_discrete make");
    }
    both += b;
    pred += x;
    truth += y;
  }
  out.both.push_back(both);
  out.pred.push_back(pred);
  out.truth.push_back(truth);
}

}  // namespace

at::Tensor class_mask(const at::Tensor& map, std::int64_t value) {
  const at::Tensor x = map.cpu().contiguous();
  at::Tensor out = at::empty(x.sizes(), at::kBool);
  marks_of(x.scalar_type())(x.const_data_ptr(), 0, x.numel(), static_cast<double>(value),
                            out.mutable_data_ptr<bool>());
  return out;
}

at::Tensor set_mask(const at::Tensor& map) { return class_mask(map, 0).logical_not_(); }

at::Tensor argmax_channels(const at::Tensor& scores) {
  if (!scores.device().is_cpu()) return argmax_in_parts(scores, 0);
  const at::Tensor x = float_image(scores);
  if (x.dim() < 1 || x.size(0) < 1 || x.size(0) > 256)
    throw DataError("argmax needs 1 to 256 channels in front");
  auto shape = x.sizes().vec();
  shape[0] = 1;
  at::Tensor out = at::empty(shape, at::kByte);
  const std::int64_t n = out.numel();
  for (std::int64_t start = 0; start < n; start += block)
    argmax_block(x.const_data_ptr<float>(), x.size(0), n, start, std::min(block, n - start),
                 out.mutable_data_ptr<std::uint8_t>() + start);
  return out;
}

at::Tensor argmax_in_parts(const at::Tensor& scores, std::int64_t dim, std::int64_t voxels) {
  auto shape = scores.sizes().vec();
  shape[static_cast<std::size_t>(dim)] = 1;
  at::Tensor out = at::empty(shape, scores.options().dtype(at::kByte));
  const std::int64_t axis = dim + 1;
  if (scores.dim() <= axis || out.numel() <= voxels)
    return out.copy_(at::argmax(scores, dim, true));
  const std::int64_t n = scores.size(axis);
  const std::int64_t rows = std::max<std::int64_t>(1, voxels / (out.numel() / n));
  for (std::int64_t i = 0; i < n; i += rows) {
    const std::int64_t part = std::min(rows, n - i);
    out.narrow(axis, i, part).copy_(at::argmax(scores.narrow(axis, i, part), dim, true));
  }
  return out;
}

at::Tensor argmax_members(const at::Tensor& scores) {
  if (!scores.device().is_cpu()) return argmax_in_parts(scores, 1);
  std::vector<at::Tensor> members;
  for (std::int64_t n = 0; n < scores.size(0); ++n) members.push_back(argmax_channels(scores[n]));
  return at::stack(members);
}

std::optional<at::Tensor> one_hot_classes(const at::Tensor& hot, const at::Tensor& counts) {
  if (hot.size(0) > 256) throw DataError("a label has at most 256 channels");
  const at::Tensor x = (hot.device().is_cpu() ? hot : hot.ne(0).cpu()).contiguous();
  auto shape = x.sizes().vec();
  shape[0] = 1;
  at::Tensor out = at::empty(shape, at::kByte);
  const at::Tensor counted = counts.defined() ? counts.cpu().contiguous() : at::Tensor();
  const bool* in = counted.defined() ? counted.const_data_ptr<bool>() : nullptr;
  const std::int64_t n = out.numel();
  bool fine = true;
  AT_DISPATCH_ALL_TYPES_AND3(at::kBool, at::kHalf, at::kBFloat16, x.scalar_type(), "one-hot", [&] {
    for (std::int64_t start = 0; start < n; start += block) {
      const std::int64_t here = std::min(block, n - start);
      std::uint8_t set[block];
      hot_block(x.const_data_ptr<scalar_t>() + start, x.size(0), n, here, set,
                out.mutable_data_ptr<std::uint8_t>() + start);
      for (std::int64_t i = 0; i < here; ++i) fine &= set[i] == 1 || (in && !in[start + i]);
    }
  });
  return fine ? std::optional(out) : std::nullopt;
}

at::Tensor map_labels(const at::Tensor& map, const std::vector<double>& from,
                      const std::vector<double>& to, at::ScalarType type,
                      std::optional<double> others) {
  const at::Tensor x = map.cpu().contiguous();
  const at::Tensor out = others ? at::full(x.sizes(), *others, type)
                                : x.to(type, /*non_blocking=*/false, /*copy=*/true);
  const Marks marks = marks_of(x.scalar_type());
  Fills fills = nullptr;
  AT_DISPATCH_ALL_TYPES_AND3(at::kBool, at::kHalf, at::kBFloat16, type, "labels",
                             [&] { fills = fill<scalar_t>; });
  for (std::int64_t start = 0, n = x.numel(); start < n; start += block) {
    bool is[block];
    const std::int64_t here = std::min(block, n - start);
    for (std::size_t i = 0; i < from.size(); ++i) {
      marks(x.const_data_ptr(), start, here, from[i], is);
      fills(out.mutable_data_ptr(), start, here, is, to[i]);
    }
  }
  return out;
}

Overlap class_overlap(const at::Tensor& predicted, const at::Tensor& truth, std::int64_t classes) {
  const at::Tensor pred = fetched(predicted);
  const bool scores = pred.size(0) > 1;
  const at::Tensor x = scores ? float_image(pred) : pred.contiguous();
  const at::Tensor y = fetched(truth).contiguous();
  const std::int64_t n = y.numel();
  PairCounts counts(classes);
  std::int32_t p[block], t[block];
  for (std::int64_t start = 0; start < n; start += block) {
    const std::int64_t here = std::min(block, n - start);
    if (scores)
      argmax_block(x.const_data_ptr<float>(), x.size(0), n, start, here, p);
    else
      read_indices(x, start, here, p);
    read_indices(y, start, here, t);
    require_classes(p, x, "the prediction", start, here, classes);
    require_classes(t, y, "the label", start, here, classes);
    counts.add(p, t, here);
  }
  return counts.overlap();
}

Overlap channel_overlap(const at::Tensor& pred, const at::Tensor& truth) {
  const auto type = pred.scalar_type() == truth.scalar_type() ? pred.scalar_type() : at::kFloat;
  const at::Tensor p = pred.to(at::kCPU, type).contiguous();
  const at::Tensor t = truth.to(at::kCPU, type).contiguous();
  const std::int64_t n = p.size(0) > 0 ? p.numel() / p.size(0) : 0;
  Overlap out;
  AT_DISPATCH_ALL_TYPES_AND3(at::kBool, at::kHalf, at::kBFloat16, type, "channels", [&] {
    for (std::int64_t c = 0; c < p.size(0); ++c)
      count_set(p.const_data_ptr<scalar_t>() + c * n, t.const_data_ptr<scalar_t>() + c * n, n, out);
  });
  return out;
}

}  // namespace sluice::kernels
