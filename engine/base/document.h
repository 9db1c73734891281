// A JSON file with the place of every value.
//
// Invariant: text that nlohmann-json would read in silence and differently from what its author
// sees is refused: duplicate keys, nesting deeper than 64, more than 16 MiB, invalid UTF-8,
// numbers that do not fit, more than a million values. `//` and `/* */` comments are read.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>

#include "engine/base/json.h"

namespace sluice {

class Diagnostics;

struct Mark {
  int line = 0, column = 0;  // from 1; 0: unknown
  int length = 1;            // of the token, on its first line
};

struct Document;
using DocumentPtr = std::shared_ptr<const Document>;

// A value's place: the document and the JSON pointer in it.
struct Place {
  DocumentPtr document;
  std::string pointer;
  bool at_key = false;  // point at the key, not at the value

  // Where the text stands: in another file that was merged in, or on the command line.
  Place origin() const;
  Mark mark() const;        // in the origin's text; {0,0} where unknown
  bool is_known() const;    // it has a mark, or is an override's, whose text it is
  std::string str() const;  // "graphs/brain.json:9:24", "--set a.b=1", "" where unknown
  Place child(std::string_view key) const;  // escapes ~ and /
  Place child(std::size_t index) const;
  Place key() const {
    Place p = *this;
    p.at_key = true;
    return p;
  }
};

struct Document {
  std::string file;  // as given on the command line; "--set path=value" for an override's value
  std::string text;
  Json root;
  std::map<std::string, Mark>
      values;                        // JSON pointer ("/nodes/load/type") -> where the value starts
  std::map<std::string, Mark> keys;  // JSON pointer -> where its key stands
  // Pointers of values that were refused: they stand for nothing, and nothing more is said of them.
  std::set<std::string> refused;
  // JSON pointer -> where the value came from, if not from `text` (engine/graph/merge.h,
  // override.h).
  std::map<std::string, Place> origins;
};

// Null and diagnostics where the text is not JSON or the file cannot be read. With duplicate keys
// or numbers that do not fit there are diagnostics and a document, so that a reader can go on and
// report what else is wrong; of duplicates the first one counts.
DocumentPtr parse_document(std::string file, std::string text, Diagnostics& diagnostics);
DocumentPtr read_document(const std::string& file, Diagnostics& diagnostics);

}  // namespace sluice
