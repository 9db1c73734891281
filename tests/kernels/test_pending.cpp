// Work that is left pending and done at once, against the same steps one after the other.
#include <ATen/ATen.h>
#include <doctest/doctest.h>

#include <random>

#include "engine/base/borrowed_time.h"
#include "engine/base/error.h"
#include "kernels/augment/elastic.h"
#include "kernels/augment/pending.h"
#include "kernels/image/affine_params.h"
#include "kernels/image/gaussian.h"
#include "kernels/image/holes.h"
#include "kernels/image/intensity.h"
#include "kernels/image/narrow.h"
#include "tests/nearness.h"

using namespace sluice;

namespace {

// While it lives, tensors on the host are done as jobs, as on a device.
struct HostPlays {
  HostPlays() { host_plays_device(true); }
  ~HostPlays() { host_plays_device(false); }
};

// Random enough, and no two neighbours alike.
at::Tensor volume(at::IntArrayRef shape, double scale = 1) {
  const at::Tensor k = at::arange(c10::multiply_integers(shape), at::kDouble);
  return (at::sin(k * k * 0.37 + k) * scale).to(at::kFloat).reshape(shape);
}
at::Tensor smooth(at::IntArrayRef shape) {
  at::Tensor out = at::zeros({1}, at::kDouble);
  for (std::size_t d = 1; d < shape.size(); ++d) {
    std::vector<std::int64_t> one(shape.size(), 1);
    one[d] = shape[d];
    out = out + at::sin(at::arange(shape[d], at::kDouble) * (0.15 + 0.05 * double(d)) + double(d))
                    .reshape(one);
  }
  return out.expand(shape).to(at::kFloat).contiguous();
}
// The steps by the kernels of their names, each finished before the next.
at::Tensor one_by_one(at::Tensor t, const std::vector<PendingStep>& steps) {
  const auto axes = t.dim() - 1;
  t = to_volume(t);
  for (const PendingStep& s : steps) switch (s.kind) {
      case PendingStep::Kind::reorder:
        t = reorder(t, s.order);
        break;
      case PendingStep::Kind::box:
        t = crop_pad(t, s.box, s.filling, s.value);
        break;
      case PendingStep::Kind::resample:
        t = s.resized ? resize(t, s.shape, s.resized->mode, s.resized->align_corners)
            : s.by    ? resample(t, s.to_source, *s.by, s.shape, s.how)
                      : resample(t, s.to_source, s.shape, s.how);
        break;
      case PendingStep::Kind::values:
        t = s.change(t, {});
        break;
    }
  return from_volume(t, axes);
}

// Random steps, as nodes might add them.
class StepDraws {
 public:
  explicit StepDraws(unsigned seed) : random_(seed) {}
  std::int64_t upto(std::int64_t n) { return static_cast<std::int64_t>(random_() % unsigned(n)); }
  double in(double low, double high) { return low + (high - low) * double(random_()) / 4294967295; }

  PendingStep step(const Shape3& n, int axes, Interpolation mode, bool device) {
    const Padding padding = static_cast<Padding>(upto(3));
    const Sampling how{mode, padding, !device && upto(2) == 1};
    if (!device && mode == Interpolation::linear && upto(5) == 0) return values();
    switch (upto(6)) {
      case 0: {
        Reorder r;
        for (int d = 0; d < axes; ++d) r.flip[d] = upto(2) == 1;
        return reordered(r);
      }
      case 1:
        return reordered(quarter_turns(static_cast<int>(upto(3)) + 1, 0, axes == 3 ? 2 : 1));
      case 2:
        return boxed(box(n, axes, true));
      case 3:
        return boxed(box(n, axes, false), upto(2) ? Filling::edge : Filling::constant,
                     double(upto(2)));
      case 4: {
        const bool turns = upto(3) > 0;
        AffineParams p{
            {in(-1, 1), in(-1, 1), in(-1, 1)}, {}, {in(-3, 3), in(-3, 3)}, {in(0.8, 1.2)}};
        if (axes == 2) p.rotate.resize(1);
        // No place right between two voxels.
        if (!turns) p = AffineParams{{}, {}, {in(-3, 3), in(-3, 3), in(-3, 3)}, {in(0.7, 1.4)}};
        Shape3 size = n;
        for (int d = 0; d < axes; ++d) size[d] += upto(7) - 3;
        return resampled(about_centres(centred_affine(p, axes), n, size), size, how);
      }
      default: {
        Shape3 size = n;
        for (int d = 0; d < axes; ++d) size[d] += upto(9) - 4;
        const Resizing linear = device || upto(2) ? Resizing::linear : Resizing::area;
        return resized(n, size, mode == Interpolation::nearest ? Resizing::nearest_exact : linear,
                       false);
      }
    }
  }

 private:
  PendingStep values() {
    const kernels::Linear f{float(in(0.5, 2)), float(in(-1, 1))};
    const Random::Stream stream{7, std::uint64_t(upto(99))};
    const std::int64_t which = upto(4);
    if (which == 0)
      return filtered({}, [](const at::Tensor& from, const at::Tensor& into) {
        return gaussian(from, {0.7, 1.1}, "erf", false, into);
      });
    if (which == 1) {
      const Box hole{{1, 2, 0}, {3, 2, 1}};
      const auto filled = [=](bool inside) {
        return [=](const at::Tensor& from, const at::Tensor& into) {
          return fill_holes_in(from, {hole}, inside, {0.25, 0.25, stream}, into);
        };
      };
      return upto(2) == 0 ? changed({}, filled(true)) : filtered({}, filled(false));
    }
    if (which == 2)
      return changed({}, [=](const at::Tensor& from, const at::Tensor& into) {
        return kernels::add_noise(from, 0, 1, stream, into);
      });
    return changed({}, [=](const at::Tensor& from, const at::Tensor& into) {
      return kernels::map<kernels::Linear>(from, {f}, into);
    });
  }
  Box box(const Shape3& n, int axes, bool inside) {
    Box b{{}, n};
    for (int d = 0; d < axes; ++d) {
      b.start[d] = inside ? upto(3) : upto(7) - 3;
      b.size[d] = std::max<std::int64_t>(n[d] - 2 - upto(3) + (inside ? 0 : upto(5)), 1);
      if (inside) b.size[d] = std::min(b.size[d], n[d] - b.start[d]);
    }
    return b;
  }
  std::mt19937 random_;
};

struct Chain {
  at::Tensor source;
  std::vector<PendingStep> steps;
  at::Tensor done(bool lazy = false) const {
    Pending p(source);
    for (const auto& s : steps) p.add(s);
    const at::Tensor out = p.done(lazy);
    CHECK(out.sizes().vec() == p.sizes());
    CHECK((out.scalar_type() == p.dtype()));
    return out;
  }
};

Chain drawn(unsigned seed, bool device, bool wavy = true) {
  StepDraws draws(seed);
  const int axes = draws.upto(3) == 0 ? 2 : 3;
  const bool label = draws.upto(2) == 1;
  std::vector<std::int64_t> shape{1 + draws.upto(2)};
  for (int d = 0; d < axes; ++d) shape.push_back(16 + draws.upto(70 / (d + 1)));
  Chain c{wavy ? volume(shape, 100) : smooth(shape), {}};
  if (label) c.source = (volume(shape, 2).abs() * 2).to(draws.upto(2) ? at::kByte : at::kShort);
  Shape3 n{shape[1], shape[2], axes == 3 ? shape[3] : 1};
  for (auto left = 1 + draws.upto(7); left > 0; --left) {
    c.steps.push_back(
        draws.step(n, axes, label ? Interpolation::nearest : Interpolation::linear, device));
    n = c.steps.back().result(n);
  }
  return c;
}

}  // namespace

TEST_CASE("a part of a resampling is that part of the whole, to the bit") {
  const at::Tensor v = volume({2, 31, 40, 150});
  const Shape3 n = shape_of(v), size{33, 37, 170};
  const Affine turned = about_centres(centred_affine({{0.3, -0.2, 0.5}, {}, {}, {}}, 3), n, size);
  const Affine scaled = about_centres(centred_affine({{}, {}, {1.3}, {1.2, 0.8, 1.1}}, 3), n, size);
  for (const Affine& m : {turned, scaled})
    for (const auto mode : {Interpolation::linear, Interpolation::nearest})
      for (const auto padding : {Padding::zeros, Padding::border, Padding::reflection})
        for (const Box& part : {Box{{3, 5, 7}, {20, 9, 131}}, Box{{0, 0, 90}, {33, 37, 80}},
                                Box{{32, 36, 169}, {1, 1, 1}}}) {
          const Sampling how{mode, padding};
          CHECK(at::equal(resample(v, m, size, how, part),
                          crop_pad(resample(v, m, size, how), part)));
        }
}

TEST_CASE("a part that is a copy but for a coordinate's last bits is that part of the whole") {
  const at::Tensor v = volume({1, 9, 10, 40}).clamp_min(0);  // beside a 0 every weight shows
  const Shape3 n = shape_of(v);
  Affine m = box_affine({{}, n});
  m[10] += 0x1p-52;  // along z, as a product of matrices leaves it
  for (const auto padding : {Padding::border, Padding::reflection}) {
    const Sampling how{Interpolation::linear, padding};
    const Box part{{2, 3, 4}, {5, 6, 20}};
    CHECK(at::equal(resample(v, m, n, how, part), crop_pad(resample(v, m, n, how), part)));
  }
}

TEST_CASE("what is done at once is what is done one by one, to the bit") {
  for (unsigned seed = 0; seed < 400; ++seed) {
    CAPTURE(seed);
    const Chain c = drawn(seed, false);
    CHECK(at::equal(c.done(), one_by_one(c.source, c.steps)));
  }
}

TEST_CASE("into memory that is given goes the same, and the source stays as it was") {
  for (unsigned seed = 0; seed < 400; ++seed) {
    CAPTURE(seed);
    const Chain c = drawn(seed, false);
    Pending p(c.source);
    for (const auto& s : c.steps) p.add(s);
    const at::Tensor before = c.source.clone();
    std::vector<std::int64_t> sizes = p.sizes();
    sizes.insert(sizes.begin(), 3);
    const at::Tensor batch = at::full(sizes, 9, at::TensorOptions().dtype(p.dtype()));
    const at::Tensor out = p.done(false, batch[1]);
    CHECK(out.const_data_ptr() == batch[1].const_data_ptr());
    CHECK(at::equal(batch[1], one_by_one(c.source, c.steps)));
    CHECK(batch[0].eq(9).all().item<bool>());
    CHECK(batch[2].eq(9).all().item<bool>());
    CHECK(at::equal(c.source, before));
  }
  CHECK_THROWS(Pending(volume({1, 4, 5, 6})).done(false, volume({1, 4, 5, 7})));
}

TEST_CASE("volumes that are kept narrower give what they stand for, to the bit") {
  int narrow = 0;
  for (unsigned seed = 0; seed < 400; ++seed) {
    CAPTURE(seed);
    Chain c = drawn(seed, false);
    const double scale = seed % 3 == 0 ? 300 : 40;  // int16, uint8
    c.source = (volume(c.source.sizes(), scale).abs() * (seed % 3 == 1 ? 1 : -1)).round().abs();
    if (seed % 6 == 1) c.source[0][0][0] = -1;
    c.source = c.source.to(seed % 5 == 0 ? at::kLong : at::kFloat);
    const at::Tensor kept = narrowed(c.source);
    REQUIRE(kept.defined());
    CHECK(kept.element_size() <= 2);
    CHECK(at::equal(kept.to(c.source.scalar_type()), c.source));
    Pending p(kept, c.source.scalar_type()), into(kept, c.source.scalar_type());
    for (const auto& s : c.steps) p.add(s);
    const at::Tensor expected = one_by_one(c.source, c.steps), out = p.done(false);
    REQUIRE((out.scalar_type() == expected.scalar_type()));
    CHECK(at::equal(out, expected));
    CHECK(
        at::equal(p.done(false, at::empty_like(expected, at::MemoryFormat::Contiguous)), expected));
    narrow += kept.scalar_type() == at::kByte;
  }
  CHECK(narrow > 50);
  CHECK(narrow < 350);
}

TEST_CASE("a volume is not kept narrower where a value would not come back") {
  const auto with = [](double v) {
    at::Tensor t = at::zeros({1, 3, 4, 5});
    t.mutable_data_ptr<float>()[59] = float(v);  // an assignment makes 0 of -0.0
    return t;
  };
  CHECK((narrowed(with(255)).scalar_type() == at::kByte));
  CHECK((narrowed(with(256)).scalar_type() == at::kShort));
  CHECK((narrowed(with(-32768)).scalar_type() == at::kShort));
  for (const double v :
       {0.5, -0.0, 32768.0, -32769.0, 1e30, -1e30, double(NAN), double(INFINITY)}) {
    CAPTURE(v);
    CHECK_FALSE(narrowed(with(v)).defined());
  }
  CHECK(narrowed(with(-1e15).to(at::kLong)).defined() == false);
  CHECK((narrowed(with(7).to(at::kLong)).scalar_type() == at::kByte));
  CHECK_FALSE(narrowed(with(7).to(at::kByte)).defined());
  CHECK_FALSE(narrowed(at::zeros({5})).defined());
}

TEST_CASE("so is an elastic deformation among other steps") {
  const at::Tensor v = volume({1, 30, 26, 22});
  const Shape3 n{20, 22, 26};
  const Displacement by = random_displacement(n, 4, 30, 7, 8);
  const Chain c{v,
                {reordered(quarter_turns(1, 0, 2)), boxed({{1, 2, 3}, {20, 22, 26}}),
                 resampled(scaling({1, 1, 1}), by, n, {}), boxed({{4, 3, 2}, {10, 11, 12}}),
                 reordered({{0, 1, 2}, {true, false, true}})}};
  CHECK(at::equal(c.done(), one_by_one(v, c.steps)));
}

TEST_CASE("as jobs the same steps give the same numbers but for the last bits of a coordinate") {
  const HostPlays plays;
  int voxels = 0, other = 0;
  for (unsigned seed = 0; seed < 400; ++seed) {
    CAPTURE(seed);
    const Chain c = drawn(seed, true, false);
    const at::Tensor found = c.done(), expected = one_by_one(c.source, c.steps);
    REQUIRE((found.scalar_type() == expected.scalar_type()));
    if (found.scalar_type() == at::kFloat) {
      CHECK(distance(found, expected) < 1e-4);
    } else {  // labels may differ where a coordinate lies between two voxels
      voxels += static_cast<int>(found.numel());
      other += (found != expected).sum().item<int>();
    }
  }
  CHECK(voxels > 1000000);
  CHECK(other < voxels / 2000);
}

TEST_CASE("lazily, resamplings that meet are one by the product of their maps") {
  const at::Tensor v = smooth({1, 40, 44, 48});
  const Shape3 n = shape_of(v);
  const auto affine = [&](double turn, double scale) {
    return about_centres(centred_affine({{turn, 0.1, -0.2}, {}, {}, {scale, scale, scale}}, 3), n,
                         n);
  };
  const Affine a = affine(0.3, 0.9), b = affine(-0.4, 0.95);
  const Reorder flip{{0, 1, 2}, {false, true, true}};
  const Sampling how{Interpolation::linear, Padding::border};
  const Box box{{10, 10, 10}, {20, 24, 28}};
  const Chain c{v, {resampled(a, n, how), reordered(flip), resampled(b, n, how), boxed(box)}};
  const Affine product = multiply(multiply(a, reorder_affine(flip, n)), b);
  CHECK(at::equal(c.done(true), resample(v, product, n, how, box)));
  CHECK(distance(c.done(true), c.done()) > 1e-5);  // not what one by one gives
  {
    const HostPlays plays;
    CHECK(distance(c.done(true), resample(v, product, n, how, box)) < 1e-4);
  }
}

TEST_CASE("lazily, a single resampling is as it is without") {
  for (unsigned seed = 0; seed < 300; ++seed) {
    CAPTURE(seed);
    const Chain c = drawn(seed, false);
    int resamplings = 0;
    for (const auto& s : c.steps) resamplings += s.kind == PendingStep::Kind::resample;
    if (resamplings == 1) CHECK(at::equal(c.done(true), one_by_one(c.source, c.steps)));
  }
}

TEST_CASE("lazily, what no map can express is still done where it stands") {
  const at::Tensor v = volume({1, 20, 24, 28});
  const Shape3 n = shape_of(v), half{10, 12, 14};
  const PendingStep turn =
      resampled(about_centres(centred_affine({{0.3, 0.1, -0.2}, {}, {}, {}}, 3), half, n), n, {});
  const Chain c{v, {resized(n, half, Resizing::area, false), turn}};
  CHECK(at::equal(c.done(true), one_by_one(v, c.steps)));
}

namespace {

// A body of the run's node at `position` that keeps what is booked.
struct Booked final : BodyTimes {
  explicit Booked(int position) : BodyTimes(position) { the_body = this; }
  ~Booked() override { the_body = nullptr; }
  void help_begins(std::int64_t) override {}
  void help_ends(std::int64_t) override {}
  void pass_begins(const Owners& owners, std::int64_t) override {
    CHECK(!open);
    open = true;
    text += (text.empty() ? "" : ", ") + std::to_string(owners.first);
    for (int k = 0; k < Owners::most; ++k)
      if (k != owners.first && (owners.all >> k & 1)) text += "+" + std::to_string(k);
  }
  void pass_ends(const Owners&, std::int64_t began, std::int64_t now) override {
    CHECK(now >= began);
    CHECK(open);
    open = false;
  }
  std::string text;
  bool open = false;
};

PendingStep by(int owner, PendingStep step) {
  step.owner = owner;
  return step;
}
PendingStep flipped() {
  Reorder r;
  r.flip[0] = true;
  return reordered(r);
}
PendingStep zoomed() { return resized({12, 12, 12}, {20, 20, 20}, Resizing::linear, false); }
PendingStep plus_one(int* calls = nullptr) {
  return changed({}, [calls](const at::Tensor& from, const at::Tensor&) {
    if (calls && ++*calls > 0) throw DataError("no");
    return from + 1;
  });
}

std::string passes_of(const std::vector<PendingStep>& steps, const at::Tensor& into = {}) {
  Booked booked(9);
  Pending p(volume({1, 12, 12, 12}));
  for (const PendingStep& step : steps) p.add(step);
  p.done(false, into);
  CHECK_FALSE(booked.open);
  return booked.text;
}

}  // namespace

TEST_CASE("each pass is booked to the steps that it does, a composed one to its resampling") {
  CHECK(passes_of({by(0, flipped()), by(1, flipped())}) == "");  // nothing is left to do
  CHECK(passes_of({by(0, flipped())}) == "0");
  CHECK(passes_of({by(0, flipped()), by(1, zoomed())}) == "0, 1");
  CHECK(passes_of({by(0, zoomed()), by(1, flipped()), by(2, plus_one())}) == "0+1, 2");
  CHECK(passes_of({by(0, plus_one()), by(1, zoomed()), by(2, plus_one()), by(3, flipped())}) ==
        "0, 1, 2, 3");
  CHECK(passes_of({by(0, plus_one()), by(0, plus_one())}) == "0");
  const Box wider{{-2, -2, -2}, {16, 16, 16}};
  CHECK(passes_of({by(0, flipped()), by(1, boxed(wider, Filling::edge))}) == "0, 1");
  CHECK(passes_of({by(0, boxed({{1, 1, 1}, {8, 8, 8}})), by(1, flipped())}) == "0+1");
  CHECK(passes_of({by(0, zoomed())}, at::empty({1, 20, 20, 20})) == "0");
  CHECK(passes_of({zoomed()}) == "9");  // who adds a step asks for it
}

TEST_CASE("as jobs, a launch is booked to the body's own node, with all whose work it does") {
  const HostPlays plays;
  CHECK(passes_of({by(0, flipped()), by(1, zoomed())}) == "9+0+1");
}

TEST_CASE("a step that fails is to blame, and so is one that no job does") {
  int calls = 0;
  Booked booked(9);
  blamed = {};
  {
    Pending p(volume({1, 12, 12, 12}));
    for (auto& step : {by(0, flipped()), by(3, plus_one(&calls)), by(4, plus_one())}) p.add(step);
    CHECK_THROWS_AS(p.done(false), DataError);
  }
  CHECK(blamed == Owners(3));
  CHECK_FALSE(booked.open);
  blamed = {};
  const HostPlays plays;
  Pending p(volume({1, 12, 12, 12}));
  PendingStep none = by(5, plus_one());
  none.limited = "that";
  p.add(by(0, flipped()));
  p.add(none);
  CHECK_THROWS_AS(p.done(false), DataError);
  CHECK(blamed == Owners(5));
}

TEST_CASE("a type that no job reads is named with what helps") {
  const HostPlays plays;
  Pending p(at::zeros({1, 4, 4, 4}, at::kLong));
  p.add(flipped());
  CHECK_THROWS_WITH_AS(p.done(false),
                       "the CUDA kernels take no int64; cast_to_type in front of to_device makes "
                       "float32, int16 or uint8 of it",
                       DataError);
}
