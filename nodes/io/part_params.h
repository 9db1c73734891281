// Which part of a list a source emits, declared for every source that lists by position.
#pragma once

#include "kernels/lists/positional_list.h"
#include "nodes/io/io.h"

namespace sluice {

template <class Params>
Spec& add_part_params(Spec& s) {
  using Number = std::int64_t Params::*;
  using OptionalNumber = std::optional<std::int64_t> Params::*;
  using Numbers = std::vector<std::int64_t> Params::*;
  using Reals = std::vector<double> Params::*;
  s.param("from", Number{&Params::from}, "The first sample; negative: from the end.")
      .param("to", OptionalNumber{&Params::to},
             "The sample after the last; negative: from the end; null: all.")
      .param("shares", Reals{&Params::shares},
             "Divides what is left in this proportion (MONAI's partition_dataset).")
      .above(0)
      .param("num_partitions", OptionalNumber{&Params::num_partitions},
             "Or into so many shares, as one deals cards; null: not.")
      .at_least(1)
      .exclusive("shares", "num_partitions")
      .param("share", Numbers{&Params::share},
             "Which of the shares is meant, from 0; several: one after the other (MONAI's "
             "select_cross_validation_folds).")
      .at_least(0)
      .param("shuffle_shares", static_cast<bool Params::*>(&Params::shuffle_shares),
             "Shuffles before dividing.")
      .param("share_seed", Number{&Params::share_seed}, "... by this seed, as numpy does.")
      .range(0, 4294967295.0);
  return add_order_params<Params>(s);
}

template <class T>
std::vector<T> chosen(const std::vector<T>& all, const std::vector<std::size_t>& items) {
  std::vector<T> out;
  for (const std::size_t i : items) out.push_back(all[i]);
  return out;
}

}  // namespace sluice
