#include "kernels/files/overlay.h"

#include <ATen/Functions.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <string>

#include "engine/base/error.h"

namespace sluice {
namespace {

// The channels of a layer as floats, and where a voxel of the image lies in it.
class Channels {
 public:
  Channels(const Layer& layer, const char* what) {
    at::Tensor t = layer.voxels;
    if (t.defined() && t.dim() == 3) t = t.unsqueeze(-1);
    if (!t.defined() || t.dim() != 4 || t.numel() == 0)
      throw DataError(std::string("the ") + what + " is no volume [C, X, Y, Z] or [C, X, Y]");
    floats_ = t.detach().to(at::kCPU, at::kFloat).contiguous();
    data_ = floats_.const_data_ptr<float>();
    count_ = t.size(0);
    for (int i = 0; i < 3; ++i) shape[static_cast<std::size_t>(i)] = t.size(i + 1);
    channel_ = shape[0] * shape[1] * shape[2];
  }

  float value(std::int64_t i, std::int64_t j, std::int64_t k) const {
    return data_[(i * shape[1] + j) * shape[2] + k];
  }
  int class_at(std::int64_t i, std::int64_t j, std::int64_t k) const {
    const float* at = data_ + (i * shape[1] + j) * shape[2] + k;
    if (count_ == 1) return *at > 0 ? static_cast<int>(std::lround(std::min(*at, 1e6f))) : 0;
    std::int64_t best = 0;
    for (std::int64_t c = 1; c < count_; ++c)
      if (at[c * channel_] > at[best * channel_]) best = c;
    return static_cast<int>(best);
  }
  std::vector<float> some_values() const {  // of the first channel
    const std::int64_t stride = std::max<std::int64_t>(1, channel_ / 50000);
    std::vector<float> all;
    for (std::int64_t i = 0; i < channel_; i += stride)
      if (std::isfinite(data_[i])) all.push_back(data_[i]);
    return all;
  }

  Shape3 shape{};

 private:
  at::Tensor floats_;
  const float* data_ = nullptr;
  std::int64_t count_ = 0, channel_ = 0;
};

// Classes read at the image's voxels.
class Classes {
 public:
  Classes(const Layer& layer, const Layer& image, const Shape3& shape, const char* what)
      : channels_(layer, what) {
    const bool placed = layer.has_affine && image.has_affine;
    same_ = channels_.shape == shape && (!placed || near(layer.affine, image.affine, 1e-3));
    if (same_) return;
    if (!placed)
      throw DataError(std::string("the ") + what +
                      " is on another grid than the image, and there are no affines to tell where");
    to_layer_ = solve(layer.affine, image.affine);
  }

  int at(std::int64_t i, std::int64_t j, std::int64_t k) const {
    if (same_) return channels_.class_at(i, j, k);
    const Vec3 p = map_point(
        to_layer_, {static_cast<double>(i), static_cast<double>(j), static_cast<double>(k)});
    Shape3 v{};
    for (std::size_t d = 0; d < 3; ++d) {
      v[d] = std::llround(p[d]);
      if (v[d] < 0 || v[d] >= channels_.shape[d]) return 0;
    }
    return channels_.class_at(v[0], v[1], v[2]);
  }

 private:
  Channels channels_;
  bool same_ = true;
  Affine to_layer_{};
};

// How a plane of the image lies on the picture.
struct View {
  int axis, across, up;  // voxel axes: of the slices, from left to right, from bottom to top
  bool flip_across = false, flip_up = false;  // the index grows to the left, downwards
  int width = 1, height = 1;
  Shape3 shape;

  View(const Layer& image, const Shape3& s, const SliceStyle& style) : axis(style.axis), shape(s) {
    const Orientation o = image.has_affine ? orientation_of(image.affine) : Orientation{};
    const Vec3 spacing = image.has_affine ? voxel_spacing(image.affine) : Vec3{1, 1, 1};
    across = axis == 0 ? 1 : 0;
    up = axis == 2 ? 1 : 2;
    const auto world = [&](int a) { return o.axis[static_cast<std::size_t>(a)]; };
    if (world(across) > world(up)) std::swap(across, up);
    flip_across = o.sign[static_cast<std::size_t>(across)] < 0;
    flip_up = o.sign[static_cast<std::size_t>(up)] < 0;
    if (!image.has_affine) flip_up = true;
    const auto length = [&](int a) {
      return static_cast<double>(shape[static_cast<std::size_t>(a)]) *
             spacing[static_cast<std::size_t>(a)];
    };
    const double scale = style.size / std::max(length(across), length(up));
    width = std::max(1, static_cast<int>(std::lround(length(across) * scale)));
    height = std::max(1, static_cast<int>(std::lround(length(up) * scale)));
  }

  // The pixel's place in voxels: along `across` and along `up`.
  std::pair<double, double> voxel(int x, int y) const {
    const auto place = [](int pixel, int pixels, std::int64_t n, bool flip) {
      const double p = (pixel + 0.5) * static_cast<double>(n) / pixels - 0.5;
      return flip ? static_cast<double>(n - 1) - p : p;
    };
    return {place(x, width, shape[static_cast<std::size_t>(across)], flip_across),
            place(y, height, shape[static_cast<std::size_t>(up)], !flip_up)};
  }

  Shape3 index(std::int64_t a, std::int64_t u, std::int64_t position) const {
    Shape3 v{};
    v[static_cast<std::size_t>(across)] = a;
    v[static_cast<std::size_t>(up)] = u;
    v[static_cast<std::size_t>(axis)] = position;
    return v;
  }
  std::int64_t length(int a) const { return shape[static_cast<std::size_t>(a)]; }
};

struct Scene {
  Channels image;
  View view;
  std::optional<Classes> label, pred;
  double black = 0, white = 1;

  Scene(const Layer& i, const std::optional<Layer>& l, const std::optional<Layer>& p,
        const SliceStyle& style)
      : image(i, "image"), view(i, image.shape, style) {
    if (l) label.emplace(*l, i, image.shape, "label");
    if (p) pred.emplace(*p, i, image.shape, "prediction");
    if (style.window) {
      black = style.window->first;
      white = style.window->second;
      return;
    }
    std::vector<float> values = image.some_values();
    if (values.empty()) return;
    const auto quantile = [&](double q) {
      const auto at = values.begin() +
                      static_cast<std::ptrdiff_t>(q * static_cast<double>(values.size() - 1) + 0.5);
      std::nth_element(values.begin(), at, values.end());
      return static_cast<double>(*at);
    };
    black = quantile(0.005);
    white = quantile(0.995);
  }

  // Of the label where there is one: so the slice stays while the prediction changes. Counted at
  // some 48 x 48 places: to look at every voxel would take most of the time.
  std::int64_t foreground(std::int64_t position) const {
    const std::int64_t across = (view.length(view.across) + 47) / 48;
    const std::int64_t up = (view.length(view.up) + 47) / 48;
    std::int64_t n = 0;
    for (std::int64_t a = across / 2; a < view.length(view.across); a += across)
      for (std::int64_t u = up / 2; u < view.length(view.up); u += up) {
        const Shape3 v = view.index(a, u, position);
        n += (label ? *label : *pred).at(v[0], v[1], v[2]) > 0;
      }
    return n;
  }

  // The position with most foreground, then others in even steps over what has any.
  std::vector<std::int64_t> positions(int wanted) const {
    const std::int64_t n = view.length(view.axis);
    std::vector<std::int64_t> counts(static_cast<std::size_t>(n), 0);
    if (label || pred)
      for (std::int64_t p = 0; p < n; ++p) counts[static_cast<std::size_t>(p)] = foreground(p);
    std::int64_t first = 0, last = n - 1, most = n / 2;
    const auto some = [](std::int64_t c) { return c > 0; };
    const auto begin = std::find_if(counts.begin(), counts.end(), some);
    if (begin != counts.end()) {
      first = begin - counts.begin();
      last = n - 1 - (std::find_if(counts.rbegin(), counts.rend(), some) - counts.rbegin());
      most = std::max_element(counts.begin(), counts.end()) - counts.begin();
    }
    std::vector<std::int64_t> all{most};
    for (int i = 1; i < wanted; ++i) {
      const std::int64_t p = first + (last - first) * i / wanted;
      if (std::find(all.begin(), all.end(), p) == all.end()) all.push_back(p);
    }
    return all;
  }

  std::uint8_t grey(double a, double u, std::int64_t position) const {
    const auto value = [&](std::int64_t i, std::int64_t j) {
      const Shape3 v =
          view.index(std::clamp<std::int64_t>(i, 0, view.length(view.across) - 1),
                     std::clamp<std::int64_t>(j, 0, view.length(view.up) - 1), position);
      const double x = image.value(v[0], v[1], v[2]);
      return std::isfinite(x) ? x : black;
    };
    const auto i = static_cast<std::int64_t>(std::floor(a)),
               j = static_cast<std::int64_t>(std::floor(u));
    const double s = a - static_cast<double>(i), t = u - static_cast<double>(j);
    const double x = (1 - t) * ((1 - s) * value(i, j) + s * value(i + 1, j)) +
                     t * ((1 - s) * value(i, j + 1) + s * value(i + 1, j + 1));
    const double shade = white > black ? (x - black) / (white - black) : 0.5;
    return static_cast<std::uint8_t>(std::lround(255 * std::clamp(shade, 0.0, 1.0)));
  }
};

using Map = std::vector<int>;  // a class a pixel

Map classes_of(const Classes& classes, const View& view, std::int64_t position) {
  Map map;
  map.reserve(static_cast<std::size_t>(view.width) * static_cast<std::size_t>(view.height));
  for (int y = 0; y < view.height; ++y)
    for (int x = 0; x < view.width; ++x) {
      const auto [a, u] = view.voxel(x, y);
      const Shape3 v = view.index(std::llround(a), std::llround(u), position);
      map.push_back(classes.at(v[0], v[1], v[2]));
    }
  return map;
}

void fill(Picture& picture, const Map& map) {
  constexpr double share = 0.42;
  for (std::size_t i = 0; i < map.size(); ++i) {
    if (map[i] <= 0) continue;
    const Rgb color = class_color(map[i]);
    for (std::size_t c = 0; c < 3; ++c)
      picture.pixels[i][c] = static_cast<std::uint8_t>(
          std::lround((1 - share) * picture.pixels[i][c] + share * color[c]));
  }
}

// The pixels of a class that have another one within `width` pixels along a row or column.
void outline(Picture& picture, const Map& map, int width) {
  const auto at = [&](int x, int y) {
    if (x < 0 || y < 0 || x >= picture.width || y >= picture.height) return 0;
    return map[static_cast<std::size_t>(y) * static_cast<std::size_t>(picture.width) +
               static_cast<std::size_t>(x)];
  };
  for (int y = 0; y < picture.height; ++y)
    for (int x = 0; x < picture.width; ++x) {
      const int c = at(x, y);
      if (c <= 0) continue;
      bool edge = false;
      for (int d = 1; d <= width && !edge; ++d)
        edge = at(x - d, y) != c || at(x + d, y) != c || at(x, y - d) != c || at(x, y + d) != c;
      if (edge) picture.at(x, y) = class_color(c);
    }
}

Slice draw(const Scene& scene, std::int64_t position, int line) {
  const View& view = scene.view;
  Slice slice;
  slice.position = position;
  slice.picture = Picture(view.width, view.height);
  for (int y = 0; y < view.height; ++y)
    for (int x = 0; x < view.width; ++x) {
      const auto [a, u] = view.voxel(x, y);
      slice.picture.at(x, y).fill(scene.grey(a, u, position));
    }
  std::set<int> seen;
  if (scene.pred) {
    const Map map = classes_of(*scene.pred, view, position);
    fill(slice.picture, map);
    seen.insert(map.begin(), map.end());
  }
  if (scene.label) {
    const Map map = classes_of(*scene.label, view, position);
    outline(slice.picture, map, line);
    seen.insert(map.begin(), map.end());
  }
  for (int c : seen)
    if (c > 0) slice.classes.push_back(c);
  return slice;
}

}  // namespace

Rgb class_color(int c) {
  static constexpr std::array<Rgb, 7> colors{{{0xE6, 0x9F, 0x00},
                                              {0x56, 0xB4, 0xE9},
                                              {0x00, 0x9E, 0x73},
                                              {0xF0, 0xE4, 0x42},
                                              {0xD5, 0x5E, 0x00},
                                              {0xCC, 0x79, 0xA7},
                                              {0x00, 0x72, 0xB2}}};
  return colors[static_cast<std::size_t>(c - 1) % colors.size()];
}

std::vector<Slice> draw_slices(const Layer& image, const std::optional<Layer>& label,
                               const std::optional<Layer>& pred, const SliceStyle& style) {
  SliceStyle s = style;
  if (image.voxels.defined() && image.voxels.dim() == 3) s.axis = 2;
  const Scene scene(image, label, pred, s);
  std::vector<Slice> all;
  for (std::int64_t position : scene.positions(s.slices))
    all.push_back(draw(scene, position, std::max(1, s.size / 128)));
  return all;
}

}  // namespace sluice
