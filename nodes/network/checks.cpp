#include "nodes/network/checks.h"

#include <c10/util/StringUtil.h>

#include <algorithm>

#include "engine/base/error.h"
#include "kernels/net/value.h"

namespace sluice {
namespace {

[[noreturn]] void not_as(const std::string& wanted, const std::string& found) {
  throw Error(Exit::usage, wanted + ", found " + found);
}

}  // namespace

void require_odd_kernels(IntList kernels, const std::string& what) {
  for (const std::int64_t k : kernels)
    if (k % 2 == 0) not_as(what + " must be odd", std::to_string(k));
}

void require_multiples(const std::string& what, IntList numbers, std::int64_t step,
                       const std::string& of) {
  for (const std::int64_t n : numbers)
    if (n % step != 0)
      not_as(what + " must be " + (numbers.size() == 1 ? "a multiple" : "multiples") + " of " +
                 (of.empty() ? "" : of + ", ") + std::to_string(step),
             std::to_string(n));
}

void require_length(const std::string& what, std::size_t found, const std::string& other,
                    std::size_t others, std::int64_t shift) {
  const std::int64_t wanted = static_cast<std::int64_t>(others) + shift;
  if (static_cast<std::int64_t>(found) == wanted) return;
  not_as(what + " needs " +
             (shift == 0    ? "as many entries as "
              : shift == -1 ? "one entry fewer than "
                            : std::to_string(shift) + " more entries than ") +
             other + " (" + std::to_string(wanted) + ")",
         std::to_string(found));
}

void require_per_axis(const std::string& what, std::size_t found, int axes) {
  if (found != static_cast<std::size_t>(axes))
    not_as(what + " needs a number for each axis, " + std::to_string(axes), std::to_string(found));
}

std::vector<std::int64_t> each_of(const std::string& what, const std::vector<std::int64_t>& given,
                                  std::size_t count) {
  require_one_or(what, given.size(), count);
  return given.size() == count ? given : std::vector<std::int64_t>(count, given[0]);
}

std::string unless_multiples(IntList extents, std::int64_t step) {
  for (const std::int64_t n : extents)
    if (n % step != 0)
      return "takes extents that are multiples of " + std::to_string(step) + ", got " +
             c10::str(extents);
  return "";
}

std::string unless_strides_divide(IntList extents,
                                  const std::vector<std::vector<std::int64_t>>& strides) {
  std::vector<std::int64_t> steps(extents.size(), 1);
  for (const auto& stride : strides) {
    const auto by = PerAxis(stride).over(static_cast<int>(extents.size()));
    for (std::size_t a = 0; a < steps.size(); ++a) steps[a] *= by[a];
  }
  for (std::size_t a = 0; a < steps.size(); ++a)
    if (extents[a] % steps[a] != 0)
      return "takes extents that are multiples of " + std::to_string(steps[a]) + " along axis " +
             std::to_string(a) + ", got " + c10::str(extents);
  return "";
}

std::string unless_at_least(IntList extents, std::int64_t least) {
  if (std::all_of(extents.begin(), extents.end(), [&](auto n) { return n >= least; })) return "";
  return "takes extents of " + std::to_string(least) + " or more, got " + c10::str(extents);
}

std::string unless_made_for(IntList extents, const std::string& what, IntList wanted) {
  if (extents.equals(wanted)) return "";
  return "was made for images of " + what + " " + c10::str(wanted) + ", got " + c10::str(extents);
}

}  // namespace sluice
