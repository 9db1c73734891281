// A picture's label: lines of text in sizes and colours, from Graphviz' markup or plain text.
#pragma once

#include <string>
#include <vector>

#include "engine/judge/dot_reader.h"

namespace sluice {

struct LabelRun {
  std::string text;
  double size = 11;
  std::string color;
  bool bold = false;
  double width() const;  // in Helvetica, points
};

struct LabelLine {
  std::vector<LabelRun> runs;
  double width() const;
  double height() const;
};

struct Label {
  std::vector<LabelLine> lines;
  double width() const;
  double height() const;
};

// Of markup: <b>, <font point-size color>, <br/>, and tables, whose rows are lines.
Label read_label(const DotValue& value, double size, const std::string& color);

}  // namespace sluice
