// Bit masks, draws from them and one-hot vectors on the device, against lists and the host.
#include <set>

#include "tests/cuda/device.h"

using namespace sluice;
using namespace sluice::kernels;
using test::Both;

namespace {

struct Pool {
  std::vector<std::uint32_t> words, ranks;
  explicit Pool(std::int64_t voxels) : words(bit_words(voxels)), ranks(bit_blocks(voxels) + 1) {}
};

std::vector<std::uint8_t> label_of(std::int64_t n, float share) {
  std::vector<std::uint8_t> out;
  for (float v : test::numbers(static_cast<std::size_t>(n), 2, 0, 1)) out.push_back(v < share);
  return out;
}

}  // namespace

TEST_CASE("a bit mask finds the k-th voxel as a list would, on host and device alike") {
  for (const std::int64_t n : {1, 31, 1024, 40000})
    for (const float share : {0.0f, 0.002f, 0.5f, 1.1f}) {
      CAPTURE(n);
      CAPTURE(share);
      const auto label = label_of(n, share);
      const auto image = test::numbers(static_cast<std::size_t>(n), 5);
      for (const bool background : {false, true}) {
        BitRule rule;
        rule.label = label.data();
        rule.image = background ? image.data() : nullptr;
        rule.threshold = 0.25f;
        rule.background = background;
        rule.voxels = n;
        std::vector<std::int64_t> list;
        for (std::int64_t i = 0; i < n; ++i)
          if (background ? !label[i] && image[i] > 0.25f : label[i] != 0) list.push_back(i);
        Pool here(n);
        make_bits(rule, here.words.data(), here.ranks.data());
        const BitMask mask{here.words.data(), here.ranks.data(), n};
        REQUIRE(mask.count() == list.size());
        std::size_t wrong = 0;
        for (std::size_t k = 0; k < list.size(); ++k)
          wrong += mask.voxel(static_cast<std::uint32_t>(k)) != list[k];
        CHECK(wrong == 0);
        if (!test::has_gpu()) continue;
        const Both<std::uint8_t> y(label);
        const Both<float> x(image);
        const Both<std::uint32_t> words{here.words}, ranks{here.ranks};
        rule.label = y.device();
        if (rule.image) rule.image = x.device();
        const std::vector<std::uint32_t> garbage(here.words.size() + here.ranks.size(), 0xdeadbeef);
        test::ok(test::cuda().copy(words.device(), garbage.data(), here.words.size() * 4, nullptr));
        test::ok(test::cuda().copy(ranks.device(), garbage.data(), here.ranks.size() * 4, nullptr));
        test::ok(test::cuda().bits(rule, words.device(), ranks.device(), nullptr));
        CHECK(words.read() == here.words);
        CHECK(ranks.read() == here.ranks);
      }
    }
}

TEST_CASE("of several label channels the first is background") {
  const std::vector<std::uint8_t> label{1, 1, 0, 0, /**/ 0, 1, 0, 0, /**/ 0, 0, 0, 7};
  BitRule rule;
  rule.label = label.data();
  rule.label_channels = 3;
  rule.voxels = 4;
  Pool pool(4);
  make_bits(rule, pool.words.data(), pool.ranks.data());
  CHECK(pool.words[0] == 0b1010);
}

TEST_CASE("draws are the same on host and device, in the share asked for, from the right pools") {
  constexpr std::int64_t n = 5000;
  constexpr int count = 4000;
  const auto label = label_of(n, 0.1f);
  BitRule rule;
  rule.label = label.data();
  rule.voxels = n;
  Pool fg(n), bg(n);
  make_bits(rule, fg.words.data(), fg.ranks.data());
  rule.background = true;
  make_bits(rule, bg.words.data(), bg.ranks.data());
  const BitDraw draw{
      {fg.words.data(), fg.ranks.data(), n}, {bg.words.data(), bg.ranks.data(), n}, 0.7, 3, 4};
  int foreground = 0;
  std::set<std::int64_t> different;
  std::vector<std::int64_t> here;
  for (int i = 0; i < count; ++i) {
    here.push_back(draw(static_cast<std::uint64_t>(i)));
    foreground += label[here[i]];
    different.insert(here[i]);
  }
  CHECK(foreground == doctest::Approx(0.7 * count).epsilon(0.05));
  CHECK(different.size() > 1400);  // of 500 and 4,500 voxels
  const Pool none(n);
  CHECK(label[BitDraw{draw.foreground, {none.words.data(), none.ranks.data(), n}, 0}(1)] == 1);
  CHECK(BitDraw{{none.words.data(), none.ranks.data(), n},
                {none.words.data(), none.ranks.data(), n}}(1) == -1);
  SLUICE_NEEDS_GPU();
  const Both<std::uint32_t> fw(fg.words), fr(fg.ranks), bw(bg.words), br(bg.ranks);
  const Both<std::int64_t> out(std::vector<std::int64_t>(count, -7));
  BitDraw there = draw;
  there.foreground = {fw.device(), fr.device(), n};
  there.background = {bw.device(), br.device(), n};
  test::ok(test::cuda().draw(there, count, out.device(), nullptr));
  CHECK(out.read() == here);
}

TEST_CASE("one-hot vectors on the device") {
  SLUICE_NEEDS_GPU();
  const std::vector<std::uint8_t> label{2, 0, 1, 2, 5};
  const Both<std::uint8_t> y(label);
  const Both<float> out(std::vector<float>(15, 9));
  test::ok(test::cuda().one_hot(y.device(), 5, 3, VoxelType::f32, out.device(), nullptr));
  CHECK(out.read() == std::vector<float>{0, 1, 0, 0, 0, 0, 0, 1, 0, 0, 1, 0, 0, 1, 0});
}
