#include "engine/base/diagnostic.h"

#include <algorithm>
#include <map>
#include <ostream>
#include <tuple>

#include "engine/base/message.h"
#include "engine/base/utf8.h"

namespace sluice {

Diagnostic& Diagnostics::add(Diagnostic d) {
  const Mark mark = d.place.mark();
  const std::string key = d.code + '\n' + d.message + '\n' + d.place.str() + '\n' +
                          d.place.pointer + (mark.line || d.place.document ? "" : d.path);
  const auto [at, is_new] = known_.emplace(key, all_.size());
  if (!is_new) return all_[at->second];
  if (d.severity == Severity::error) ++errors_;
  return all_.emplace_back(std::move(d));
}

Diagnostic& Diagnostics::error(std::string code, std::string message, Place place, std::string path,
                               std::string hint) {
  return add({Severity::error,
              std::move(code),
              std::move(message),
              std::move(place),
              std::move(path),
              std::move(hint),
              {}});
}

Diagnostic& Diagnostics::warning(std::string code, std::string message, Place place,
                                 std::string path, std::string hint) {
  return add({Severity::warning,
              std::move(code),
              std::move(message),
              std::move(place),
              std::move(path),
              std::move(hint),
              {}});
}

Diagnostic* Diagnostics::first_of(const std::string& kind, const std::string& code,
                                  const std::string& message, const Place& place,
                                  const std::string& path, const std::string& hint) {
  const auto [at, is_new] = once_.emplace(kind, all_.size());
  if (!is_new) return &all_[at->second];
  const std::size_t before = all_.size();
  Diagnostic& d = error(code, message, place, path, hint);
  if (all_.size() == before) at->second = static_cast<std::size_t>(&d - all_.data());
  return nullptr;
}

// The first three are named.
static void add_note(Diagnostic& to, const std::string& note, const std::string& more) {
  constexpr std::size_t most = 3;
  if (std::find(to.notes.begin(), to.notes.end(), note) != to.notes.end()) return;
  if (to.notes.size() < most)
    to.notes.push_back(note);
  else if (to.notes.size() == most)
    to.notes.push_back(more);
}

void Diagnostics::error_once(const std::string& code, const std::string& message,
                             const Place& place, const std::string& path, const std::string& hint,
                             const std::string& scope) {
  Diagnostic* first =
      first_of(code + '\n' + message + '\n' + scope, code, message, place, path, hint);
  if (first && place.str() != first->place.str())
    add_note(*first, "also at " + place.str(), "and at more places");
}

void Diagnostics::error_of_node(const std::string& node, const std::string& code,
                                const std::string& message, const Place& place,
                                const std::string& path, const std::string& hint) {
  const auto slash = node.rfind('/');
  if (slash == std::string::npos || place.mark().line == 0) {
    error(code, message, place, path, hint);
    return;
  }
  // Names as they stand within the part.
  const std::string part = '"' + node.substr(0, slash + 1);
  std::string within = message;
  for (auto at = within.find(part); at != std::string::npos; at = within.find(part, at + 1))
    within.erase(at + 1, part.size() - 1);
  Diagnostic* first = first_of(code + '\n' + within + '\n' + place.str() + '\n' + place.pointer,
                               code, message, place, path, hint);
  if (first && first->path != path)
    add_note(*first, "also in \"" + node + '"', "and in more nodes");
}

// ---- text ---------------------------------------------------------------------------------------

namespace {

const char* word(Severity severity) {
  switch (severity) {
    case Severity::error:
      return "error";
    case Severity::warning:
      return "warning";
    default:
      return "note";
  }
}

// Wraps a text in an escape sequence, or leaves it as it is.
struct Paint {
  bool color;
  std::string operator()(const char* code, const std::string& text) const {
    return color ? "\x1b[" + std::string(code) + "m" + text + "\x1b[0m" : text;
  }
  std::string frame(const std::string& text) const { return (*this)("1;34", text); }
  std::string severity(Severity s, const std::string& text) const {
    return (*this)(s == Severity::error ? "1;31" : s == Severity::warning ? "1;33" : "1;36", text);
  }
};

std::string_view line_of(std::string_view text, int line) {
  std::size_t start = 0;
  for (int i = 1; i < line; ++i) start = text.find('\n', start) + 1;
  std::string_view out = text.substr(start, text.find('\n', start) - start);
  if (out.starts_with("\xEF\xBB\xBF")) out.remove_prefix(3);
  return out;
}

// Calls `each` with every character of a line: its number and the text that shows it in one column.
// Columns can so be counted in any script.
template <class Each>
int for_each_character(std::string_view line, Each&& each) {
  int n = 0;
  for (; !line.empty(); ++n) {
    const Character c = first_character(line);
    const bool control = c.code < 0x20 || (c.code >= 0x7F && c.code < 0xA0);  // tabs too
    each(n, c.bytes == 0 ? "\xEF\xBF\xBD" : control ? " " : line.substr(0, c.bytes));
    line.remove_prefix(std::max<std::size_t>(c.bytes, 1));
  }
  return n;
}

// The part of a line that is shown, and where the caret stands in it. Long lines are cut to a
// window around the caret; a file of one line may have thousands of diagnostics, so only the window
// is copied.
struct Snippet {
  std::string line;
  int indent, length;

  Snippet(std::string_view text, Mark mark) {
    constexpr int width = 110, lead = 40;
    const std::string_view all = line_of(text, mark.line);
    const int size = for_each_character(all, [](int, std::string_view) {});
    int from = 0, to = size;
    if (size > width) {
      from = std::clamp(mark.column - 1 - lead, 0, size - width);
      to = from + width;
    }
    const bool cut = from > 0;
    for_each_character(all, [&](int i, std::string_view character) {
      if (i >= from && i < to) line += character;
    });
    if (cut) line = "..." + line;
    if (to < size) line += "...";
    indent = mark.column - 1 - from + (cut ? 3 : 0);
    length = std::max(1, std::min(mark.length, to - (mark.column - 1)));
  }
};

void print_one(std::ostream& out, const Diagnostic& d, const Paint& paint) {
  const auto tag = word(d.severity) + (d.code.empty() ? "" : "[" + d.code + "]");
  out << paint.severity(d.severity, tag) << paint("1", ": " + printable(d.message)) << '\n';

  const Mark mark = d.place.mark();
  const std::string hint = printable(d.hint);
  const std::string number = mark.line ? std::to_string(mark.line) : "";
  const std::string gutter(std::max<std::size_t>(2, number.size() + 1), ' ');
  const std::string where = printable(d.place.str()), path = printable(d.path);
  if (!where.empty() || !path.empty()) {
    out << gutter << paint.frame("--> ") << where;
    if (!path.empty()) out << (where.empty() ? "(" : "  (") << path << ')';
    out << '\n';
  }
  if (mark.line > 0) {
    const Snippet snippet(d.place.origin().document->text, mark);
    std::string caret(static_cast<std::size_t>(snippet.length), '^');
    if (!hint.empty()) caret += " " + hint;
    out << gutter << paint.frame(" |") << '\n'
        << paint.frame(std::string(gutter.size() - number.size(), ' ') + number + " |") << ' '
        << snippet.line << '\n'
        << gutter << paint.frame(" |") << ' '
        << std::string(static_cast<std::size_t>(snippet.indent), ' ')
        << paint.severity(d.severity, caret) << '\n';
  } else if (!hint.empty()) {
    out << gutter << paint.frame(" = ") << "help: " << hint << '\n';
  }
  for (const auto& note : d.notes)
    out << gutter << paint.frame(" = ") << "note: " << printable(note) << '\n';
}

std::string count(std::size_t n, const std::string& what) {
  return std::to_string(n) + " " + what + (n == 1 ? "" : "s");
}

std::vector<const Diagnostic*> in_file_order(const std::vector<Diagnostic>& all) {
  std::vector<const Diagnostic*> sorted;
  for (const auto& d : all) sorted.push_back(&d);
  std::map<const Diagnostic*, std::tuple<std::string, int, int>> keys;
  for (const auto& d : all) {
    const Mark m = d.place.mark();
    keys[&d] = {d.place.document ? d.place.origin().document->file : "", m.line, m.column};
  }
  std::stable_sort(sorted.begin(), sorted.end(),
                   [&](const Diagnostic* a, const Diagnostic* b) { return keys[a] < keys[b]; });
  return sorted;
}

}  // namespace

void Diagnostics::print(std::ostream& out, bool color) const {
  if (all_.empty()) return;
  const Paint paint{color};
  constexpr std::size_t most = 100;  // of one kind; to_json has all
  std::map<std::pair<Severity, std::string>, std::size_t> seen;
  for (const Diagnostic* d : in_file_order(all_))
    if (++seen[{d->severity, d->code}] <= most) print_one(out, *d, paint);
  for (const auto& [kind, n] : seen)
    if (n > most)
      out << paint.severity(kind.first, std::string(word(kind.first)) + "[" + kind.second + "]")
          << ": and " << n - most << " more of this kind\n";
  out << "found " << count(errors_, "error") << ", " << count(all_.size() - errors_, "warning")
      << '\n';
}

Json Diagnostics::to_json() const {
  Json list = Json::array();
  for (const Diagnostic* d : in_file_order(all_)) {
    Json j = {{"severity", word(d->severity)}, {"code", d->code}, {"message", d->message}};
    if (d->place.document) {
      const Mark mark = d->place.mark();
      j["file"] = d->place.origin().document->file;
      j["place"] = d->place.str();
      if (mark.line) {
        j["line"] = mark.line;
        j["column"] = mark.column;
        j["length"] = mark.length;
      }
    }
    if (!d->path.empty()) j["path"] = d->path;
    if (!d->hint.empty()) j["hint"] = d->hint;
    if (!d->notes.empty()) j["notes"] = d->notes;
    list.push_back(std::move(j));
  }
  return list;
}

// ---- names that are nearly right ----------------------------------------------------------------

namespace {

// Damerau-Levenshtein distance, optimal string alignment: insertions, deletions, substitutions and
// swaps of neighbours, no part edited twice. Three rows of the table are enough.
std::size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> before(b.size() + 1), above(b.size() + 1), row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) above[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t change = above[j - 1] + (a[i - 1] != b[j - 1]);
      row[j] = std::min({above[j] + 1, row[j - 1] + 1, change});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        row[j] = std::min(row[j], before[j - 2] + 1);
    }
    before.swap(above);
    above.swap(row);
  }
  return above[b.size()];
}

std::ptrdiff_t common_beginning(std::string_view a, std::string_view b) {
  return std::ranges::mismatch(a, b).in1 - a.begin();
}

}  // namespace

// Of several that are as near, the one that begins alike for longest: "unett" is unet, not unest.
std::string nearest(std::string_view word, const std::vector<std::string>& known) {
  if (word.empty() || word.size() > 200) return "";
  std::size_t least = 2 + word.size() / 4;  // one more than is near enough
  std::string best;
  for (const auto& candidate : known) {
    const std::size_t gap = candidate.size() > word.size() ? candidate.size() - word.size()
                                                           : word.size() - candidate.size();
    if (gap > least) continue;
    const std::size_t d = distance(word, candidate);
    const bool nearer = d < least, as_near = d == least && !best.empty();
    if (nearer || (as_near && common_beginning(word, candidate) > common_beginning(word, best))) {
      least = d;
      best = candidate;
    }
  }
  return best;
}

std::string did_you_mean(std::string_view word, const std::vector<std::string>& known) {
  const std::string best = nearest(word, known);
  return best.empty() ? "" : "did you mean \"" + best + "\"?";
}

}  // namespace sluice
