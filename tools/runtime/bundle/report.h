// What became of each part of a bundle.
#pragma once

#include <set>

#include "tools/runtime/bundle/config.h"

namespace sluice::bundle {

enum class Fate : std::uint8_t {
  translated,
  dropped,   // has no effect here
  replaced,  // something else does it; the text says what
  missing,   // no counterpart
  unused,    // nothing asks for it
};

struct Line {
  At at;
  std::string what;  // "RandFlipd", "RandFlipd.prob"
  Fate state;
  std::string text;
  bool blocks = false;  // on the way from the data to what is wanted
};

class Report {
 public:
  void add(const Item& item, const std::string& what, Fate state, const std::string& text = "",
           bool blocks = false);
  const std::vector<Line>& lines() const { return lines_; }
  // Components that nobody asked for, and those that were, but of which nothing was said.
  void account_for(const Config& config);
  std::size_t count(Fate state) const;
  bool blocked() const;
  std::string text() const;  // a line each

 private:
  std::vector<Line> lines_;
  std::set<std::string> ids_;
};

}  // namespace sluice::bundle
