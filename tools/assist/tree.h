// Any text read as JSON as far as it goes: half-written files too, as an editor holds them between
// two key strokes. Every value and key knows its bytes.
//
// What is mended: a string ends at its line's end; a value that is missing is missing and takes no
// other's place; brackets of the wrong kind or too many are left out, and those that lack are
// closed at the end. Nothing is said of it: that is the checker's business.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "engine/base/document.h"

namespace sluice::assist {

// Bytes of a text.
struct Span {
  std::size_t begin = 0, end = 0;
  bool empty() const { return begin == end; }
  bool touches(std::size_t at) const { return begin <= at && at <= end; }
};

struct Value {
  enum class Kind : std::uint8_t {
    missing,  // nothing stands after the colon, or there is no colon
    object,
    array,
    text,   // a string
    plain,  // a number, true, null, or a word without quotes
  } kind = Kind::missing;
  Span span;         // missing: where it could stand
  Span key;          // with its quotes; empty in lists and at the top
  std::string name;  // the key, or the index in a list
  std::string text;  // what a string says, or what stands there
  bool closed = true;
  bool colon = false;  // stands after the key
  std::vector<Value> members;

  bool is(Kind k) const { return kind == k; }
  const Value* find(std::string_view key_name) const;  // the first; null where there is none
  // What the member says where it is a string, else "".
  std::string_view text_of(std::string_view key_name) const;
};

struct Tree {
  Value root;
  std::vector<Span> comments;
};

Tree read_tree(std::string_view text);

// From the root to the innermost value whose text or key the byte touches, or in which it stands.
std::vector<const Value*> path_to(const Tree& tree, std::size_t at);
bool in_comment(const Tree& tree, std::size_t at);

// What could be read, as JSON.
std::string mended(const Tree& tree);

// "/nodes/load/type" for the names of a path.
std::string pointer_of(const std::vector<const Value*>& path);
// The value at a JSON pointer; null where there is none. `whole`: false: the nearest above it.
const Value* at_pointer(const Tree& tree, const std::string& pointer, bool whole = true);

// Where marks of a document stand in its text, byte by byte.
class Bytes {
 public:
  explicit Bytes(std::string_view text);
  Span of(const Mark& mark) const;  // empty, at the beginning, where the mark is unknown

 private:
  std::string_view text_;
  std::vector<std::size_t> lines_;
};

}  // namespace sluice::assist
