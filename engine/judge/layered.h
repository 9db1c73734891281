// Where boxes stand when lines lead downwards: in rows by their longest path from above, in each
// row in the order of what they are connected with (Sugiyama's method with barycentres), and as
// near below one another as the row allows.
//
// Invariant: boxes do not overlap, nor does a line that passes a row cross a box of it.
#pragma once

#include <vector>

namespace sluice {

struct LayoutBox {
  double width = 0, height = 0;
  double x = 0, y = 0;  // found: its upper left corner
};

struct LayoutLine {
  int from = 0, to = 0;
  bool weak = false;  // does not hold boxes together that are otherwise apart
  struct Pass {
    double x, top, bottom;
  };
  std::vector<Pass> passes;  // found: the rows that it crosses
};

struct LayeredLayout {
  std::vector<LayoutBox> boxes;
  std::vector<LayoutLine> lines;  // a line that would close a circle is passed over
  double row_gap = 19, box_gap = 21;
  double width = 0, height = 0;  // found

  // Boxes that no lines hold together stand side by side, in their order.
  void arrange();
};

}  // namespace sluice
