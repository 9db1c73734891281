// numpy's legacy generator, as far as splitting a data list asks for it, so that a split made here
// is the split that MONAI makes from the same seed.
//
// Invariant: NumpyRandom(s).shuffle(v) permutes v as numpy.random.RandomState(s).shuffle(v) does.
// Splits and made test images draw from it; the run's own draws are engine/base/random.h's.
#pragma once

#include <cstdint>
#include <random>
#include <utility>
#include <vector>

namespace sluice {

class NumpyRandom {
 public:
  explicit NumpyRandom(std::uint32_t seed) : twister_(seed) {}

  template <class T>
  void shuffle(std::vector<T>& v) {
    for (std::size_t i = v.size(); i-- > 1;)
      std::swap(v[i], v[interval(static_cast<std::uint32_t>(i))]);
  }
  // Uniform over 0 .. max: draws under the smallest mask that covers max, again until one fits.
  std::uint32_t interval(std::uint32_t max);
  // [0, 1) with 53 bits, as RandomState.random_sample().
  double unit();

 private:
  std::mt19937 twister_;  // Matsumoto and Nishimura 1998; seeded as init_genrand() does
};

// MONAI's split of 0 .. n-1 (DecathlonDataset): shuffled by `seed`, the first n * fraction are
// for validation, the rest for training.
struct Split {
  std::vector<std::size_t> training, validation;
};
Split split_indices(std::size_t n, double validation_fraction, std::uint32_t seed);

}  // namespace sluice
