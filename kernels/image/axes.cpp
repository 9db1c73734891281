#include "kernels/image/axes.h"

#include <algorithm>

#include "engine/base/error.h"

namespace sluice {

Affine of_axes(const Affine& a, std::int64_t axes) {
  Affine out{1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1};
  for (std::int64_t r = 0; r < axes; ++r) {
    for (std::int64_t c = 0; c < axes; ++c) out[4 * r + c] = a[4 * r + c];
    out[4 * r + 3] = a[4 * r + 3];
  }
  return out;
}

Orientation parse_axcodes(const std::vector<std::string>& codes, std::int64_t axes,
                          const AxisLabels& labels) {
  std::string all;
  for (const auto& c : codes) all += c;
  if (std::ssize(codes) < axes)
    throw DataError("axcodes \"" + all + "\" name fewer than " + std::to_string(axes) + " axes");
  Orientation out;
  std::vector<bool> taken(labels.size());
  for (std::int64_t i = 0; i < axes; ++i) {
    const std::string& code = codes[static_cast<std::size_t>(i)];
    const auto named = [&](const std::vector<std::string>& pair) {
      return pair.size() == 2 && (pair[0] == code || pair[1] == code);
    };
    const auto found = std::find_if(labels.begin(), labels.end(), named);
    const auto axis = found - labels.begin();
    if (axis >= axes || taken[static_cast<std::size_t>(axis)]) {
      std::string choices;
      for (std::int64_t k = 0; k < axes && k < std::ssize(labels); ++k)
        choices += (choices.empty() ? "" : ", ") + labels[static_cast<std::size_t>(k)].at(0) + "/" +
                   labels[static_cast<std::size_t>(k)].at(1);
      throw DataError("axcodes \"" + all + "\" must name one direction each of " + choices);
    }
    taken[static_cast<std::size_t>(axis)] = true;
    out.axis[static_cast<std::size_t>(i)] = static_cast<int>(axis);
    out.sign[static_cast<std::size_t>(i)] = (*found)[1] == code ? 1 : -1;
  }
  return out;
}

}  // namespace sluice
