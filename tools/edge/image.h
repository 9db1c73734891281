// A volume, and what is still to be done to it.
//
// Invariant: steps are kept as one job (kernels/augment/augment_chain.h) as long as they fit it,
// and at most one of them interpolates; so the result is what the nodes give one after the other.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "kernels/augment/augment_chain.h"
#include "kernels/files/raw_voxels.h"
#include "kernels/image/way_back.h"

namespace sluice::edge {

class Image {
 public:
  // [channels, shape...], row-major.
  Image(std::vector<float> voxels, std::int64_t channels, const Shape3& shape,
        const Affine& affine);
  Image(Image&&) = default;
  Image& operator=(Image&&) = default;

  std::int64_t channels = 1;
  Affine affine;  // of shape()
  Shape3 shape() const { return chain_.shape(); }

  void crop(const Shape3& start, const Shape3& size, float fill = 0);
  void reorder(const Reorder& order);
  // Onto a grid whose affine is `placed`.
  void resample(const Affine& to_source, const Shape3& shape, const Affine& placed,
                Interpolation mode, Padding padding);
  // To the grid that the file had, each step by itself, the last one first.
  void turn_back(Interpolation mode);
  void add(const kernels::AugmentOp& op);
  const std::vector<float>& voxels();  // everything done
  // Other values on the same grid, with the same history.
  Image like(std::vector<float> voxels, std::int64_t channel_count) const;
  void replace(std::vector<float> voxels, std::int64_t channel_count);

 private:
  struct Step {
    Affine affine_before;
    Shape3 shape_before;
    std::optional<Padding> sampled;  // none: whole voxels were moved
  };

  template <class Add>
  void pend(Add add) {
    if (add(chain_)) return;
    settle();
    if (!add(chain_)) throw std::logic_error("a step that no job takes");
  }
  void settle();

  std::vector<float> voxels_;
  kernels::AugmentChain chain_;
  std::vector<Step> history_;
  bool pending_ = false;
};

// A NIfTI file of three axes, or four: the fourth are channels. DataError as sluice's load_image.
Image load(const std::filesystem::path& file, bool check_finite);

// DataError where values do not fit the type.
void save(const std::filesystem::path& file, Image& image, StoredType type, int gzip_level);

}  // namespace sluice::edge
