#include "kernels/image/affine_params.h"

#include <cmath>

#include "engine/base/error.h"

namespace sluice {
namespace {

constexpr Affine eye{1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1};

double number_at(const std::vector<double>& v, std::size_t i, double otherwise) {
  return i < v.size() ? v[i] : otherwise;
}

// A turn from axis a towards axis b.
Affine turn(int a, int b, double radians) {
  Affine m = eye;
  m[4 * a + a] = m[4 * b + b] = std::cos(radians);
  m[4 * b + a] = std::sin(radians);
  m[4 * a + b] = -std::sin(radians);
  return m;
}

Affine rotation(const std::vector<double>& r, std::int64_t axes) {
  if (axes == 2) return turn(0, 1, number_at(r, 0, 0));
  const Affine x = turn(1, 2, number_at(r, 0, 0)), y = turn(2, 0, number_at(r, 1, 0));
  return multiply(multiply(x, y), turn(0, 1, number_at(r, 2, 0)));
}

Affine shear(const std::vector<double>& c, std::int64_t axes) {
  Affine m = eye;
  std::size_t i = 0;
  for (int a = 0; a < axes; ++a)
    for (int b = 0; b < axes; ++b) {
      if (a == b) continue;
      Affine one = eye;
      one[4 * a + b] = number_at(c, i++, 0);
      m = multiply(one, m);
    }
  return m;
}

}  // namespace

std::vector<Range> parse_ranges(const nlohmann::ordered_json& value, const std::string& name) {
  const auto wrong = [&]() -> Error {
    return {Exit::usage, name + " must be null, a number, a list of numbers or a list of " +
                             "[low, high] pairs, not " + value.dump()};
  };
  if (value.is_null()) return {};
  if (value.is_number()) return {{-value.get<double>(), value.get<double>()}};
  if (!value.is_array()) throw wrong();
  std::vector<Range> out;
  for (const auto& e : value) {
    if (e.is_null()) continue;
    if (e.is_number())
      out.push_back({-e.get<double>(), e.get<double>()});
    else if (e.is_array() && e.size() == 2 && e[0].is_number() && e[1].is_number())
      out.push_back({e[0].get<double>(), e[1].get<double>()});
    else
      throw wrong();
  }
  return out;
}

AffineParams AffineRanges::draw(Random& random) const {
  const auto all = [&](const std::vector<Range>& ranges, double plus) {
    std::vector<double> drawn;
    for (const Range& r : ranges) drawn.push_back(random.uniform(r.low, r.high) + plus);
    return drawn;
  };
  AffineParams p;
  p.rotate = all(rotate, 0);
  p.shear = all(shear, 0);
  p.translate = all(translate, 0);
  p.scale = all(scale, 1);
  return p;
}

Affine centred_affine(const AffineParams& p, std::int64_t axes) {
  const bool flat = axes == 2;
  const auto vec = [&](const std::vector<double>& v, double otherwise) {
    return Vec3{number_at(v, 0, otherwise), number_at(v, 1, otherwise),
                flat ? otherwise : number_at(v, 2, otherwise)};
  };
  const Affine turned = multiply(rotation(p.rotate, axes), shear(p.shear, axes));
  return multiply(multiply(turned, translation(vec(p.translate, 0))), scaling(vec(p.scale, 1)));
}

Affine about_centres(const Affine& centred, const Shape3& source, const Shape3& out) {
  return multiply(multiply(centre_of(source), centred), inverse(centre_of(out)));
}

}  // namespace sluice
