// What networks refuse, each in one wording.
//
// require_...: of parameters. Throws Error(usage), before which BuiltNetwork puts the network's
// name.
//
// unless_...: of an image's extents. What BuiltNetwork::unfit() says; "": they fit.
#pragma once

#include <c10/util/ArrayRef.h>

#include <cstdint>
#include <string>
#include <vector>

#include "nodes/one_or.h"

namespace sluice {

using IntList = c10::ArrayRef<std::int64_t>;

// Kernels whose window has a middle.
void require_odd_kernels(IntList kernels, const std::string& what = "kernel sizes");
// `of` says what the step is.
void require_multiples(const std::string& what, IntList numbers, std::int64_t step,
                       const std::string& of = "");
// So many entries, that is `shift` more than the list `other` has.
void require_length(const std::string& what, std::size_t found, const std::string& other,
                    std::size_t others, std::int64_t shift = 0);
void require_per_axis(const std::string& what, std::size_t found, int axes);

// `given` as a number for each of `count`.
std::vector<std::int64_t> each_of(const std::string& what, const std::vector<std::int64_t>& given,
                                  std::size_t count);

std::string unless_multiples(IntList extents, std::int64_t step);
// Multiples of the strides' product along each axis, so that what goes up again fits beside what
// was there on the way down; each of `strides` is a number, or one an axis. The plan holds the
// extents it knows against the same product (engine/plan/field_checks.cpp).
std::string unless_strides_divide(IntList extents,
                                  const std::vector<std::vector<std::int64_t>>& strides);
std::string unless_at_least(IntList extents, std::int64_t least);
// `what`: the parameter that says which extents the network was made for.
std::string unless_made_for(IntList extents, const std::string& what, IntList wanted);

}  // namespace sluice
