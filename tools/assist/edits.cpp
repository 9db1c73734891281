#include "tools/assist/edits.h"

#include <algorithm>

#include "engine/graph/graph_text.h"

namespace sluice::assist {

std::string applied(const std::string& text, std::vector<TextEdit> edits, std::size_t source) {
  std::erase_if(edits, [&](const TextEdit& e) { return e.source != source; });
  std::stable_sort(edits.begin(), edits.end(), [](const TextEdit& a, const TextEdit& b) {
    return a.span.begin < b.span.begin;
  });
  std::string out;
  std::size_t done = 0;
  for (const TextEdit& e : edits) {
    out.append(text, done, e.span.begin - done).append(e.text);
    done = e.span.end;
  }
  return out.append(text, done, std::string::npos);
}

TextEdit add_member(const Value& object, const std::string& text, const std::string& key,
                    const Json& value) {
  const std::string member = Json(key).dump() + ": " + in_one_line(value);
  if (object.members.empty()) {
    const std::size_t at = object.span.begin + 1;
    return {0, {at, at}, " " + member + " "};
  }
  const Value& first = object.members.front();
  const Value& last = object.members.back();
  const std::size_t at = std::max(last.span.end, last.key.end);
  const auto line = text.rfind('\n', first.key.begin);
  const bool is_long = line != std::string::npos && line > object.span.begin;
  const std::string between =
      is_long ? ",\n" + std::string(first.key.begin - line - 1, ' ') : std::string(", ");
  return {0, {at, at}, between + member};
}

namespace {

// The text between the first two quotes of the kind after `word`: did you mean "x"?
std::string quoted_after(const std::string& hint, const std::string& word) {
  const auto at = hint.find(word + "\"");
  if (at == std::string::npos) return "";
  const auto begin = at + word.size() + 1, end = hint.find('"', begin);
  return end == std::string::npos ? "" : hint.substr(begin, end - begin);
}

// A value that a hint proposes: write 3 without quotes, write true.
std::string value_after(const std::string& hint) {
  if (!hint.starts_with("write ")) return "";
  std::string text = hint.substr(6);
  if (const auto rest = text.find(" without quotes"); rest != std::string::npos) text.resize(rest);
  return Json::accept(text) ? text : "";
}

// The member around a span with the comma that separates it.
Span whole_member(const std::string& text, const Value& object, const Value& member) {
  Span span{member.key.begin, std::max(member.key.end, member.span.end)};
  const bool is_last = &member == &object.members.back();
  if (!is_last) {
    span.end =
        object.members[static_cast<std::size_t>(&member - object.members.data()) + 1].key.begin;
  } else if (&member != &object.members.front()) {
    const Value& before = object.members[object.members.size() - 2];
    span.begin = std::max(before.key.end, before.span.end);
  }
  // A comment between the two is not ours to take.
  const std::string gone = text.substr(span.begin, span.end - span.begin);
  return gone.find("//") == std::string::npos && gone.find("/*") == std::string::npos ? span
                                                                                      : Span{};
}

}  // namespace

std::vector<Fix> fixes(const Analysis& a) {
  std::vector<Fix> all;
  const Bytes bytes(a.text());
  for (const Diagnostic& d : a.said.diagnostics.all()) {
    if (!d.place.document || d.indirect) continue;
    if (d.place.origin().document->file != a.main().file) continue;
    const Span span = bytes.of(d.place.mark());
    const std::string found = a.text().substr(span.begin, span.end - span.begin);
    const auto add = [&](const std::string& title, Span where, const std::string& text,
                         bool certain = false) {
      all.push_back({title, &d, {0, where, text}, certain});
    };
    if (const std::string meant = quoted_after(d.hint, "did you mean "); !meant.empty()) {
      if (found.starts_with('"')) add("write \"" + meant + "\"", span, Json(meant).dump());
    } else if (d.hint.starts_with("did you mean one of ")) {
      for (auto at = d.hint.find('"'); at != std::string::npos;) {
        const auto end = d.hint.find('"', at + 1);
        if (end == std::string::npos) break;
        const std::string one = d.hint.substr(at + 1, end - at - 1);
        if (found.starts_with('"')) add("write \"" + one + "\"", span, Json(one).dump());
        at = d.hint.find('"', end + 1);
      }
    } else if (const std::string value = value_after(d.hint); !value.empty()) {
      add("write " + value, span, value, true);
    } else if (d.code == "SL0112") {
      add("remove the comma", span, "", true);
    } else if (d.hint == "expected a comma in front of it") {
      // After what stands before, not at the beginning of the next line.
      std::size_t at = a.text().find_last_not_of(" \t\r\n", span.begin - 1) + 1;
      if (in_comment(a.tree(), at)) at = span.begin;
      add("insert a comma", {at, at}, ",", true);
    } else if (d.hint == "expected a colon in front of it") {
      add("insert a colon", {span.begin, span.begin}, ": ", true);
    } else if (d.hint == "strings stand in double quotes") {
      std::string bare = found;
      std::erase(bare, '\'');
      add("write \"" + bare + "\"", span, Json(bare).dump(), true);
    } else if (d.hint == "expected }" || d.hint == "expected ]") {
      add("insert " + d.hint.substr(9), {a.text().size(), a.text().size()},
          "\n" + d.hint.substr(9));
    }
    const bool unknown_key = d.place.at_key && (d.code == "SL0221" || d.code == "SL0218" ||
                                                d.code == "SL0202" || d.code == "SL0235");
    const bool unused = d.code == "SL0237";
    if (!unknown_key && !unused) continue;
    const auto path = path_to(a.tree(), span.begin);
    if (path.size() < 2 || path.back()->key.begin != span.begin) continue;
    const Span gone = whole_member(a.text(), *path[path.size() - 2], *path.back());
    if (!gone.empty()) add("remove \"" + path.back()->name + "\"", gone, "", unused);
  }
  return all;
}

}  // namespace sluice::assist
