// Small changes to a text, and what the checker's hints ask for.
#pragma once

#include <string>
#include <vector>

#include "tools/assist/names.h"

namespace sluice::assist {

// The text with those of the edits that are of this source; they do not overlap.
std::string applied(const std::string& text, std::vector<TextEdit> edits, std::size_t source = 0);

// A new last member of an object.
TextEdit add_member(const Value& object, const std::string& text, const std::string& key,
                    const Json& value);

// What a diagnostic's hint proposes, as an edit of the open file.
struct Fix {
  std::string title;  // "write \"load_image\""
  const Diagnostic* of = nullptr;
  TextEdit edit;
  bool certain = false;  // it cannot be meant otherwise
};
std::vector<Fix> fixes(const Analysis& a);

}  // namespace sluice::assist
