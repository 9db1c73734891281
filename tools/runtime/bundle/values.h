// What a bundle's items mean: numbers, texts, lists, components, lists of files.
//
// Invariant: nothing of a bundle is executed: an expression is worked out by a closed set of forms
// (vocabulary: values, fixed meanings, lists of data, weights), and any other is refused with its
// place and a word on what to write. Lists of files stay what they say (a pattern, a column, a
// file's key); no folder is listed here.
#pragma once

#include <map>
#include <optional>
#include <set>

#include "tools/runtime/bundle/expression.h"
#include "tools/runtime/bundle/table.h"

namespace sluice::bundle {

// Names of files in their order: a glob, or a column of a CSV file. Written as the node `paths`
// takes it.
struct Paths {
  std::string glob, csv, column, prefix;
  std::vector<std::pair<std::string, std::string>> replace;
  Json json() const;  // as an entry of the node's "lists"
};

// A list of samples: several Paths side by side, or a list in a JSON file.
struct Records {
  std::vector<std::pair<std::string, Paths>> fields;
  std::vector<std::string> points;  // fields whose files hold points
  std::string file, key, base;      // the JSON file's
  bool is_decathlon = false;
  ItemPtr rows;  // or the data set of an .npz file's rows
  std::int64_t from = 0;
  std::optional<std::int64_t> to;
  std::int64_t fold = -1;  // datafold_read's
  std::string split = "training";
  std::vector<double> shares;       // partition_dataset's ratios
  std::int64_t num_partitions = 0;  // or its number
  std::vector<std::int64_t> share;  // which of these are meant
  std::int64_t seed = 0;
  bool shuffles = false;
  std::int64_t parts() const { return shares.empty() ? num_partitions : std::ssize(shares); }
};

struct Value {
  enum class Kind : std::uint8_t {
    plain,  // json: null, bool, number, text
    list,
    tuple,
    dict,    // entries
    object,  // item: a component that is not made here; name: "normal_init" where it begins so
    device,
    weights,  // item: the network whose parameters these are
    paths,    // items[0...]: what zip() gave; else list
    records,  // name: a field of them, or "" for all
    parts,
    element,  // of `paths`, within a comprehension
    file,     // name: one that is opened
    lambda,   // expr
    effect,   // name: run, seed, cudnn_benchmark, load, timesteps, weights, copy_model_state,
              // append, save, none; plain: its value; item: of whom; items: what it is given. A
              // detector's set_...: entries: its arguments
    bound,    // name: a method that is not called yet; item: of whom
    made,     // images that a sampler makes: item, and what it was given in `entries`; plain: how
              // many axes were left out in front
    batch,    // a loader's first batch: item; name: the field of it, "" until one is asked for;
              // plain as above
    answer,   // what a network says of it: item, items[0]; name: "outputs" where none is chosen
              // yet; plain as above
    picture,  // items[0] of these as gray levels
    pairs,    // items: data sets side by side; expr: what map() makes of a sample of each
    opaque,   // name: what it is; means something at one place only; entries: partial()'s
  } kind = Kind::plain;
  Json plain;
  std::vector<Value> items;
  std::vector<std::pair<Json, Value>> entries;
  ItemPtr item;
  std::string name;
  Paths paths;
  std::shared_ptr<const Records> records;
  ExprPtr expr;

  bool is(Kind k) const { return kind == k; }
  // Images, of which the first may be asked for.
  bool are_images() const {
    return kind == Kind::made || kind == Kind::batch || kind == Kind::answer;
  }
  bool is_list() const { return kind == Kind::list || kind == Kind::tuple; }
  bool is_text() const { return kind == Kind::plain && plain.is_string(); }
  std::string text() const { return is_text() ? plain.get<std::string>() : ""; }
  bool truth() const;
  // Numbers, texts, lists and dictionaries of these; nothing where there is anything else in it.
  std::optional<Json> json() const;
  std::string describe() const;  // "a list of files", for messages
};

// The name of what len(FILES) // N says: how many batches of N (plain) a list of files fills.
inline constexpr const char* whole_batches = "the number of a list's whole batches";

// A class or function of the bundle's own scripts, by its name, where its script's text is one that
// is known.
const ScriptRow* known_script(const std::filesystem::path& bundle, const std::string& name);

class Values {
 public:
  explicit Values(const Config& config) : config_(config) {}

  // What an item means. Components are not made: their parameters are asked for one by one.
  Value of(const ItemPtr& item);
  Value of_id(const std::string& id, const At& at);
  // A parameter of a component; plain null and false where it is not given.
  bool given(const Item& component, std::string_view key) const;
  Value of(const Item& component, std::string_view key);
  // Whether a parameter was asked for: what nobody asks for is reported.
  bool is_asked(const Item& parameter) const { return asked_.contains(parameter.id); }
  // A parameter that is true or false. Of texts all but the empty one are true, "false" too.
  bool is_true(const Item& component, std::string_view key, bool otherwise = false);
  bool is_true(const ItemPtr& item, const Value& value);
  // Whether an entry of a list or dictionary, or the component that "@name" names, is left out.
  bool is_disabled(const ItemPtr& given);

  // A path of the bundle, absolute: relative ones stand under its folder.
  std::string path(const std::string& text) const;
  // Ids that were asked for.
  const std::map<std::string, Value>& known() const { return known_; }
  // Items that conditions left out, with what they said.
  std::vector<std::pair<ItemPtr, std::string>> left_out;
  // Texts that were taken for true, other than "true".
  std::vector<std::pair<ItemPtr, std::string>> true_texts;

 private:
  const Config& config_;
  std::map<std::string, Value> known_;
  std::set<std::string> asked_;      // ids of components' parameters
  std::vector<std::string> asking_;  // ids that are being worked out
  ItemPtr named_by(ItemPtr item) const;
  friend struct Evaluation;
};

}  // namespace sluice::bundle
