// The pickles that hold PyTorch's weights, read without doing what they ask for: dictionaries,
// lists, numbers, text, and tensors by their storage. What a pickle would call is looked up in a
// short list and never called; any other name is refused.
//
// Invariant: memory is bounded by the pickle's length, and no byte is read beyond its end.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

namespace sluice {

struct Pickled {
  enum class Kind {
    none,
    boolean,
    integer,
    real,
    text,   // and bytes
    list,   // and tuples, sets
    dict,   // items: key, value, key, value, ...
    name,   // of a class or function: "torch.FloatStorage"
    store,  // text: its key; name: "FloatStorage"; integer: how many elements
    tensor,
    other,  // a harmless object of another program's; name: its class, or the function that makes
            // it; items: the arguments, then the states that it is given
  };
  Kind kind = Kind::none;
  std::int64_t integer = 0;  // a tensor's: the place of its first element in the storage
  double real = 0;
  std::string text;
  std::string name;
  std::vector<const Pickled*> items;  // a tensor's: its storage
  std::vector<std::int64_t> size, stride;

  // The value of a key of a dict, or null.
  const Pickled* find(std::string_view key) const;
};

class Pickle {
 public:
  // Reads one pickle from the front of `bytes`. `what` begins messages, as "net.pt". Throws
  // DataError.
  Pickle(std::string_view bytes, std::string what);
  const Pickled& root() const { return *root_; }
  std::size_t bytes() const { return at_; }  // that it took
  const std::deque<Pickled>& all() const { return all_; }

 private:
  class Machine;
  std::deque<Pickled> all_;
  const Pickled* root_ = nullptr;
  std::size_t at_ = 0;
};

}  // namespace sluice
