#include "engine/state/pickle.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <utility>

#include "engine/base/error.h"
#include "engine/base/message.h"
#include "engine/state/dtype.h"

namespace sluice {
namespace pickles {

// Of other programs' objects, those that hold numbers, text and settings alone.
static bool is_harmless(const std::string& name) {
  static const std::vector<std::string> all{
      "_codecs.encode",
      "argparse.Namespace",
      "builtins.set",
      "builtins.frozenset",
      "builtins.complex",
      "builtins.bytearray",
      "collections.Counter",
      "collections.defaultdict",
      "lightning_fabric.utilities.data.AttributeDict",
      "lightning.fabric.utilities.data.AttributeDict",
      "numpy.core.multiarray._reconstruct",
      "numpy.core.multiarray.scalar",
      "numpy._core.multiarray._reconstruct",
      "numpy._core.multiarray.scalar",
      "numpy.dtype",
      "numpy.ndarray",
      "pathlib.Path",
      "pathlib.PosixPath",
      "pathlib.WindowsPath",
      "pathlib.PurePosixPath",
      "pytorch_lightning.utilities.parsing.AttributeDict",
      "torch.device",
      "torch.torch_version.TorchVersion",
  };
  return std::find(all.begin(), all.end(), name) != all.end() ||
         (name.starts_with("numpy.dtypes.") && name.ends_with("DType"));
}

static bool is_storage(const std::string& name) {
  return (name.starts_with("torch.") && name.ends_with("Storage")) ||
         name == "torch.storage.UntypedStorage";
}

// Types of numbers, as "torch.float32"; also those that no tensor is read of, to name them.
static bool is_dtype(const std::string& name) {
  if (!name.starts_with("torch.")) return false;
  const std::string type = name.substr(6);
  for (const char* unread : {"uint", "float8_", "float4_", "complex", "bits", "quint", "qint"})
    if (type.starts_with(unread)) return true;
  return find_dtype(&Dtype::name, type);
}

static bool is_dict(const std::string& name) {
  return name == "collections.OrderedDict" || name == "builtins.dict";
}

static bool makes_tensor(const std::string& name) {
  return name == "torch._utils._rebuild_tensor" || name == "torch._utils._rebuild_tensor_v2" ||
         name == "torch._utils._rebuild_tensor_v3";
}
static bool wraps_tensor(const std::string& name) {
  return name == "torch._utils._rebuild_parameter" ||
         name == "torch._utils._rebuild_parameter_with_state";
}

static bool is_known(const std::string& name) {
  return is_storage(name) || is_dtype(name) || is_dict(name) || makes_tensor(name) ||
         wraps_tensor(name) || name == "torch.Size" || is_harmless(name);
}

}  // namespace pickles

const Pickled* Pickled::find(std::string_view key) const {
  if (kind != Kind::dict) return nullptr;
  for (std::size_t i = 0; i + 1 < items.size(); i += 2)
    if (items[i]->kind == Kind::text && items[i]->text == key) return items[i + 1];
  return nullptr;
}

class Pickle::Machine {
 public:
  Machine(Pickle& pickle, std::string_view bytes, std::string what)
      : all_(pickle.all_), bytes_(bytes), what_(std::move(what)) {}

  const Pickled* run() {
    while (true) {
      const auto op = static_cast<unsigned char>(number(1));
      if (op == STOP) return pop();
      step(op);
    }
  }
  std::size_t at() const { return at_; }

 private:
  using Kind = Pickled::Kind;
  using Ptr = Pickled*;

  // Pickle's operations, protocols 0 to 5, by Python's names (pickletools). Those of protocol 0
  // that hold numbers as text are not written by PyTorch.
  enum Op : unsigned char {
    MARK = '(',
    STOP = '.',
    POP = '0',
    POP_MARK = '1',
    DUP = '2',
    BININT = 'J',
    BININT1 = 'K',
    BININT2 = 'M',
    NONE = 'N',
    BINPERSID = 'Q',
    REDUCE = 'R',
    BINSTRING = 'T',
    SHORT_BINSTRING = 'U',
    BINUNICODE = 'X',
    APPEND = 'a',
    BUILD = 'b',
    GLOBAL = 'c',
    DICT = 'd',
    EMPTY_DICT = '}',
    APPENDS = 'e',
    BINGET = 'h',
    LONG_BINGET = 'j',
    LIST = 'l',
    EMPTY_LIST = ']',
    BINPUT = 'q',
    LONG_BINPUT = 'r',
    SETITEM = 's',
    TUPLE = 't',
    EMPTY_TUPLE = ')',
    SETITEMS = 'u',
    BINFLOAT = 'G',
    BINBYTES = 'B',
    SHORT_BINBYTES = 'C',
    PROTO = 0x80,
    NEWOBJ,
    EXT1,
    EXT2,
    EXT4,
    TUPLE1,
    TUPLE2,
    TUPLE3,
    NEWTRUE,
    NEWFALSE,
    LONG1,
    LONG4,
    SHORT_BINUNICODE = 0x8c,
    BINUNICODE8,
    BINBYTES8,
    EMPTY_SET,
    ADDITEMS,
    FROZENSET,
    NEWOBJ_EX,
    STACK_GLOBAL,
    MEMOIZE,
    FRAME,
  };

  [[noreturn]] void fail(const std::string& why) const { throw DataError(what_ + ": " + why); }

  // ---- bytes ----

  std::string_view take(std::uint64_t n) {
    if (n > bytes_.size() - at_) fail("ends in the middle of a value");
    at_ += n;
    return bytes_.substr(at_ - n, n);
  }
  std::uint64_t number(std::size_t width) {
    const std::string_view b = take(width);
    std::uint64_t n = 0;
    for (std::size_t i = width; i-- > 0;) n = n << 8 | static_cast<unsigned char>(b[i]);
    return n;
  }
  std::string line() {
    const auto end = bytes_.find('\n', at_);
    if (end == std::string_view::npos) fail("ends in the middle of a name");
    const std::string text(take(end - at_));
    ++at_;
    return text;
  }

  // ---- the stack ----

  Ptr make(Kind kind) {
    all_.emplace_back().kind = kind;
    return &all_.back();
  }
  void push(Ptr p) { stack_.push_back(p); }
  void push_text(std::string_view text) {
    push(make(Kind::text));
    stack_.back()->text = text;
  }
  void push_integer(std::int64_t n) {
    push(make(Kind::integer));
    stack_.back()->integer = n;
  }
  std::size_t floor() const { return marks_.empty() ? 0 : marks_.back(); }
  Ptr pop() {
    if (stack_.size() <= floor()) fail("takes a value that is not there");
    const Ptr p = stack_.back();
    stack_.pop_back();
    return p;
  }
  Ptr top() {
    push(pop());
    return stack_.back();
  }
  // What stands above the last mark.
  std::vector<const Pickled*> since_mark() {
    if (marks_.empty()) fail("ends a list that it did not begin");
    std::vector<const Pickled*> items(stack_.begin() + static_cast<std::ptrdiff_t>(marks_.back()),
                                      stack_.end());
    stack_.resize(marks_.back());
    marks_.pop_back();
    return items;
  }
  void push_items(Kind kind, std::vector<const Pickled*> items) {
    if (kind == Kind::dict && items.size() % 2 != 0) fail("a key has no value");
    push(make(kind));
    stack_.back()->items = std::move(items);
  }
  void push_last(std::size_t n) {
    std::vector<const Pickled*> items(n);
    while (n-- > 0) items[n] = pop();
    push_items(Kind::list, std::move(items));
  }
  void append(const std::vector<const Pickled*>& items, Kind to) {
    const Ptr list = top();
    if (list->kind == Kind::other) return;  // its content is not wanted
    if (list->kind != to) fail("adds to what is no list or dictionary");
    if (to == Kind::dict && items.size() % 2 != 0) fail("a key has no value");
    list->items.insert(list->items.end(), items.begin(), items.end());
  }
  void keep(std::uint64_t number) { memo_[number] = top(); }
  void get(std::uint64_t number) {
    const auto found = memo_.find(number);
    if (found == memo_.end()) fail("uses a value that it did not keep");
    push(found->second);
  }

  // ---- names and calls ----

  void push_name(const std::string& module, const std::string& name) {
    std::string full = (module == "__builtin__" ? "builtins" : module) + "." + name;
    if (!pickles::is_known(full))
      fail("asks for \"" + printable(full) +
           "\", which no file of weights needs; nothing of it was run. Save the state_dict alone: "
           "torch.save(net.state_dict(), FILE)");
    push(make(Kind::name));
    stack_.back()->text = std::move(full);
  }
  const std::vector<const Pickled*>& arguments(const Pickled& of) const {
    if (of.kind != Kind::list) fail("calls without a list of arguments");
    return of.items;
  }

  // "storage", its type, its key, where it was, how many elements[, a view of another].
  void push_store(const Pickled& id) {
    const auto& a = arguments(id);
    if (a.size() < 5 || a[0]->text != "storage" || a[1]->kind != Kind::name ||
        !pickles::is_storage(a[1]->text) || a[2]->kind != Kind::text ||
        a[4]->kind != Kind::integer || a[4]->integer < 0)
      fail("has a storage that is none");
    if (a.size() > 5 && a[5]->kind != Kind::none) fail("has a storage that is a view of another");
    push(make(Kind::store));
    const Ptr s = stack_.back();
    s->name = a[1]->text.substr(a[1]->text.rfind('.') + 1);
    s->text = a[2]->text;
    s->integer = a[4]->integer;
  }

  std::vector<std::int64_t> numbers(const Pickled& list) const {
    std::vector<std::int64_t> all;
    if (list.kind != Kind::list || list.items.size() > 64) fail("has a tensor of an odd shape");
    for (const Pickled* n : list.items) {
      if (n->kind != Kind::integer || n->integer < 0) fail("has a tensor of an odd shape");
      all.push_back(n->integer);
    }
    return all;
  }

  // storage, first element, size, stride[, requires_grad, hooks[, type of an untyped storage][,
  // {"neg": True} where the elements are those of the storage times -1]]
  void push_tensor(const std::vector<const Pickled*>& a) {
    if (a.size() < 4 || a[0]->kind != Kind::store || a[1]->kind != Kind::integer ||
        a[1]->integer < 0)
      fail("has a tensor without a storage");
    const auto size = numbers(*a[2]), stride = numbers(*a[3]);
    if (size.size() != stride.size()) fail("has a tensor of an odd shape");
    if (a.size() > 6 && a.back()->find("neg"))
      fail("has a tensor that is a negated view: save its resolve_neg()");
    push(make(Kind::tensor));
    const Ptr t = stack_.back();
    t->items = {a[0]};
    t->integer = a[1]->integer;
    t->size = size;
    t->stride = stride;
    if (a.size() > 6 && a[6]->kind == Kind::name && pickles::is_dtype(a[6]->text))
      t->name = a[6]->text.substr(6);
  }

  void call(const Pickled& what, const Pickled& with) {
    if (what.kind == Kind::other) return push(make(Kind::other));
    if (what.kind != Kind::name) fail("calls what is no function");
    const auto& a = arguments(with);
    const std::string& name = what.text;
    if (pickles::makes_tensor(name)) return push_tensor(a);
    if (pickles::wraps_tensor(name)) {
      if (a.empty() || a[0]->kind != Kind::tensor) fail("has a parameter without a tensor");
      return push(const_cast<Ptr>(a[0]));
    }
    if (name == "torch.Size") {
      if (a.size() != 1 || a[0]->kind != Kind::list) fail("has an odd size");
      return push(const_cast<Ptr>(a[0]));
    }
    if (!pickles::is_dict(name)) {
      push_items(Kind::other, a);
      stack_.back()->name = name;
      return;
    }
    push(make(Kind::dict));
    if (a.empty()) return;
    if (a[0]->kind != Kind::list) fail("has an odd dictionary");
    for (const Pickled* pair : a[0]->items) {
      if (pair->kind != Kind::list || pair->items.size() != 2) fail("has an odd dictionary");
      append(pair->items, Kind::dict);
    }
  }

  // ---- operations ----

  void push_long(std::uint64_t n) {
    const std::string_view b = take(n);
    if (n > 8) return push_text(b);  // a number of more than 64 bits: its bytes
    std::uint64_t value = n > 0 && (b.back() & 0x80) ? ~std::uint64_t{0} : 0;
    for (std::size_t i = n; i-- > 0;) value = value << 8 | static_cast<unsigned char>(b[i]);
    push_integer(static_cast<std::int64_t>(value));
  }
  void push_real() {
    std::uint64_t bits = 0;
    for (const char b : take(8)) bits = bits << 8 | static_cast<unsigned char>(b);
    push(make(Kind::real));
    std::memcpy(&stack_.back()->real, &bits, sizeof bits);
  }
  void push_bool(bool value) {
    push(make(Kind::boolean));
    stack_.back()->integer = value;
  }

  void step(unsigned char op) {
    switch (op) {
      case PROTO:
        return void(take(1));
      case FRAME:
        return void(take(8));
      case MARK:
        return marks_.push_back(stack_.size());
      case POP:
        if (stack_.size() > floor() || marks_.empty()) return void(pop());
        return marks_.pop_back();
      case POP_MARK:
        return void(since_mark());
      case DUP:
        return push(top());
      case NONE:
        return push(make(Kind::none));
      case NEWTRUE:
        return push_bool(true);
      case NEWFALSE:
        return push_bool(false);
      case BININT:
        return push_integer(static_cast<std::int32_t>(number(4)));
      case BININT1:
        return push_integer(static_cast<std::int64_t>(number(1)));
      case BININT2:
        return push_integer(static_cast<std::int64_t>(number(2)));
      case LONG1:
        return push_long(number(1));
      case LONG4:
        return push_long(number(4));
      case BINFLOAT:
        return push_real();
      case SHORT_BINSTRING:
      case SHORT_BINBYTES:
      case SHORT_BINUNICODE:
        return push_text(take(number(1)));
      case BINSTRING:
      case BINBYTES:
      case BINUNICODE:
        return push_text(take(number(4)));
      case BINUNICODE8:
      case BINBYTES8:
        return push_text(take(number(8)));
      case EMPTY_LIST:
      case EMPTY_TUPLE:
      case EMPTY_SET:
        return push_items(Kind::list, {});
      case EMPTY_DICT:
        return push_items(Kind::dict, {});
      case LIST:
      case TUPLE:
      case FROZENSET:
        return push_items(Kind::list, since_mark());
      case DICT:
        return push_items(Kind::dict, since_mark());
      case TUPLE1:
        return push_last(1);
      case TUPLE2:
        return push_last(2);
      case TUPLE3:
        return push_last(3);
      case APPEND:
        return append({pop()}, Kind::list);
      case APPENDS:
      case ADDITEMS:
        return append(since_mark(), Kind::list);
      case SETITEM: {
        const Pickled *value = pop(), *key = pop();
        return append({key, value}, Kind::dict);
      }
      case SETITEMS:
        return append(since_mark(), Kind::dict);
      case BINGET:
        return get(number(1));
      case LONG_BINGET:
        return get(number(4));
      case BINPUT:
        return keep(number(1));
      case LONG_BINPUT:
        return keep(number(4));
      case MEMOIZE:
        return keep(memo_.size());
      case GLOBAL: {
        const std::string module = line();
        return push_name(module, line());
      }
      case STACK_GLOBAL: {
        const std::string name = pop()->text, module = pop()->text;
        return push_name(module, name);
      }
      case REDUCE:
      case NEWOBJ: {
        const Pickled *with = pop(), *what = pop();
        return call(*what, *with);
      }
      case NEWOBJ_EX: {
        pop();
        const Pickled *with = pop(), *what = pop();
        return call(*what, *with);
      }
      case BUILD: {  // an object's attributes beside its content
        const Pickled* state = pop();
        if (const Ptr object = top(); object->kind == Kind::other) object->items.push_back(state);
        return;
      }
      case BINPERSID:
        return push_store(*pop());
      default:
        fail("byte " + std::to_string(at_ - 1) + ": is no pickle, or one of another kind");
    }
  }

  std::deque<Pickled>& all_;
  std::string_view bytes_;
  std::string what_;
  std::size_t at_ = 0;
  std::vector<Ptr> stack_;
  std::vector<std::size_t> marks_;
  std::map<std::uint64_t, Ptr> memo_;
};

Pickle::Pickle(std::string_view bytes, std::string what) {
  Machine machine(*this, bytes, std::move(what));
  root_ = machine.run();
  at_ = machine.at();
}

}  // namespace sluice
