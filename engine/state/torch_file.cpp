#include "engine/state/torch_file.h"

#include <ATen/ops/empty.h>

#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <string_view>
#include <tuple>
#include <vector>

#include "engine/base/error.h"
#include "engine/base/message.h"
#include "engine/base/read_file.h"
#include "engine/state/dtype.h"
#include "engine/state/pickle.h"
#include "engine/state/zip_file.h"

namespace sluice {
namespace torch_files {

using Kind = Pickled::Kind;
using Tensors = std::map<std::string, at::Tensor>;

// The pickle of torch.save() before 1.6 holds this number of 10 bytes, behind its protocol and,
// from protocol 4 on, the length of its frame.
constexpr std::string_view magic = "\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19";
constexpr std::size_t longest_start = 32;

static bool is_old(std::string_view start) {
  return start.starts_with('\x80') &&
         start.substr(0, longest_start).find(magic) != std::string_view::npos;
}

// Of the storage's class, or of the tensor where its storage is bytes alone.
static const Dtype* dtype_of(const Pickled& store, const std::string& name = "") {
  return name.empty() ? find_dtype(&Dtype::storage, store.name) : find_dtype(&Dtype::name, name);
}

// What a file holds, and where the bytes of its storages are.
struct Content {
  std::string file;
  std::function<std::string_view(const std::string& key)> storage;

  [[noreturn]] void fail(const std::string& why) const { throw DataError(file + ": " + why); }

  at::Tensor tensor(const std::string& name, const Pickled& t) const {
    const Pickled& store = *t.items.at(0);
    const Dtype* type = dtype_of(store, t.name);
    if (!type)
      fail("\"" + printable(name) +
           "\" is of a type that is not read: " + (t.name.empty() ? store.name : t.name));
    const std::string_view bytes = storage(store.text);
    const auto each = static_cast<std::int64_t>(at::elementSize(type->type));
    const auto there = static_cast<std::int64_t>(bytes.size()) / each;
    if (!t.name.empty()
            ? store.integer != static_cast<std::int64_t>(bytes.size())
            : store.integer != there || there * each != static_cast<std::int64_t>(bytes.size()))
      fail("\"" + printable(name) + "\" has a storage of another length");
    // The last element that it reads.
    std::int64_t last = t.integer, count = 1;
    bool overflow = false;
    for (std::size_t a = 0; a < t.size.size(); ++a) {
      std::int64_t step = 0;
      overflow |= __builtin_mul_overflow(count, t.size[a], &count);
      if (t.size[a] == 0) continue;
      overflow |= __builtin_mul_overflow(t.size[a] - 1, t.stride[a], &step) ||
                  __builtin_add_overflow(last, step, &last);
    }
    if (overflow || (count > 0 && last >= there))
      fail("\"" + printable(name) + "\" reads beyond its storage");
    if (count > there)
      fail("\"" + printable(name) +
           "\" is larger than its storage, whose elements it repeats: save its contiguous()");
    if (count == 0) return at::empty(t.size, type->type);
    const char* data = bytes.data() + t.integer * each;
    // Bytes of an archive may begin anywhere; copied, they are aligned.
    at::Tensor whole = at::empty({last - t.integer + 1}, type->type);
    std::memcpy(whole.mutable_data_ptr(), data,
                static_cast<std::size_t>((last - t.integer + 1) * each));
    return whole.as_strided(t.size, t.stride).contiguous();
  }
};

static std::size_t tensors_in(const Pickled& dict) {
  std::size_t n = 0;
  for (std::size_t i = 1; dict.kind == Kind::dict && i < dict.items.size(); i += 2)
    n += dict.items[i]->kind == Kind::tensor;
  return n;
}

static std::string keys_of(const Pickled& dict) {
  std::string all;
  for (std::size_t i = 0; i + 1 < dict.items.size(); i += 2)
    if (dict.items[i]->kind == Kind::text)
      all += (all.empty() ? "\"" : ", \"") + printable(dict.items[i]->text) + '"';
  return all.empty() ? "none" : all;
}

// Where the tensors are: at `key`, whose parts are names of dictionaries within each other.
static const Pickled& weights_in(const Pickled& root, std::string key, const Content& content,
                                 const std::string& option) {
  const Pickled* at = &root;
  while (!key.empty()) {
    if (const Pickled* whole = at->find(key)) {  // names hold dots too
      at = whole;
      break;
    }
    const auto dot = key.find('.');
    const Pickled* next = at->find(key.substr(0, dot));
    if (!next) content.fail("has no \"" + printable(key) + "\"; there are " + keys_of(*at));
    at = next;
    key = dot == std::string::npos ? "" : key.substr(dot + 1);
  }
  // Beside some of its own a trainer's may hold a dictionary of more, which are the weights.
  const std::size_t own = tensors_in(*at);
  std::vector<std::string> found;
  const Pickled* only = nullptr;
  for (std::size_t i = 0; at->kind == Kind::dict && i + 1 < at->items.size(); i += 2)
    if (at->items[i]->kind == Kind::text && tensors_in(*at->items[i + 1]) > own) {
      found.push_back(at->items[i]->text);
      only = at->items[i + 1];
    }
  if (found.empty() && own > 0) return *at;
  if (found.empty()) content.fail("holds no tensors by name; its keys are " + keys_of(*at));
  if (found.size() == 1 && own == 0) return *only;
  std::string all;
  for (const auto& name : found) all += (all.empty() ? "\"" : ", \"") + printable(name) + '"';
  content.fail("has weights in " + all + ": say which with " + option);
}

static Tensors tensors_of(const Pickled& root, const WantedDictionary& wanted,
                          const Content& content) {
  const Pickled& dict = weights_in(root, wanted.key, content, wanted.option);
  Tensors all;
  // Names of one tensor share it: nnU-Net has up to four of each.
  std::map<std::tuple<std::string, std::int64_t, std::vector<std::int64_t>,
                      std::vector<std::int64_t>, std::string>,
           at::Tensor>
      read;
  for (std::size_t i = 0; i + 1 < dict.items.size(); i += 2) {
    const Pickled &name = *dict.items[i], &value = *dict.items[i + 1];
    if (value.kind != Kind::tensor) continue;
    if (name.kind != Kind::text) content.fail("has a tensor whose name is no text");
    at::Tensor& tensor = read[{value.items.at(0)->text, value.integer, value.size, value.stride,
                               value.name + value.items.at(0)->name}];
    if (!tensor.defined()) tensor = content.tensor(name.text, value);
    if (!all.emplace(name.text, tensor).second)
      content.fail("has \"" + printable(name.text) + "\" twice");
  }
  return all;
}

// What stands in its archive, and its pickle.
struct Archive {
  ZipFile zip;
  std::string folder;
  std::unique_ptr<Pickle> pickle;
};

static Archive open_archive(std::string_view bytes, const std::string& file) {
  Archive a{ZipFile(bytes, file), "", nullptr};
  const ZipFile& zip = a.zip;
  std::string& folder = a.folder;
  for (const auto& [name, entry] : zip.entries()) {
    if (name.ends_with("/data.pkl") && name.find('/') == name.size() - 9)
      folder = name.substr(0, name.size() - 8);
    if (name.find("/code/") != std::string::npos)
      throw DataError(file +
                      ": is a TorchScript module, not a state_dict: save that with "
                      "torch.save(net.state_dict(), FILE)");
  }
  if (folder.empty()) throw DataError(file + ": is a zip archive, but none of torch.save()");
  if (zip.has(folder + "byteorder") && zip.read(folder + "byteorder") != "little")
    throw DataError(file + ": was written on a machine of another byte order");
  a.pickle = std::make_unique<Pickle>(zip.read(folder + "data.pkl"), file);
  return a;
}

static Tensors from_archive(std::string_view bytes, const std::string& file,
                            const WantedDictionary& wanted) {
  const Archive a = open_archive(bytes, file);
  return tensors_of(a.pickle->root(), wanted, {file, [&](const std::string& name) {
                                                 return a.zip.read(a.folder + "data/" + name);
                                               }});
}

// Of a NumPy array's pickle: what its bytes are, "i8", and its shape; null where they are no
// numbers of this processor's, row by row.
struct PickledArray {
  std::string type, bytes;
  std::vector<std::int64_t> shape;

  static std::optional<PickledArray> of(const Pickled& p) {
    if (!p.name.ends_with("multiarray._reconstruct") || p.items.size() < 4) return {};
    const Pickled& state = *p.items.back();  // version, shape, type, by columns, bytes
    if (state.kind != Kind::list || state.items.size() != 5) return {};
    const Pickled &type = *state.items[2], &columns = *state.items[3], *data = state.items[4];
    if (type.name != "numpy.dtype" || type.items.empty()) return {};
    const Pickled& order = *type.items.back();  // version, "<", ...
    if (order.items.size() < 2 || order.items[1]->text == ">" || columns.integer != 0) return {};
    PickledArray out{type.items[0]->text, {}, {}};
    for (const Pickled* n : state.items[1]->items) out.shape.push_back(n->integer);
    if (data->name == "_codecs.encode" && !data->items.empty()) {  // Latin-1, written as UTF-8
      const std::string& text = data->items[0]->text;
      for (std::size_t i = 0; i < text.size(); ++i) {
        const auto c = static_cast<unsigned char>(text[i]);
        const bool two = c >= 0xc2 && c <= 0xc3 && i + 1 < text.size();
        out.bytes += two ? static_cast<char>((c & 3) << 6 | (text[i + 1] & 63)) : text[i];
        i += two ? 1 : 0;
      }
    } else {
      out.bytes = data->text;
    }
    return out;
  }
  template <class T>
  Json number(std::size_t i) const {
    T value;
    std::memcpy(&value, bytes.data() + i * sizeof(T), sizeof(T));
    return value;
  }
  Json number(std::size_t i) const {
    if (type == "i8") return number<std::int64_t>(i);
    if (type == "i4") return number<std::int32_t>(i);
    if (type == "i2") return number<std::int16_t>(i);
    if (type == "i1") return number<std::int8_t>(i);
    if (type == "u1" || type == "b1") return number<std::uint8_t>(i);
    if (type == "f4") return number<float>(i);
    if (type == "f8") return number<double>(i);
    return nullptr;
  }
};

// A pickle's values may hold each other, so that a short one would be endless text.
struct PlainValues {
  const std::string& file;
  std::size_t left = 1 << 20;

  // The rows of an array from `at` on.
  Json rows(const PickledArray& array, std::size_t axis, std::size_t& at) {
    if (left-- == 0) throw DataError(file + ": has values without end");
    if (axis == array.shape.size()) return array.number(at++);
    Json all = Json::array();
    for (std::int64_t i = 0; i < array.shape[axis]; ++i) all.push_back(rows(array, axis + 1, at));
    return all;
  }
  Json of_array(const Pickled& p) {
    const auto array = PickledArray::of(p);
    if (!array || array->type.size() != 2 || array->shape.size() > 8) return nullptr;
    double count = 1;
    for (const auto n : array->shape) count *= static_cast<double>(n);
    const auto width = static_cast<double>(array->type[1] - '0');
    if (count * width != static_cast<double>(array->bytes.size())) return nullptr;
    std::size_t at = 0;
    return rows(*array, 0, at);
  }

  Json of(const Pickled& p, int depth = 0) {
    if (left-- == 0 || depth > 64) throw DataError(file + ": has values without end");
    switch (p.kind) {
      case Kind::boolean:
        return p.integer != 0;
      case Kind::integer:
        return p.integer;
      case Kind::real:
        return p.real;
      case Kind::text:
        return p.text;
      case Kind::list: {
        Json all = Json::array();
        for (const Pickled* item : p.items) all.push_back(of(*item, depth + 1));
        return all;
      }
      case Kind::dict: {
        Json all = Json::object();
        for (std::size_t i = 0; i + 1 < p.items.size(); i += 2)
          if (p.items[i]->kind == Kind::text)
            all[p.items[i]->text] = of(*p.items[i + 1], depth + 1);
        return all;
      }
      case Kind::other:
        return of_array(p);
      default:
        return nullptr;
    }
  }
};

static std::int64_t old_count(std::string_view bytes) {
  std::int64_t n = 0;
  if (bytes.size() >= 8) std::memcpy(&n, bytes.data(), 8);
  return n;
}

// Four pickles and the keys of the storages, whose bytes follow, each with its length before it.
static Tensors from_pickles(std::string_view bytes, const std::string& file,
                            const WantedDictionary& wanted) {
  const auto next = [&] {
    Pickle p(bytes, file);
    bytes.remove_prefix(p.bytes());
    return p;
  };
  const auto number = next(), protocol = next(), system = next(), content = next(), keys = next();
  const Pickled* little = system.root().find("little_endian");
  if (number.root().text != magic || protocol.root().integer != 1001 || !little ||
      keys.root().kind != Kind::list)
    throw DataError(file + ": begins as torch.save()'s files do, but goes on otherwise");
  if (little->integer != 1)
    throw DataError(file + ": was written on a machine of another byte order");
  // How wide elements are stands with the tensors alone.
  std::map<std::string, std::int64_t> widths;
  for (const Pickled& p : content.all())
    if (p.kind == Kind::store)
      if (const Dtype* type = dtype_of(p))
        widths[p.text] = static_cast<std::int64_t>(at::elementSize(type->type));
  std::map<std::string, std::string_view> storages;
  for (const Pickled* name : keys.root().items) {
    const std::int64_t count = old_count(bytes), width = widths[name->text];
    if (name->kind != Kind::text || width == 0 || count < 0 || bytes.size() < 8 ||
        count > (static_cast<std::int64_t>(bytes.size()) - 8) / width)
      throw DataError(file + ": is cut short, or damaged");
    storages[name->text] = bytes.substr(8, static_cast<std::size_t>(count * width));
    bytes.remove_prefix(static_cast<std::size_t>(8 + count * width));
  }
  if (!bytes.empty()) throw DataError(file + ": has more bytes than its tensors");
  return tensors_of(content.root(), wanted, {file, [&](const std::string& name) {
                                               const auto at = storages.find(name);
                                               if (at == storages.end())
                                                 throw DataError(file + ": lacks a storage");
                                               return at->second;
                                             }});
}

}  // namespace torch_files

bool is_torch_file(const std::filesystem::path& file) {
  const std::string start = read_text(file, torch_files::longest_start);
  return is_zip(start) || torch_files::is_old(start);
}

std::map<std::string, at::Tensor> read_torch_file(const std::filesystem::path& file,
                                                  const WantedDictionary& wanted) {
  const std::string bytes = read_text(file);
  return is_zip(bytes) ? torch_files::from_archive(bytes, file.string(), wanted)
                       : torch_files::from_pickles(bytes, file.string(), wanted);
}

Json read_torch_values(const std::filesystem::path& file) {
  const std::string bytes = read_text(file), name = file.string();
  if (!is_zip(bytes)) throw DataError(name + ": is no archive of torch.save()");
  return torch_files::PlainValues{name}.of(torch_files::open_archive(bytes, name).pickle->root());
}

}  // namespace sluice
