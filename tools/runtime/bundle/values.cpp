#include "tools/runtime/bundle/values.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <numbers>
#include <regex>
#include <utility>

#include "engine/base/error.h"
#include "engine/base/letter_case.h"
#include "engine/base/shell_word.h"
#include "engine/state/torch_file.h"
#include "kernels/lists/manifest.h"

namespace sluice::bundle {

using Sort = Value::Kind;

namespace {

Value plain(Json json) {
  Value v;
  v.plain = std::move(json);
  return v;
}
Value of_kind(Sort kind, std::string name = "") {
  Value v;
  v.kind = kind;
  v.name = std::move(name);
  return v;
}

// Lists as lists, all else as it is.
Value of_json(const Json& json) {
  if (!json.is_array()) return plain(json);
  Value v = of_kind(Sort::list);
  for (const Json& one : json) v.items.push_back(of_json(one));
  return v;
}

// "torch.backends.cudnn" of names and attributes; "" of anything else.
std::string dotted(const Expr& e) {
  if (e.kind == Expr::Kind::name) return e.text;
  if (e.kind != Expr::Kind::attribute) return "";
  const std::string before = dotted(*e.args[0]);
  return before.empty() ? "" : before + "." + e.text;
}

// "float32" of torch.float32 and its like; "" where it is no type.
std::string dtype_name(const std::string& name) {
  const std::string module = name.substr(0, name.find('.'));
  if (module != "torch" && module != "np" && module != "numpy") return "";
  std::string type = last_name(name);
  for (const auto& [from, to] : {std::pair{"float", "float32"},
                                 {"half", "float16"},
                                 {"double", "float64"},
                                 {"int", "int32"},
                                 {"long", "int64"},
                                 {"short", "int16"}})
    if (type == from) type = to;
  for (const char* known : {"float16", "bfloat16", "float32", "float64", "uint8", "int8", "uint16",
                            "int16", "uint32", "int32", "uint64", "int64", "bool"})
    if (type == known) return type;
  return "";
}

// True is 1 and False is 0 where Python compares.
Json as_numbers(Json json) {
  if (json.is_boolean()) return static_cast<std::int64_t>(json.get<bool>());
  if (json.is_structured())
    for (auto& [key, value] : json.items()) value = as_numbers(value);
  return json;
}
bool same(const Json& a, const Json& b) { return as_numbers(a) == as_numbers(b); }

// Python's characters: code points of UTF-8.
std::vector<std::string> characters(const std::string& text) {
  std::vector<std::string> out;
  for (const char c : text) {
    if (out.empty() || (static_cast<unsigned char>(c) & 0xC0) != 0x80) out.emplace_back();
    out.back() += c;
  }
  return out;
}

// What int() and float() make of a text; nothing where Python raises.
std::optional<Json> number_in(std::string text, bool wants_whole) {
  static const std::regex whole(R"(\s*[-+]?[0-9]+(_[0-9]+)*\s*)"),
      real(R"(\s*[-+]?([0-9]+(_[0-9]+)*\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?\s*)");
  if (text.size() > 100 || !std::regex_match(text, wants_whole ? whole : real)) return {};
  std::erase(text, '_');
  try {
    return wants_whole ? Json(std::stoll(text)) : Json(std::stod(text));
  } catch (const std::out_of_range&) {
    return {};
  }
}

const char* const files_number = "the number of files";

std::shared_ptr<Records> copy_of_records(const Value& v) {
  return std::make_shared<Records>(*v.records);
}

Value records_value(std::shared_ptr<const Records> records) {
  Value v = of_kind(Sort::records);
  v.records = std::move(records);
  return v;
}

bool is_number(const Value& v) {
  return v.is(Sort::plain) && (v.plain.is_number() || v.plain.is_boolean());
}
bool is_whole(const Value& v) {
  return v.is(Sort::plain) && (v.plain.is_number_integer() || v.plain.is_boolean());
}
double real(const Value& v) {
  return v.plain.is_boolean() ? static_cast<double>(v.plain.get<bool>()) : v.plain.get<double>();
}
std::int64_t whole(const Value& v) {
  return v.plain.is_boolean() ? static_cast<std::int64_t>(v.plain.get<bool>())
                              : v.plain.get<std::int64_t>();
}

// Of the script that declares the class or function; "" where there is none.
std::string digest_of_script(const std::filesystem::path& folder, const std::string& name) {
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    if (entry.path().extension() != ".py") continue;
    std::ifstream in(entry.path());
    std::string text;
    bool declares = false;
    for (std::string line; std::getline(in, line);) {
      line.resize(line.find_last_not_of(" \t\r") + 1);
      declares = declares || line.starts_with("class " + name + "(") ||
                 line == "class " + name + ":" || line.starts_with("def " + name + "(");
      if (!line.empty()) text += line + "\n";
    }
    if (declares) return sha256({reinterpret_cast<const std::uint8_t*>(text.data()), text.size()});
  }
  return "";
}

}  // namespace

const ScriptRow* known_script(const std::filesystem::path& bundle, const std::string& name) {
  for (const ScriptRow& row : script_rows())
    if (row.name == name && digest_of_script(bundle / "scripts", name) == row.sha256) return &row;
  return nullptr;
}

// One expression, worked out.
struct Evaluation {
  Values& values;
  const Item& item;
  std::vector<std::pair<std::string, Value>> names;  // bound by comprehensions

  [[noreturn]] void refuse(const std::string& what) const {
    throw Refused(item.at, "\"" + item.text() + "\": " + what +
                               "; nothing of a bundle is executed: write the value itself here, or "
                               "give it with --set " +
                               shell_word(item.id) + "=VALUE");
  }

  Value of(const Expr& e) {
    switch (e.kind) {
      case Expr::Kind::constant:
        return plain(e.value);
      case Expr::Kind::reference:
        return values.of_id(e.text, item.at);
      case Expr::Kind::name:
        return name(e);
      case Expr::Kind::attribute:
        return attribute(e);
      case Expr::Kind::call:
        return call(e);
      case Expr::Kind::subscript:
        return subscript(e);
      case Expr::Kind::unary:
        return unary(e);
      case Expr::Kind::binary:
        return binary(e);
      case Expr::Kind::conditional:
        return of(*e.args[of(*e.args[1]).truth() ? 0 : 2]);
      case Expr::Kind::list:
      case Expr::Kind::tuple:
      case Expr::Kind::set:
        return elements(e);
      case Expr::Kind::dict:
        return dict(e);
      case Expr::Kind::comprehension:
        return comprehension(e);
      case Expr::Kind::format:
        return format(e);
      case Expr::Kind::lambda: {
        Value v = of_kind(Sort::lambda);
        v.expr = std::make_shared<const Expr>(e);
        v.item = values.config_.find(item.id);
        return v;
      }
      default:
        refuse("a slice or * where a value is wanted");
    }
  }

  Value name(const Expr& e) {
    for (auto i = names.rbegin(); i != names.rend(); ++i)
      if (i->first == e.text) return i->second;
    return symbol(e.text);
  }

  Value symbol(const std::string& name) {
    if (const auto type = dtype_name(name); !type.empty()) return plain(type);
    for (const char* type : {"int", "float", "bool", "str"})
      if (name == type) return plain(name);
    if (name.ends_with(".pi")) return plain(std::numbers::pi);
    if (name.starts_with("monai.utils.") && std::count(name.begin(), name.end(), '.') == 3)
      return plain(lower_case(last_name(name)));  // a member of an enumeration
    if (name == "dist.get_rank" || name == "torch.backends.cudnn")
      return of_kind(Sort::opaque, name);
    if (name.starts_with("monai.") || name.starts_with("scripts.") || name.starts_with("operator."))
      return of_kind(Sort::opaque, name);
    refuse("\"" + name + "\" is not known here");
  }

  Value attribute(const Expr& e) {
    if (const auto name = dotted(e); !name.empty()) {
      const std::string first = name.substr(0, name.find('.'));
      const bool bound =
          std::any_of(names.begin(), names.end(), [&](const auto& n) { return n.first == first; });
      if (!bound) return symbol(name);
    }
    const Value of_whom = of(*e.args[0]);
    // A column of a CSV file.
    if (of_whom.is(Sort::file) && of_whom.name.ends_with(".csv")) {
      Value v = of_kind(Sort::paths);
      v.paths.csv = of_whom.name;
      v.paths.column = e.text;
      return v;
    }
    if (is_detector(of_whom) && e.text == "network") return values.of(*of_whom.item, e.text);
    if (of_whom.is(Sort::object) && (loads_weights(e.text) || e.text == "conv")) {
      Value v = of_kind(Sort::bound, e.text);
      v.item = of_whom.item;
      return v;
    }
    if (of_whom.is(Sort::opaque) && e.text == "shape")
      return of_kind(Sort::opaque, "the shape of " + of_whom.name);
    refuse("\"." + e.text + "\" of " + of_whom.describe() + " is not known here");
  }

  Value elements(const Expr& e) {
    Value v = of_kind(e.kind == Expr::Kind::tuple ? Sort::tuple : Sort::list);
    for (const auto& arg : e.args) {
      if (arg->kind != Expr::Kind::star) {
        v.items.push_back(of(*arg));
        continue;
      }
      const Value more = of(*arg->args[0]);
      if (!more.is_list()) refuse("* of " + more.describe());
      v.items.insert(v.items.end(), more.items.begin(), more.items.end());
    }
    return e.kind == Expr::Kind::set ? distinct(v) : v;
  }

  // A set: each element once. Python says nothing of their order; here it is the first ones'.
  Value distinct(const Value& list) {
    Value out = of_kind(Sort::list);
    for (const Value& one : list.items)
      if (std::none_of(out.items.begin(), out.items.end(),
                       [&](const Value& known) { return equal(known, one); }))
        out.items.push_back(one);
    return out;
  }

  static void put(Value& dict, const Json& key, Value value) {
    for (auto& [name, old] : dict.entries)
      if (same(name, key)) {
        old = std::move(value);
        return;
      }
    dict.entries.emplace_back(key, std::move(value));
  }

  Value dict(const Expr& e) {
    Value v = of_kind(Sort::dict);
    for (std::size_t i = 0; i < e.args.size(); i += 2) {
      Value value = of(*e.args[i + 1]);
      if (!e.args[i]) {
        if (!value.is(Sort::dict)) refuse("** of " + value.describe());
        for (auto& [key, entry] : value.entries) put(v, key, std::move(entry));
        continue;
      }
      const Value key = of(*e.args[i]);
      if (!key.is(Sort::plain)) refuse(key.describe() + " as a key");
      put(v, key.plain, std::move(value));
    }
    return v;
  }

  Value format(const Expr& e) {
    std::string out;
    for (const auto& part : e.args) out += printed(of(*part));
    return plain(out);
  }
  std::string printed(const Value& v) {
    if (v.is_text()) return v.text();
    if (v.is(Sort::plain) && v.plain.is_boolean()) return v.plain.get<bool>() ? "True" : "False";
    if (v.is(Sort::plain) && v.plain.is_null()) return "None";
    if (v.is(Sort::plain)) return v.plain.dump();
    refuse(v.describe() + " as text");
  }

  Value unary(const Expr& e) {
    const Value v = of(*e.args[0]);
    if (e.text == "not") return plain(!v.truth());
    if (!is_number(v)) refuse(e.text + " of " + v.describe());
    if (e.text == "+") return v;
    if (e.text == "~") refuse("~ is not read");
    return is_whole(v) ? plain(-whole(v)) : plain(-real(v));
  }

  Value binary(const Expr& e) {
    const Value a = of(*e.args[0]);
    if (e.text == "and") return a.truth() ? of(*e.args[1]) : a;
    if (e.text == "or") return a.truth() ? a : of(*e.args[1]);
    const Value b = of(*e.args[1]);
    if (e.text == "+" && a.is_text() && b.is(Sort::paths)) {
      Value v = b;
      v.paths.prefix = a.text() + v.paths.prefix;
      return v;
    }
    if (e.text == "+" && a.is_list() && b.is_list()) {
      Value v = a;
      v.items.insert(v.items.end(), b.items.begin(), b.items.end());
      return v;
    }
    if (e.text == "+" && a.is_text() && b.is_text()) return plain(a.text() + b.text());
    if (e.text == "-" && a.is_list() && b.is_list()) {  // of sets
      Value v = a;
      std::erase_if(v.items, [&](const Value& one) { return is_in(one, b); });
      return v;
    }
    if (e.text == "*" && ((a.is_list() && is_whole(b)) || (b.is_list() && is_whole(a)))) {
      Value v = a.is_list() ? a : b;
      const auto times = whole(a.is_list() ? b : a);
      const auto once = v.items;
      if (times * std::ssize(once) > 100000) refuse("a list of more than 100000");
      v.items.clear();
      for (std::int64_t i = 0; i < times; ++i)
        v.items.insert(v.items.end(), once.begin(), once.end());
      return v;
    }
    if (const auto truth = compared(e.text, a, b)) return plain(*truth);
    if (e.text == "//" && a.is(Sort::opaque) && a.name == files_number && is_whole(b)) {
      Value v = of_kind(Sort::opaque, whole_batches);
      v.plain = b.plain;
      return v;
    }
    if (is_number(a) && is_number(b)) return arithmetic(e.text, a, b);
    refuse("\"" + e.text + "\" between " + a.describe() + " and " + b.describe());
  }

  bool equal(const Value& a, const Value& b) {
    const auto x = a.json(), y = b.json();
    if (!x || !y) refuse("comparing " + a.describe() + " with " + b.describe());
    return same(*x, *y);
  }

  bool is_in(const Value& a, const Value& b) {
    if (b.is_text() && a.is_text()) return b.text().find(a.text()) != std::string::npos;
    if (b.is(Sort::dict))
      return std::any_of(b.entries.begin(), b.entries.end(),
                         [&](const auto& entry) { return same(entry.first, a.plain); });
    if (!b.is_list()) refuse(a.describe() + " in " + b.describe());
    return std::any_of(b.items.begin(), b.items.end(),
                       [&](const Value& one) { return equal(one, a); });
  }

  // Below 0, 0 or above, as a stands before b, with it or after it.
  int order(const Value& a, const Value& b) {
    if (a.is_text() && b.is_text()) return a.text().compare(b.text());
    if (is_number(a) && is_number(b)) return real(a) < real(b) ? -1 : real(a) > real(b) ? 1 : 0;
    if (a.kind != b.kind || !a.is_list())
      refuse("comparing " + a.describe() + " with " + b.describe());
    for (std::size_t i = 0; i < std::min(a.items.size(), b.items.size()); ++i)
      if (!equal(a.items[i], b.items[i])) return order(a.items[i], b.items[i]);
    return static_cast<int>(a.items.size() > b.items.size()) -
           static_cast<int>(a.items.size() < b.items.size());
  }

  std::optional<bool> compared(const std::string& op, const Value& a, const Value& b) {
    if (op == "in" || op == "not in") return is_in(a, b) == (op == "in");
    if (op == "==" || op == "!=") return equal(a, b) == (op == "==");
    if (op == "is" || op == "is not") {  // True is not 1
      const bool one_kind = a.plain.is_boolean() == b.plain.is_boolean();
      return (equal(a, b) && one_kind) == (op == "is");
    }
    if (op == "<") return order(a, b) < 0;
    if (op == ">") return order(a, b) > 0;
    if (op == "<=") return order(a, b) <= 0;
    if (op == ">=") return order(a, b) >= 0;
    return {};
  }

  Value arithmetic(const std::string& op, const Value& a, const Value& b) {
    const double x = real(a), y = real(b);
    const bool both = is_whole(a) && is_whole(b);
    if ((op == "/" || op == "//" || op == "%") && y == 0) refuse("division by 0");
    if (op == "/") return plain(x / y);
    double r = 0;
    if (op == "+")
      r = x + y;
    else if (op == "-")
      r = x - y;
    else if (op == "*")
      r = x * y;
    else if (op == "//")
      r = std::floor(x / y);
    else if (op == "%")
      r = x - y * std::floor(x / y);
    else if (op == "**")
      r = std::pow(x, y);
    else
      refuse("\"" + op + "\" is not read");
    if (!both || (op == "**" && y < 0)) return plain(r);
    if (std::abs(r) > 9e15) refuse("a number above 9e15");
    return plain(static_cast<std::int64_t>(r));
  }

  // ---- subscripts -------------------------------------------------------------------------------

  std::optional<std::int64_t> bound(const ExprPtr& e) {
    if (!e) return {};
    const Value v = of(*e);
    if (!is_whole(v)) refuse("a slice by " + v.describe());
    return whole(v);
  }

  Value subscript(const Expr& e) {
    const Value v = of(*e.args[0]);
    const Expr& at = *e.args[1];
    if (at.kind == Expr::Kind::slice) return sliced(v, at);
    if (v.are_images() && at.kind == Expr::Kind::tuple) {  // x[0, 0, ...]
      Value out = v;
      for (const auto& one : at.args)
        if (one != at.args.back() || one->text != "...") out = first_of(std::move(out), of(*one));
      return out;
    }
    const Value i = of(at);
    if (v.are_images()) return first_of(v, i);
    if (v.is(Sort::dict)) {
      for (const auto& [key, value] : v.entries)
        if (same(key, i.plain)) return value;
      refuse("there is no " + i.plain.dump() + " in the dictionary");
    }
    if (v.is(Sort::opaque) && i.is_text()) return within_file(v.name, i.text());
    if (v.is(Sort::records) && i.is_text() && v.records->fields.empty()) {
      auto records = copy_of_records(v);
      records->key = i.text();
      return records_value(records);
    }
    if (!is_whole(i)) refuse("an index that is " + i.describe());
    if (v.is(Sort::parts)) return chosen_parts(v, {i});
    if (v.is(Sort::records)) return of_kind(Sort::opaque, "a sample");
    if (!v.is_list()) refuse("an element of " + v.describe());
    const std::int64_t n = std::ssize(v.items), k = whole(i) + (whole(i) < 0 ? n : 0);
    if (k < 0 || k >= n) refuse("the list has " + std::to_string(n) + " elements");
    return v.items[static_cast<std::size_t>(k)];
  }

  // The field of a batch, one of several outputs, the first image, its first channel.
  Value first_of(Value images, const Value& i) const {
    if (images.is(Sort::batch) && images.name.empty()) {
      if (!i.is_text()) refuse("a batch's field that is " + i.describe());
      images.name = i.text();
      return images;
    }
    if (!is_whole(i) || whole(i) != 0)
      refuse("of " + images.describe() + " the first alone is known");
    if (images.is(Sort::answer) && !images.name.empty())
      images.name.clear();
    else
      images.plain = (images.plain.is_null() ? 0 : images.plain.get<int>()) + 1;
    return images;
  }

  // torch.load(FILE)["key"]: the numbers there, or weights that are read when the graph runs.
  Value within_file(const std::string& file, const std::string& key) const {
    if (std::filesystem::is_regular_file(file)) {
      try {
        const Json values = read_torch_values(file);
        if (const Json v = values.is_object() ? values.value(key, Json()) : Json(); !v.is_null())
          if (!v.is_object()) return of_json(v);
      } catch (const DataError&) {  // weights in an older form, say: whoever reads them says more
      }
    }
    return of_kind(Sort::opaque, file + "#" + key);
  }

  Value sliced(const Value& v, const Expr& slice) {
    const auto from = bound(slice.args[0]), to = bound(slice.args[1]), step = bound(slice.args[2]);
    if (step && *step != 1) refuse("a slice with a step");
    if (v.is(Sort::paths) || v.is(Sort::records)) {
      auto records = v.is(Sort::records) ? copy_of_records(v) : std::make_shared<Records>();
      if (v.is(Sort::paths)) {
        if (!v.records && !v.items.empty()) refuse("a slice of zip()");
        if (v.records) *records = *v.records;
      }
      if (records->from != 0 || records->to || records->parts() > 0 || records->fold >= 0)
        refuse("a slice of a slice");
      records->from = from.value_or(0);
      records->to = to;
      Value out = v;
      out.records = records;
      return out;
    }
    const auto letters = characters(v.text());
    const std::int64_t n = v.is_text() ? std::ssize(letters) : std::ssize(v.items);
    const auto clamp = [&](std::optional<std::int64_t> i, std::int64_t none) {
      if (!i) return none;
      return std::clamp<std::int64_t>(*i < 0 ? *i + n : *i, 0, n);
    };
    const auto b = clamp(from, 0), e = std::max(b, clamp(to, n));
    if (v.is_text()) {
      std::string part;
      for (auto i = b; i < e; ++i) part += letters[static_cast<std::size_t>(i)];
      return plain(part);
    }
    if (!v.is_list()) refuse("a slice of " + v.describe());
    Value out = v;
    out.items.assign(v.items.begin() + b, v.items.begin() + e);
    return out;
  }

  // ---- comprehensions ---------------------------------------------------------------------------

  Value comprehension(const Expr& e) {
    const std::size_t parts = e.text == "dict" ? 2 : 1;
    const Value over = of(*e.args[parts]);
    if (over.is(Sort::paths) || over.is(Sort::records)) {
      if (e.args.size() > parts + 1) refuse("a condition on the files of a list");
      return of_files(e, over);
    }
    if (!over.is_list()) refuse("a comprehension over " + over.describe());
    Value out = of_kind(e.text == "dict" ? Sort::dict : Sort::list);
    for (const Value& element : over.items) {
      const std::size_t known = names.size();
      bind(e.names, element);
      bool wanted = true;
      for (std::size_t c = parts + 1; c < e.args.size(); ++c)
        wanted = wanted && of(*e.args[c]).truth();
      if (wanted && parts == 2) put(out, of(*e.args[0]).plain, of(*e.args[1]));
      if (wanted && parts == 1) out.items.push_back(of(*e.args[0]));
      names.resize(known);
    }
    return out;
  }

  void bind(const std::vector<std::string>& targets, const Value& value) {
    if (targets.size() == 1) {
      names.emplace_back(targets[0], value);
      return;
    }
    if (!value.is_list() || value.items.size() != targets.size())
      refuse(std::to_string(targets.size()) + " names for " + value.describe());
    for (std::size_t i = 0; i < targets.size(); ++i) names.emplace_back(targets[i], value.items[i]);
  }

  // [{"image": i, "label": l} for i, l in zip(images, labels)]
  Value of_files(const Expr& e, const Value& over) {
    const std::size_t known = names.size();
    auto records = std::make_shared<Records>();
    const auto element_of = [&](const Value& list) {
      Records how;
      if (list.records) how = *list.records;
      Value element = list;
      if (list.is(Sort::records)) {
        if (!list.name.empty()) {
          element.kind = Sort::element;
          return element;
        }
        element = of_kind(Sort::dict);
        if (how.fields.empty()) refuse("a comprehension over a JSON file's list");
        for (const auto& [key, paths] : how.fields) {
          Value field = of_kind(Sort::element);
          field.paths = paths;
          element.entries.emplace_back(key, std::move(field));
        }
      } else {
        element.kind = Sort::element;
      }
      if (records->from != 0 || records->to) {
        if (how.from != records->from || how.to != records->to) refuse("zip() of different slices");
      } else {
        records->from = how.from;
        records->to = how.to;
      }
      return element;
    };
    if (over.items.empty()) {
      bind(e.names, element_of(over));
    } else {
      Value tuple = of_kind(Sort::tuple);
      for (const Value& list : over.items) tuple.items.push_back(element_of(list));
      bind(e.names, tuple);
    }
    const Value made = of(*e.args[0]);
    names.resize(known);
    if (made.is(Sort::element)) {
      Value out = made;
      out.kind = Sort::paths;
      out.records = records;
      return out;
    }
    if (!made.is(Sort::dict)) refuse("a list that is neither of files nor of dictionaries");
    // Fields of one JSON file's list, under their own names: the list as it is.
    const auto one_list = [](const Records& a, const Records& b) {
      return a.file == b.file && a.key == b.key && a.from == b.from && a.to == b.to;
    };
    if (!made.entries.empty() &&
        std::all_of(made.entries.begin(), made.entries.end(), [&](const auto& entry) {
          const Value& field = entry.second;
          return field.is(Sort::element) && field.records && field.records->fields.empty() &&
                 one_list(*field.records, *made.entries.front().second.records) &&
                 entry.first == field.name;
        }))
      return records_value(made.entries.front().second.records);
    for (const auto& [key, value] : made.entries) {
      if (!value.is(Sort::element) || value.paths.json() == "")
        refuse("a sample's field that is " + value.describe());
      records->fields.emplace_back(key.is_string() ? key.get<std::string>() : key.dump(),
                                   value.paths);
      if (value.name == "points") records->points.push_back(records->fields.back().first);
    }
    return records_value(records);
  }

  // ---- calls ------------------------------------------------------------------------------------

  // The arguments of a call. Who works the call out takes those that it reads; call() refuses it
  // where one is left, so none is passed over.
  class Args {
   public:
    static constexpr std::size_t by_name = SIZE_MAX;

    void add(const std::string& name, Value value) { args_.push_back({name, std::move(value)}); }
    // By its name, or at its place among those without one; null where it is not given.
    const Value* find(std::string_view name, std::size_t place) {
      for (Arg& arg : args_)
        if (arg.name.empty() ? place-- == 0 : arg.name == name) return take(arg);
      return nullptr;
    }
    const Value* at(std::size_t place) { return find("", place); }
    // All that have no name, or all that have one.
    std::vector<Value> all() {
      std::vector<Value> out;
      for (Arg& arg : args_)
        if (arg.name.empty()) out.push_back(*take(arg));
      return out;
    }
    std::vector<std::pair<std::string, Value>> named() {
      std::vector<std::pair<std::string, Value>> out;
      for (Arg& arg : args_)
        if (!arg.name.empty()) out.emplace_back(arg.name, *take(arg));
      return out;
    }
    // What it says changes nothing of what is made here.
    void passes_over(std::string_view name, std::size_t place = by_name) { find(name, place); }
    // The first that nobody took, in words; "" where there is none.
    std::string left() const {
      for (const Arg& arg : args_)
        if (!arg.taken) return arg.name.empty() ? arg.value.describe() : arg.name + "=";
      return "";
    }

   private:
    struct Arg {
      std::string name;  // "" where it is told by its place
      Value value;
      bool taken = false;
    };
    std::vector<Arg> args_;
    static const Value* take(Arg& arg) {
      arg.taken = true;
      return &arg.value;
    }
  };

  Args args_of(const Expr& e) {
    Args args;
    for (std::size_t i = 1; i < e.args.size(); ++i) {
      if (e.args[i]->kind != Expr::Kind::star) {
        args.add(e.names[i - 1], of(*e.args[i]));
        continue;
      }
      const Value all = of(*e.args[i]->args[0]);
      if (!all.is_list()) refuse("an unpacked argument that is " + all.describe());
      for (const Value& one : all.items) args.add("", one);
    }
    return args;
  }

  Value call(const Expr& e) {
    const Expr& what = *e.args[0];
    std::string name = dotted(what);
    const bool bound = what.kind == Expr::Kind::attribute &&
                       std::any_of(names.begin(), names.end(), [&](const auto& n) {
                         return n.first == name.substr(0, name.find('.'));
                       });
    const bool is_function = !name.empty() && !bound;
    Value of_whom;
    if (!is_function) {
      if (what.kind != Expr::Kind::attribute) return call_of(of(what), e);
      of_whom = of(*what.args[0]);
      name = what.text;
    }
    const bool samples = of_whom.is(Sort::object) && signature_of(of_whom, name);
    if (auto v = is_function ? told_by_name(name) : told_by_name(of_whom, name); v && !samples)
      return *v;
    Args args = args_of(e);
    Value v = is_function ? function(name, args) : method(of_whom, name, args);
    if (const std::string left = args.left(); !left.empty())
      refuse("the argument " + left + " of " + name + "() is not known here");
    return v;
  }

  Value call_of(const Value& callee, const Expr& e) {
    if (callee.is(Sort::lambda)) return called_lambda(callee, e);
    if (callee.is(Sort::bound) && loads_weights(callee.name)) {
      Args args = args_of(e);
      Value v = loaded_weights(callee.item, args);
      if (const std::string left = args.left(); !left.empty())
        refuse("the argument " + left + " of " + callee.name + "() is not known here");
      return v;
    }
    if (!callee.is(Sort::object)) refuse("a call of " + callee.describe());
    const std::string name = last_name(callee.item->target());
    if (name == "SaveImage" || name == "Compose") {  // of one image
      Args args = args_of(e);
      const Value* image = args.at(0);
      if (!image || !image->are_images() || !args.left().empty())
        refuse("a call of " + callee.describe() + " with other than images that are made here");
      Value v = of_kind(Sort::effect, "save");
      v.item = callee.item;
      v.items = {*image};
      return v;
    }
    if (name != "CheckpointLoader" && e.args.size() == 2)
      if (const Value batch = of(*e.args[1]); batch.is(Sort::batch)) return answer(callee, batch);
    Value v = of_kind(Sort::effect, "load");  // @checkpointloader(@evaluator)
    v.item = callee.item;
    return v;
  }

  // What a network says of a batch. Autoencoders give three outputs, the image first.
  Value answer(const Value& network, const Value& batch) const {
    if (batch.name.empty() || !batch.plain.is_null())
      refuse("a network called with other than a field of a batch");
    const std::string name = last_name(network.item->target());
    Value v = of_kind(Sort::answer, name.starts_with("AutoencoderK") ? "outputs" : "");
    v.item = network.item;
    v.items = {batch};
    return v;
  }

  // Its body, with what it is called with in place of its names.
  Value called_lambda(const Value& lambda, const Expr& e) {
    Args args = args_of(e);
    const std::vector<Value> given = args.all();
    if (!args.left().empty() || given.size() != lambda.expr->names.size())
      refuse("a lambda of " + std::to_string(lambda.expr->names.size()) + " called with others");
    if (++lambdas_ > 20) refuse("lambdas that call each other");
    const std::size_t known = names.size();
    for (std::size_t i = 0; i < given.size(); ++i)
      names.emplace_back(lambda.expr->names[i], given[i]);
    Value v = of(*lambda.expr->args[0]);
    names.resize(known);
    --lambdas_;
    return v;
  }
  int lambdas_ = 0;

  // ---- images of noise --------------------------------------------------------------------------

  static bool loads_weights(const std::string& name) {
    return name == "load_state_dict" || name == "load_old_state_dict";
  }

  // FILE, or torch.load(FILE)["key"], into a network: read when the graph runs. A file's older
  // names of parameters are known there.
  Value loaded_weights(const ItemPtr& network, Args& args) {
    const Value* from = args.find("state_dict", 0);
    if (!from) from = args.find("old_state_dict", 0);
    args.passes_over("verbose");
    const Value* strict = args.find("strict", 1);
    if (!from || !from->is(Sort::opaque) || (strict && !strict->truth()))
      refuse("weights that are not torch.load(FILE)");
    Value v = of_kind(Sort::effect, "weights");
    v.item = network;
    v.plain = from->name;
    return v;
  }

  // What a network has by the names of another one's.
  Value copied_weights(Args& args) {
    const Value *to = args.find("dst", 0), *from = args.find("src", 1);
    if (!to || !to->is(Sort::object) || !from || !from->is(Sort::weights))
      refuse("copy_model_state() of other than a network and a network's state_dict()");
    Value v = of_kind(Sort::effect, "copy_model_state");
    v.item = to->item;
    v.items = {*from};
    return v;
  }

  // The arguments of an inferer's method that makes images, in their order; null of any other.
  const std::vector<std::string>* signature_of(const Value& v, const std::string& method) const {
    static const std::vector<std::string> of_images{
        "input_noise",        "diffusion_model", "scheduler", "save_intermediates",
        "intermediate_steps", "conditioning",    "mode",      "verbose"},
        of_latents{"input_noise",
                   "autoencoder_model",
                   "diffusion_model",
                   "scheduler",
                   "save_intermediates",
                   "intermediate_steps",
                   "conditioning",
                   "mode",
                   "verbose"},
        of_sampler{"input_noise", "autoencoder_model", "diffusion_model", "scheduler",
                   "conditioning"},
        of_saver{"input_noise", "autoencoder_model", "diffusion_model", "scheduler",
                 "saver",       "conditioning"};
    const std::string target = v.item->target(), name = last_name(target);
    if (!target.starts_with("scripts."))
      return method != "sample"                 ? nullptr
             : name == "DiffusionInferer"       ? &of_images
             : name == "LatentDiffusionInferer" ? &of_latents
                                                : nullptr;
    if (method != "run" && method != "sampling_fn") return nullptr;
    const ScriptRow* row = known_script(values.config_.folder(), name);
    if (!row || row->type != "diffusion_inferer") return nullptr;
    return method == "run" ? &of_saver : &of_sampler;
  }

  Value sampled(const Value& inferer, const std::string& method,
                const std::vector<std::string>& signature, Args& args) {
    Value v = of_kind(Sort::made);
    v.item = inferer.item;
    for (std::size_t i = 0; i < signature.size(); ++i) {
      const bool is_file = signature[i] == "saver";
      const Value* given = args.find(signature[i], i);
      if (!given && is_file) given = args.find("output_file", i);
      if (given) v.entries.emplace_back(signature[i], *given);
    }
    if (method != "run") return v;
    Value saved = of_kind(Sort::effect, "save");
    for (const auto& [name, value] : v.entries)
      if (name == "saver") {
        saved.item = value.item;  // or a file's name
        if (value.is_text()) saved.plain = value.plain;
      }
    v.plain = 1;
    saved.items = {v};
    return saved;
  }

  // ---- detectors --------------------------------------------------------------------------------

  static bool is_detector(const Value& v) {
    return v.is(Sort::object) && last_name(v.item->target()) == "RetinaNetDetector";
  }

  // The arguments of what sets a RetinaNetDetector up, in their order; null of any other method.
  static const std::vector<std::string>* settings_of(const std::string& method) {
    static const std::map<std::string, std::vector<std::string>> known{
        {"set_target_keys", {"box_key", "label_key"}},
        {"set_box_coder_weights", {"weights"}},
        {"set_regular_matcher", {"fg_iou_thresh", "bg_iou_thresh", "allow_low_quality_matches"}},
        {"set_atss_matcher", {"num_candidates", "center_in_gt"}},
        {"set_hard_negative_sampler",
         {"batch_size_per_image", "positive_fraction", "min_neg", "pool_size"}},
        {"set_balanced_sampler", {"batch_size_per_image", "positive_fraction"}},
        {"set_box_selector_parameters",
         {"score_thresh", "topk_candidates_per_level", "nms_thresh", "detections_per_img",
          "apply_sigmoid"}},
        {"set_sliding_window_inferer",
         {"roi_size", "sw_batch_size", "overlap", "mode", "sigma_scale", "padding_mode", "cval",
          "sw_device", "device", "progress", "cache_roi_weight_map"}}};
    const auto found = known.find(method);
    return found == known.end() ? nullptr : &found->second;
  }

  static Value set_up(const Value& detector, const std::string& method, Args& args) {
    Value v = of_kind(Sort::effect, method);
    v.item = detector.item;
    const std::vector<std::string>& signature = *settings_of(method);
    for (std::size_t i = 0; i < signature.size(); ++i)
      if (const Value* given = args.find(signature[i], i))
        v.entries.emplace_back(signature[i], *given);
    return v;
  }

  // The arguments of calls that make components, in their order; null of any other.
  static const std::vector<std::string>* makes_component(const std::string& name) {
    static const std::vector<std::string> of_features{"backbone", "spatial_dims",
                                                      "pretrained_backbone", "returned_layers",
                                                      "trainable_backbone_layers"},
        of_metric{"classes", "iou_list", "iou_range", "max_detection", "per_class", "verbose"},
        of_resnet{"pretrained", "progress"}, of_vista{"encoder_embed_dim", "in_channels"},
        of_nothing{};
    static const std::regex resnet("resnet[0-9]+");
    const std::string last = last_name(name);
    if (!name.starts_with("monai.")) return nullptr;
    return last == "resnet_fpn_feature_extractor" ? &of_features
           : last == "COCOMetric"                 ? &of_metric
           : last == "SimpleInferer"              ? &of_nothing
           : last == "vista3d132"                 ? &of_vista
           : std::regex_match(last, resnet)       ? &of_resnet
                                                  : nullptr;
  }

  // As if it stood there with a _target_.
  Value made_component(const std::string& name, const std::vector<std::string>& signature,
                       Args& args) {
    std::vector<std::pair<std::string, Value>> given;
    for (std::size_t i = 0; i < signature.size(); ++i)
      if (const Value* value = args.find(signature[i], i)) given.emplace_back(signature[i], *value);
    for (auto& [key, value] : args.named())
      if (std::none_of(given.begin(), given.end(), [&](const auto& g) { return g.first == key; }))
        given.emplace_back(key, std::move(value));
    auto component = std::make_shared<Item>();
    component->kind = Item::Kind::dict;
    component->at = item.at;
    component->id = item.id;
    component->members.emplace_back("_target_", item_of(plain(name), "_target_"));
    for (const auto& [key, value] : given)
      component->members.emplace_back(key, item_of(value, key));
    Value v = of_kind(Sort::object);
    v.item = component;
    return v;
  }
  ItemPtr item_of(const Value& v, const std::string& key) {
    if (v.is(Sort::object)) return v.item;
    const auto json = v.json();
    if (!json) refuse("an argument that is " + v.describe());
    return item_of(*json, item.id + "#" + key);
  }
  ItemPtr item_of(const Json& json, const std::string& id) {
    auto one = std::make_shared<Item>();
    one->at = item.at;
    one->id = id;
    if (json.is_object()) refuse("a dictionary as an argument");
    one->kind = json.is_array() ? Item::Kind::list : Item::Kind::scalar;
    if (json.is_array())
      for (std::size_t i = 0; i < json.size(); ++i)
        one->elements.push_back(item_of(json[i], id + "#" + std::to_string(i)));
    else
      one->value = json;
    return one;
  }

  // Calls whose arguments say nothing here; they are not even worked out.
  std::optional<Value> told_by_name(const std::string& name) const {
    if (name == "torch.device") return of_kind(Sort::device);
    if (name == "print" || name == "sys.path.append" || name == "os.makedirs")
      return of_kind(Sort::effect, "none");
    if (name.ends_with("datetime.now")) return of_kind(Sort::opaque, "the time");
    if (name == "torch.cuda.is_available" || name == "dist.is_initialized" ||
        name == "torch.distributed.is_initialized")
      return plain(false);
    return {};
  }
  std::optional<Value> told_by_name(const Value& v, const std::string& name) const {
    if ((v.is(Sort::file) || v.is(Sort::records)) && (name == "close" || name == "read_text"))
      return name == "close" ? of_kind(Sort::effect, "none") : v;
    if (v.is(Sort::element) && name == "read_text") return v;
    if (!v.is(Sort::object)) return {};
    if (name == "to" || name == "cuda" || name == "cpu" || name == "eval" || name == "train" ||
        name == "set_random_state")  // draws are keyed by the run's seed
      return v;
    if (name != "parameters" && name != "state_dict" && name != "run") return {};
    Value out = name == "run" ? of_kind(Sort::effect, "run") : of_kind(Sort::weights);
    out.item = v.item;
    return out;
  }

  Value method(const Value& v, const std::string& name, Args& args) {
    if (v.is(Sort::object))
      if (const auto* signature = signature_of(v, name)) return sampled(v, name, *signature, args);
    if (v.is(Sort::object) && loads_weights(name)) return loaded_weights(v.item, args);
    if (is_detector(v) && settings_of(name)) return set_up(v, name, args);
    if (v.is(Sort::object) && name == "apply") {
      const Value* how = args.at(0);
      if (!how || !how->name.ends_with(".normal_init")) refuse("apply() of other than normal_init");
      Value begun = v;
      begun.name = "normal_init";
      return begun;
    }
    if (v.is(Sort::bound) && v.name == "conv" && name == "add_module") {
      args.passes_over("name", 0);
      const Value* layer = args.find("module", 1);
      if (!layer || !layer->name.starts_with("torch.nn.")) refuse("add_module() of other layers");
      Value appended = of_kind(Sort::effect, "append");
      appended.item = v.item;
      appended.plain = last_name(layer->name);
      return appended;
    }
    if (v.is(Sort::object) && name == "set_timesteps") {
      Value timesteps = of_kind(Sort::effect, name.substr(4));
      const Value* n = args.find("num_inference_steps", 0);
      args.passes_over("device", 1);
      if (!n || !is_whole(*n)) refuse("set_timesteps() of other than a number of steps");
      timesteps.item = v.item;
      timesteps.plain = n->plain;
      return timesteps;
    }
    if (v.is(Sort::file) && name == "mkdir") {
      args.all();
      args.named();
      return of_kind(Sort::effect, "none");
    }
    if (v.is(Sort::picture) && name == "save") {
      const Value* file = args.find("fp", 0);
      if (!file || !file->is_text()) refuse("save() of other than a file's name");
      Value saved = of_kind(Sort::effect, name);
      saved.items = v.items;
      saved.plain = file->plain;
      return saved;
    }
    if ((v.is(Sort::opaque) || v.are_images() || v.is_list()) && name == "to") {
      const Value* device = args.find("device", 0);
      if (device && device->is(Sort::device)) return v;
      refuse(".to() of other than a device");
    }
    if (v.is_list() && name == "unsqueeze") {
      const Value* dim = args.find("dim", 0);
      if (!dim || !is_whole(*dim) || whole(*dim) < 0) refuse("unsqueeze() of other than an axis");
      return unsqueezed(v, whole(*dim));
    }
    // CreateImageLabelList(FILE).create_dataset(KEY): the images and the labels of a JSON file.
    if (v.is(Sort::object) && name == "create_dataset" &&
        known_script(values.config_.folder(), last_name(v.item->target()))) {
      const Value* key = args.find("grp", 0);
      const Value file = values.of(*v.item, "filename");
      if (!key || !key->is_text() || !file.is_text()) refuse("a list of " + file.describe());
      auto records = std::make_shared<Records>();
      records->file = values.path(file.text());
      records->key = key->text();
      Value both = of_kind(Sort::tuple);
      for (const char* field : {"image", "label"}) {
        both.items.push_back(records_value(records));
        both.items.back().name = field;
      }
      return both;
    }
    if (v.is(Sort::opaque) && name == "strftime") {
      const Value* format = args.find("format", 0);
      if (!format) refuse("strftime() of nothing");
      std::string fixed = format->text().substr(0, format->text().find('%'));
      while (fixed.ends_with('_') || fixed.ends_with('-')) fixed.pop_back();
      return plain(fixed);
    }
    if (v.is(Sort::element) && name == "replace") {
      const Value *from = args.at(0), *to = args.at(1);
      if (!from || !to || !from->is_text() || !to->is_text())
        refuse(".replace() of other than text");
      Value out = v;
      out.paths.replace.emplace_back(from->text(), to->text());
      return out;
    }
    if (v.is_text()) return text_method(v.text(), name, args);
    if (v.is(Sort::dict) && name == "get") {
      const Value *wanted = args.at(0), *otherwise = args.at(1);
      for (const auto& [key, value] : v.entries)
        if (wanted && same(key, wanted->plain)) return value;
      return otherwise ? *otherwise : Value{};
    }
    if (v.is(Sort::dict) && (name == "keys" || name == "values" || name == "items")) {
      Value out = of_kind(Sort::list);
      for (const auto& [key, value] : v.entries) {
        Value pair = of_kind(Sort::tuple);
        pair.items = {plain(key), value};
        out.items.push_back(name == "keys" ? plain(key) : name == "values" ? value : pair);
      }
      return out;
    }
    refuse("\"." + name + "()\" of " + v.describe() + " is not known here");
  }

  // Another axis of one, `axis` axes from the front.
  Value unsqueezed(const Value& v, std::int64_t axis) {
    Value out = of_kind(Sort::list);
    if (axis == 0) {
      out.items = {v};
      return out;
    }
    if (!v.is_list()) refuse("unsqueeze() behind the last axis");
    for (const Value& one : v.items) out.items.push_back(unsqueezed(one, axis - 1));
    return out;
  }

  Value text_method(std::string text, const std::string& name, Args& args) {
    const auto arg = [&](std::size_t i) {
      const Value* v = args.at(i);
      if (!v || !v->is_text()) refuse("." + name + "() of other than text");
      return v->text();
    };
    if (name == "lower") {
      if (characters(text).size() != text.size()) refuse("lower() of letters beyond ASCII");
      return plain(lower_case(text));
    }
    if (name == "replace") {
      const std::string from = arg(0), to = arg(1);
      const Value* count = args.at(2);
      if (from.empty() || (count && !is_whole(*count))) refuse("replace() of other than some text");
      std::int64_t left = count ? whole(*count) : -1;  // below 0: all
      for (std::size_t at = 0; left != 0 && (at = text.find(from, at)) != std::string::npos;
           at += to.size(), --left)
        text.replace(at, from.size(), to);
      return plain(text);
    }
    if (name == "startswith") return plain(text.starts_with(arg(0)));
    if (name == "endswith") return plain(text.ends_with(arg(0)));
    refuse("\"." + name + "()\" of text is not known here");
  }

  Value path_function(const std::string& name, Args& args) {
    const std::vector<Value> parts =
        name == "join" || !args.at(0) ? args.all() : std::vector<Value>{*args.at(0)};
    if (parts.empty()) refuse(name + "() of nothing");
    if (name == "join" && parts.back().is(Sort::element)) {
      Value out = parts.back();
      std::string folder;
      for (std::size_t i = 0; i + 1 < parts.size(); ++i) {
        if (!parts[i].is_text()) refuse("a path of " + parts[i].describe());
        folder += parts[i].text() + "/";
      }
      out.paths.prefix = folder + out.paths.prefix;
      return out;
    }
    std::filesystem::path path;
    for (const Value& part : parts) {
      if (!part.is_text()) refuse("a path of " + part.describe());
      path /= part.text();
    }
    const std::filesystem::path there = values.path(path.string());
    if (name == "join") return plain(path.string());
    if (name == "exists") return plain(std::filesystem::exists(there));
    if (name == "isfile") return plain(std::filesystem::is_regular_file(there));
    if (name == "isdir") return plain(std::filesystem::is_directory(there));
    if (name == "basename") return plain(path.filename().string());
    if (name == "dirname") return plain(path.parent_path().string());
    if (name == "abspath" || name == "normpath" || name == "realpath") return plain(path.string());
    refuse("\"os.path." + name + "\" is not known here");
  }

  Value function(const std::string& name, Args& args) {
    const std::string last = last_name(name);
    if (last == "from_engine") {
      Value v = of_kind(Sort::opaque, "from_engine");
      if (const Value* keys = args.find("keys", 0))
        v.items = keys->is_list() ? keys->items : std::vector<Value>{*keys};
      args.passes_over("first", 1);
      return v;
    }
    if (last == "from_engine_hovernet" || last == "PrepareBatchHoVerNet") {
      const bool batch = last == "PrepareBatchHoVerNet";
      Value v = of_kind(Sort::opaque, batch ? last : "from_engine");
      if (const Value* keys = args.find(batch ? "extra_keys" : "keys", 0)) v.items = keys->items;
      const Value* nested = batch ? nullptr : args.find("nested_key", 1);
      for (Value& key : v.items)
        if (nested && key.text() == "pred") key = *nested;
      return v;
    }
    if (name.starts_with("os.path.")) return path_function(last, args);
    if (last == "set_determinism") {
      Value v = of_kind(Sort::effect, "seed");
      if (const Value* seed = args.find("seed", 0)) v.plain = seed->plain;
      args.passes_over("use_deterministic_algorithms", 1);
      return v;
    }
    if (last == "load_decathlon_datalist") return decathlon(args);
    if (last == "datafold_read") return datafold(args, "datalist", "basedir");
    if (last == "maisi_datafold_read" && known_script(values.config_.folder(), last)) {
      if (!args.find("fold", 2)) refuse("maisi_datafold_read() without a fold's number");
      return datafold(args, "json_list", "data_base_dir");
    }
    if (last == "unzip_dataset" && known_script(values.config_.folder(), last)) {
      args.passes_over("dataset_dir", 0);  // it has to be unpacked
      return of_kind(Sort::effect, "none");
    }
    if (last == "copy_model_state") return copied_weights(args);
    if (const auto* signature = makes_component(name))
      return made_component(name, *signature, args);
    if (last == "partition_dataset") return partition(args);
    if (last == "select_cross_validation_folds") return folds_of_parts(args);
    if (name == "dict") return dictionary(args);
    if (name == "functools.partial" || name == "partial") {
      const Value* of = args.at(0);
      if (!of || !of->is(Sort::opaque)) refuse("partial() of other than a function's name");
      Value v = *of;
      for (auto& [key, value] : args.named()) v.entries.emplace_back(key, std::move(value));
      return v;
    }
    if (!args.at(0)) return nothing_given(name);
    return function_of(name, *args.at(0), args);
  }

  Value nothing_given(const std::string& name) {
    if (name == "list" || name == "set") return of_kind(Sort::list);
    if (name == "tuple") return of_kind(Sort::tuple);
    if (name == "torch.nn.Sigmoid") return of_kind(Sort::opaque, name);
    refuse("\"" + name + "()\" of nothing is not known here");
  }

  // Functions that take something at their first place.
  Value function_of(const std::string& name, const Value& first, Args& args) {
    const std::string last = last_name(name);
    if (last == "deepcopy") return first;
    if (last == "first" && first.is(Sort::object)) {  // monai.utils.first(LOADER)
      Value batch = of_kind(Sort::batch);
      batch.item = first.item;
      return batch;
    }
    if (last == "visualize_2d_image" && first.are_images() &&
        known_script(values.config_.folder(), last)) {
      Value picture = of_kind(Sort::picture);
      picture.items = {first};
      return picture;
    }
    if (last == "fromarray" && first.is(Sort::picture)) {
      args.passes_over("mode", 1);  // it is RGB, as the script makes it
      return first;
    }
    if (name == "filter") {
      const Value* of_what = args.at(1);
      if (of_what && of_what->is_list() && first.plain == "bool") {  // those that are true
        Value kept = *of_what;
        std::erase_if(kept.items, [](const Value& one) { return !one.truth(); });
        return kept;
      }
      if (of_what && of_what->is(Sort::weights) && first.is(Sort::lambda) &&
          first.expr->args[0]->text == "requires_grad")
        return *of_what;
    }
    if (name == "setattr" && first.name == "torch.backends.cudnn") {
      const Value *which = args.at(1), *value = args.at(2);
      if (!which || !value) refuse("setattr() of " + first.describe());
      Value v = of_kind(Sort::effect, "cudnn_" + which->text());
      v.plain = value->plain;
      return v;
    }
    if (last == "register_writer" && args.at(1)) {
      Value v = of_kind(Sort::effect, "writer");
      v.items = {first, *args.at(1)};
      return v;
    }
    if (last == "glob" && name.starts_with("glob")) {
      Value v = of_kind(Sort::paths);
      if (!first.is_text()) refuse("glob() of " + first.describe());
      v.paths.glob = values.path(first.text());
      args.passes_over("recursive");  // ** is refused where the list is read
      return v;
    }
    if (name == "zip") {
      Value v = of_kind(Sort::paths);
      v.items = args.all();
      const bool files = std::all_of(v.items.begin(), v.items.end(), [](const Value& i) {
        return i.is(Sort::paths) || i.is(Sort::records);
      });
      if (files) return v;
      if (std::any_of(v.items.begin(), v.items.end(),
                      [](const Value& i) { return !i.is(Sort::object); }))
        return zipped(v.items);
      v.kind = Sort::pairs;
      return v;
    }
    if (name == "map" && first.is(Sort::lambda)) {
      const Value* of_what = args.at(1);
      if (!of_what || !of_what->is(Sort::pairs)) refuse("map() over other than zip(*DATASETS)");
      Value v = *of_what;
      v.expr = first.expr;
      return v;
    }
    if (last == "Path" && first.is(Sort::element)) return first;
    if (name == "json.loads" && first.is(Sort::element)) {  // a file of points
      Value v = first;
      v.name = "points";
      return v;
    }
    if (name == "open" || last == "read_csv" || last == "Path") {
      if (!first.is_text()) refuse(name + "() of " + first.describe());
      if (name == "open") {
        args.passes_over("mode", 1);
        args.passes_over("encoding", 3);
      }
      return of_kind(Sort::file, values.path(first.text()));
    }
    if (name == "json.load" || name == "json.loads") {
      if (!first.is(Sort::file)) refuse(name + "() of " + first.describe());
      auto records = std::make_shared<Records>();
      records->file = first.name;
      return records_value(records);
    }
    if (name == "torch.rand" || name == "torch.randn") {  // numbers of a sample
      Value v = of_kind(Sort::opaque, name);
      const std::vector<Value> sizes = args.all();
      for (const Value& size : sizes)
        v.items.insert(v.items.end(), size.items.begin(), size.items.end());
      if (v.items.empty()) v.items = sizes;
      args.passes_over("device");
      return v;
    }
    if (last == "arange" && first.is(Sort::opaque) && first.item) {
      auto records = std::make_shared<Records>();
      records->rows = first.item;
      return records_value(records);
    }
    if (last == "Subset" && first.is(Sort::object)) {
      const Value* part = args.find("indices", 1);
      if (part && part->is(Sort::records) && part->records->rows == first.item) return *part;
    }
    if (name == "torch.ones" && first.is(Sort::opaque) && first.item)
      return of_kind(Sort::opaque, "equal weights");
    if (last == "from_numpy" && first.is_list()) return first;
    if (name == "torch.load" || last == "from_numpy") {
      args.passes_over("map_location", 1);
      args.passes_over("weights_only");
      return of_kind(Sort::opaque, first.is_text() ? values.path(first.text()) : first.name);
    }
    return builtin(name, first, args);
  }

  Value zipped(const std::vector<Value>& lists) {
    std::size_t n = lists.empty() ? 0 : lists[0].items.size();
    for (const Value& list : lists) {
      if (!list.is_list()) refuse("zip() of " + list.describe());
      n = std::min(n, list.items.size());
    }
    Value out = of_kind(Sort::list);
    for (std::size_t i = 0; i < n; ++i) {
      Value tuple = of_kind(Sort::tuple);
      for (const Value& list : lists) tuple.items.push_back(list.items[i]);
      out.items.push_back(std::move(tuple));
    }
    return out;
  }

  Value decathlon(Args& args) {
    auto records = std::make_shared<Records>();
    records->is_decathlon = true;
    const auto text = [&](const char* key, std::size_t place, const std::string& otherwise) {
      const Value* v = args.find(key, place);
      if (!v || v->plain.is_null()) return otherwise;
      if (!v->is_text()) refuse(std::string(key) + " that is " + v->describe());
      return v->text();
    };
    const std::string file = text("data_list_file_path", 0, "");
    if (file.empty()) refuse("load_decathlon_datalist() without a file");
    records->file = values.path(file);
    args.passes_over("is_segmentation", 1);
    records->key = text("data_list_key", 2, "training");
    const std::string base = text("base_dir", 3, "");
    records->base = base.empty() ? std::filesystem::path(records->file).parent_path().string()
                                 : values.path(base);
    return records_value(records);
  }

  // The training and the validation list.
  Value datafold(Args& args, const char* list, const char* folder) {
    const Value *file = args.find(list, 0), *base = args.find(folder, 1),
                *fold = args.find("fold", 2), *key = args.find("key", 3);
    if (!file || !file->is_text() || !base || !base->is_text() || (key && !key->is_text()) ||
        (fold && (!is_whole(*fold) || whole(*fold) < 0)))
      refuse("datafold_read() of other than a file, its folder and a fold's number");
    Value both = of_kind(Sort::tuple);
    for (const char* split : {"training", "validation"}) {
      auto records = std::make_shared<Records>();
      records->is_decathlon = true;
      records->file = values.path(file->text());
      records->base = values.path(base->text());
      records->key = key ? key->text() : "training";
      records->fold = fold ? whole(*fold) : 0;
      records->split = split;
      both.items.push_back(records_value(records));
    }
    return both;
  }

  Value partition(Args& args) {
    const Value *data = args.find("data", 0), *ratios = args.find("ratios", 1),
                *number = args.find("num_partitions", 2);
    if (!data || !data->is(Sort::records))
      refuse("partition_dataset() of other than a list of files");
    if (data->records->parts() > 0) refuse("partition_dataset() of a part");
    auto records = copy_of_records(*data);
    if (ratios && ratios->is_list())
      for (const Value& ratio : ratios->items) records->shares.push_back(real(ratio));
    else if (number && is_whole(*number))
      records->num_partitions = whole(*number);
    if (records->parts() < 1) refuse("partition_dataset() by neither ratios nor a number of parts");
    args.passes_over("drop_last", 5);  // of use with even_divisible
    const Value* even = args.find("even_divisible", 6);
    if (even && even->truth() && records->shares.empty())
      refuse(
          "partition_dataset() with even_divisible; num_partitions alone makes parts that differ "
          "by "
          "one sample at most, and a run on several processes shares its batches out by itself");
    const Value *shuffle = args.find("shuffle", 3), *seed = args.find("seed", 4);
    records->shuffles = shuffle && shuffle->truth();
    records->seed = seed && is_whole(*seed) ? whole(*seed) : 0;
    Value v = of_kind(Sort::parts);
    v.records = records;
    return v;
  }

  Value folds_of_parts(Args& args) {
    const Value *parts = args.find("partitions", 0), *folds = args.find("folds", 1);
    if (!parts || !parts->is(Sort::parts) || !folds)
      refuse("select_cross_validation_folds() of other than partition_dataset()'s parts");
    return chosen_parts(*parts, folds->is_list() ? folds->items : std::vector<Value>{*folds});
  }

  // One after the other, as Python counts them: from the end below 0.
  Value chosen_parts(const Value& parts, const std::vector<Value>& which) {
    auto records = copy_of_records(parts);
    for (const Value& one : which) {
      if (!is_whole(one)) refuse("a part that is " + one.describe());
      const std::int64_t n = records->parts(), k = whole(one) + (whole(one) < 0 ? n : 0);
      if (k < 0 || k >= n) refuse("there are " + std::to_string(n) + " parts");
      records->share.push_back(k);
    }
    return records_value(records);
  }

  // ---- built-ins --------------------------------------------------------------------------------

  Value builtin(const std::string& name, const Value& v, Args& args) {
    if (name == "len") return length(v);
    if (name == "list" || name == "sorted" || name == "tuple" || name == "set")
      return listed(name, v, args);
    if (name == "str") return plain(printed(v));
    if (name == "bool") return plain(v.truth());
    if (name == "int" && is_number(v) && std::abs(real(v)) < 9e15)
      return plain(static_cast<std::int64_t>(std::trunc(real(v))));
    if (name == "float" && is_number(v)) return plain(real(v));
    if ((name == "int" || name == "float") && v.is_text())
      if (const auto number = number_in(v.text(), name == "int")) return plain(*number);
    if (name == "abs" && is_number(v))
      return is_whole(v) ? plain(std::abs(whole(v))) : plain(std::abs(real(v)));
    if (name == "range") return range(args.at(0), args.at(1), args.at(2));
    if (name == "sum" && v.is_list()) {
      const Value* start = args.find("start", 1);
      Value out = start ? *start : plain(0);
      for (const Value& one : v.items) {
        if (!is_number(out) || !is_number(one)) refuse("sum() of other than numbers");
        out = arithmetic("+", out, one);
      }
      return out;
    }
    if (name == "min" || name == "max") return extreme(name == "min", v, args);
    if ((name == "np.array" || name == "numpy.array" || name == "torch.tensor") && v.is_list()) {
      const Value* type = args.find("dtype", name == "torch.tensor" ? Args::by_name : 1);
      if (type && type->text().find("float") == std::string::npos)
        refuse("an array of the type " + type->describe());
      args.passes_over("device");
      return v;
    }
    if (name == "int" || name == "float") refuse(name + "() of " + v.describe());
    refuse("\"" + name + "()\" is not known here");
  }

  Value dictionary(Args& args) {
    const Value* from = args.at(0);
    if (from && !from->is(Sort::dict)) refuse("dict() of " + from->describe());
    Value out = from ? *from : of_kind(Sort::dict);
    for (auto& [key, value] : args.named()) put(out, key, std::move(value));
    return out;
  }

  // A JSON file's list is counted as it is when the graph is made.
  Value length_of_list(const Records& r) const {
    std::ifstream file(r.file);
    const Json all = Json::parse(file, nullptr, /*allow_exceptions=*/false);
    const Json list = r.key.empty() ? all : all.is_object() ? all.value(r.key, Json()) : Json();
    if (!list.is_array())
      refuse("len() of a list that is not there: " + r.file +
             (r.key.empty() ? "" : " has no list \"" + r.key + "\""));
    return plain(list.size());
  }

  Value length(const Value& v) const {
    if (v.is(Sort::records) && !v.records->file.empty() && v.records->from == 0 && !v.records->to &&
        v.records->parts() == 0 && v.records->fold < 0)
      return length_of_list(*v.records);
    if (v.is_text()) return plain(characters(v.text()).size());
    if (v.is_list()) return plain(v.items.size());
    if (v.is(Sort::dict)) return plain(v.entries.size());
    if (v.is(Sort::paths)) return of_kind(Sort::opaque, files_number);  // known when it is read
    if (!v.is(Sort::object)) refuse("len() of " + v.describe());
    Value out = of_kind(Sort::opaque, "a data set's length");  // known when it is read
    out.item = v.item;
    return out;
  }

  Value listed(const std::string& name, const Value& v, Args& args) {
    const Value* reverse = name == "sorted" ? args.find("reverse", Args::by_name) : nullptr;
    const bool falls = reverse && reverse->truth();
    if (v.is(Sort::paths) || v.is(Sort::records)) {
      if (falls) refuse("files from the last to the first");
      return v;
    }
    Value out = v;
    if (v.is(Sort::dict)) {
      out = Value{};
      for (const auto& [key, value] : v.entries) out.items.push_back(plain(key));
    } else if (!v.is_list()) {
      refuse(name + "() of " + v.describe());
    }
    out.kind = name == "tuple" ? Sort::tuple : Sort::list;
    if (name == "set") return distinct(out);
    if (name == "sorted")
      std::stable_sort(out.items.begin(), out.items.end(), [&](const Value& a, const Value& b) {
        return falls ? order(b, a) < 0 : order(a, b) < 0;
      });
    return out;
  }

  Value range(const Value* a, const Value* b, const Value* c) {
    std::int64_t n[3] = {0, 0, 1};
    std::size_t i = 0;
    for (const Value* one : {a, b, c}) {
      if (!one) break;
      if (!is_whole(*one)) refuse("range() of " + one->describe());
      n[i++] = whole(*one);
    }
    if (i == 1) std::swap(n[0], n[1]);
    if (n[2] <= 0 || n[1] - n[0] > 100000) refuse("range() of more than 100000, or backwards");
    Value out = of_kind(Sort::list);
    for (std::int64_t k = n[0]; k < n[1]; k += n[2]) out.items.push_back(plain(k));
    return out;
  }

  Value extreme(bool least, const Value& v, Args& args) {
    const std::vector<Value> list = v.is_list() ? v.items : args.all();
    if (list.empty() || !std::all_of(list.begin(), list.end(), is_number))
      refuse("min() or max() of other than numbers");
    return *(
        least ? std::min_element(list.begin(), list.end(),
                                 [](const Value& a, const Value& b) { return real(a) < real(b); })
              : std::max_element(list.begin(), list.end(),
                                 [](const Value& a, const Value& b) { return real(a) < real(b); }));
  }
};

Json Paths::json() const {
  Json out;
  if (csv.empty()) {
    if (replace.empty() && prefix.empty()) return glob;
    out["glob"] = glob;
  } else {
    out = {{"csv", csv}, {"column", column}};
  }
  if (!prefix.empty()) out["prefix"] = prefix;
  for (const auto& [from, to] : replace) out["replace"].push_back({from, to});
  return out;
}

bool Value::truth() const {
  if (kind == Sort::plain) {
    if (plain.is_boolean()) return plain.get<bool>();
    if (plain.is_number()) return plain.get<double>() != 0;
    if (plain.is_string()) return !plain.get_ref<const std::string&>().empty();
    return false;
  }
  if (is_list()) return !items.empty();
  if (kind == Sort::dict) return !entries.empty();
  return true;
}

std::optional<Json> Value::json() const {
  if (kind == Sort::plain) return plain;
  if (is_list()) {
    Json out = Json::array();
    for (const Value& item : items) {
      auto one = item.json();
      if (!one) return {};
      out.push_back(std::move(*one));
    }
    return out;
  }
  if (kind != Sort::dict) return {};
  Json out = Json::object();
  for (const auto& [key, value] : entries) {
    auto one = value.json();
    if (!one) return {};
    out[key.is_string() ? key.get<std::string>() : key.dump()] = std::move(*one);
  }
  return out;
}

std::string Value::describe() const {
  switch (kind) {
    case Sort::plain:
      return plain.is_null() ? "None" : plain.dump();
    case Sort::list:
      return "a list";
    case Sort::tuple:
      return "a tuple";
    case Sort::dict:
      return "a dictionary";
    case Sort::object:
      return "a component (" + item->target() + ")";
    case Sort::device:
      return "a device";
    case Sort::weights:
      return "a network's parameters";
    case Sort::paths:
      return "a list of files";
    case Sort::records:
      return "a list of samples";
    case Sort::parts:
      return "the parts of a data set";
    case Sort::element:
      return "a file's name";
    case Sort::file:
      return "an open file";
    case Sort::lambda:
      return "a lambda";
    case Sort::effect:
      return "a call";
    case Sort::bound:
      return name + "()";
    case Sort::made:
      return "images that are made";
    case Sort::batch:
      return "a loader's first batch";
    case Sort::answer:
      return "what a network says of a batch";
    case Sort::picture:
      return "a picture";
    case Sort::pairs:
      return "data sets side by side";
    case Sort::opaque:
      return name;
  }
  return "";
}

std::string Values::path(const std::string& text) const {
  const std::filesystem::path path = text;
  return (path.is_absolute() ? path : std::filesystem::absolute(config_.folder() / path))
      .lexically_normal()
      .string();
}

// What "@name" alone names, over as many names as it takes; null where nothing does.
ItemPtr Values::named_by(ItemPtr item) const {
  for (int hops = 0; item && item->text().starts_with('@') && item->text().size() > 1; ++hops) {
    if (hops == 100) return nullptr;  // in a circle, which of_id() refuses
    item = config_.find(absolute_id(item->text().substr(1), item->id, item->at));
  }
  return item;
}

// MONAI's rule: of texts "true" alone, however it is written.
bool Values::is_disabled(const ItemPtr& given) {
  const ItemPtr item = named_by(given);
  const ItemPtr said = item && item->kind == Item::Kind::dict ? item->find("_disabled_") : nullptr;
  if (!said) return false;
  const Value v = of(said);
  const std::string text = v.text();
  const auto begin = text.find_first_not_of(" \t\r\n"), end = text.find_last_not_of(" \t\r\n");
  const bool disabled = v.is_text() ? begin != std::string::npos &&
                                          lower_case(text.substr(begin, end - begin + 1)) == "true"
                                    : v.truth();
  if (disabled) left_out.emplace_back(item, said->is_text() ? said->text() : "true");
  return disabled;
}

Value Values::of(const ItemPtr& item) {
  if (item->kind == Item::Kind::dict && !item->target().empty()) {
    Value v = of_kind(Sort::object);
    v.item = item;
    return v;
  }
  if (item->kind == Item::Kind::list) {
    Value v = of_kind(Sort::list);
    for (const auto& element : item->elements)
      if (!is_disabled(element)) v.items.push_back(of(element));
    return v;
  }
  if (item->kind == Item::Kind::dict) {
    Value v = of_kind(Sort::dict);
    for (const auto& [key, member] : item->members)
      if (!is_disabled(member)) v.entries.emplace_back(key, of(member));
    return v;
  }
  const std::string text = item->text();
  if (text.starts_with('@') && text.size() > 1)
    return of_id(absolute_id(text.substr(1), item->id, item->at), item->at);
  if (!text.starts_with('$')) return plain(item->value);
  const ExprPtr e = parse_expression(text.substr(1), item->id, item->at);
  if (!e) return of_kind(Sort::effect, "none");  // an import
  return Evaluation{*this, *item, {}}.of(*e);
}

namespace {

[[noreturn]] void names_nothing(const std::string& id, const At& at) {
  throw Refused(at, "@" + id + " names nothing: give it with --set " + shell_word(id) +
                        "=VALUE, or name the configuration that has it before this one, with "
                        "--config for each");
}

}  // namespace

Value Values::of_id(const std::string& id, const At& at) {
  if (const auto known = known_.find(id); known != known_.end()) return known->second;
  const ItemPtr item = config_.find(id);
  if (!item) {
    // What an expression or reference on the way stands for.
    const auto cut = id.rfind('#');
    if (cut == std::string::npos) names_nothing(id, at);
    const Value whole = of_id(id.substr(0, cut), at);
    const std::string part = id.substr(cut + 1);
    if (whole.is_list() && !part.empty() && std::isdigit(static_cast<unsigned char>(part[0])))
      if (const auto i = std::stoul(part); i < whole.items.size()) return whole.items[i];
    for (const auto& [key, value] : whole.entries)
      if (key == part) return value;
    if (whole.is(Sort::object) && whole.item->find(part)) return of(whole.item->find(part));
    names_nothing(id, at);
  }
  if (std::find(asking_.begin(), asking_.end(), id) != asking_.end())
    throw Refused(item->at, "@" + id + " refers to itself");
  asking_.push_back(id);
  const auto asked = std::shared_ptr<void>(nullptr, [this](void*) { asking_.pop_back(); });
  Value v = of(item);
  known_[id] = v;
  return v;
}

bool Values::given(const Item& component, std::string_view key) const {
  return component.find(key) != nullptr;
}

Value Values::of(const Item& component, std::string_view key) {
  const ItemPtr item = component.find(key);
  if (!item) return {};
  asked_.insert(item->id);
  return of(item);
}

bool Values::is_true(const Item& component, std::string_view key, bool otherwise) {
  if (!given(component, key)) return otherwise;
  return is_true(component.find(key), of(component, key));
}

bool Values::is_true(const ItemPtr& item, const Value& value) {
  if (value.is_text() && !value.text().empty() && lower_case(value.text()) != "true")
    true_texts.emplace_back(item, value.text());
  return value.truth();
}

}  // namespace sluice::bundle
