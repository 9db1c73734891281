#include "kernels/files/slide.h"

#include <algorithm>
#include <cctype>
#include <cmath>

#include "engine/base/error.h"
#include "engine/base/letter_case.h"

namespace sluice {

const SlideLevel& Slide::level(std::int64_t number) const {
  if (number >= 0 && number < std::ssize(levels_)) return levels_[static_cast<std::size_t>(number)];
  throw DataError(path_ + ": has no level " + std::to_string(number) + "; its levels are 0 to " +
                  std::to_string(levels_.size() - 1));
}

std::int64_t Slide::level_at(double mpp) const {
  if (!mpp_)
    throw DataError(path_ +
                    ": does not say how many micrometres a pixel has; ask for a level instead");
  std::string have;
  for (std::size_t l = 0; l < levels_.size(); ++l) {
    const double of_level = *mpp_ * levels_[l].downsample;
    if (std::abs(of_level - mpp) <= 0.05 * mpp) return static_cast<std::int64_t>(l);
    have += (l > 0 ? ", " : "") + std::to_string(of_level);
  }
  throw DataError(path_ + ": has no level of " + std::to_string(mpp) +
                  " micrometres a pixel; there are " + have);
}

std::shared_ptr<Slide> SlideReader::open(const std::string& path) {
  std::lock_guard lock(mutex_);
  const auto found = std::find_if(open_.begin(), open_.end(),
                                  [&](const auto& slide) { return slide->path() == path; });
  if (found != open_.end()) {
    open_.splice(open_.begin(), open_, found);
    return open_.front();
  }
  const std::string extension = lower_case(std::filesystem::path(path).extension().string());
  const auto ours = {".tif", ".tiff", ".btf", ".tf8"};
  const bool tiff =
      backend_ == "tiff" || (backend_ == "auto" && std::ranges::count(ours, extension));
  open_.push_front(tiff ? open_tiff_slide(path, cache_) : open_openslide(path));
  if (open_.size() > slides_open_) open_.pop_back();
  return open_.front();
}

}  // namespace sluice
