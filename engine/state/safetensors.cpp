#include "engine/state/safetensors.h"

#include <ATen/ops/empty.h>

#include <set>
#include <utility>
#include <vector>

#include "engine/base/message.h"
#include "engine/base/utf8.h"
#include "engine/state/checkpoint.h"
#include "engine/state/dtype.h"

namespace sluice {
namespace {

constexpr std::uint64_t largest_header = 100'000'000;
constexpr int deepest_header = 3;  // the whole, an entry, its list

std::string dtype_name(const std::string& tensor, at::ScalarType type) {
  if (const Dtype* d = find_dtype(type)) return std::string(d->safetensors);
  throw DataError("tensor \"" + tensor + "\": safetensors has no type for " + at::toString(type));
}

// ---- reading: the header is believed only where every number fits every other -------------------

struct Entry {
  std::string name;
  at::ScalarType dtype;
  std::vector<std::int64_t> shape;
  std::uint64_t begin, end;
};

// nlohmann's parser keeps the last of two equal names and takes any depth; neither is let through.
Json parse_header(const std::string& text, const std::string& file) {
  std::vector<std::set<std::string>> names;
  const auto check = [&](int depth, Json::parse_event_t event, Json& value) {
    if (depth > deepest_header) throw DataError(file + ": its header is nested too deeply");
    if (event == Json::parse_event_t::object_start) names.emplace_back();
    if (event == Json::parse_event_t::object_end) names.pop_back();
    if (event == Json::parse_event_t::key && !names.back().insert(value.get<std::string>()).second)
      throw DataError(file + ": its header has " + value.dump() + " twice");
    return true;
  };
  try {
    Json header = Json::parse(text, check);
    if (!header.is_object() || text.front() != '{')
      throw DataError(file + ": its header is not a JSON object");
    return header;
  } catch (const Json::exception& e) {
    throw DataError(file + ": its header is not JSON: " + e.what());
  }
}

std::uint64_t natural(const Json& value) {
  if (!value.is_number_unsigned())
    throw DataError("expected a whole number, found " + value.dump());
  return value.get<std::uint64_t>();
}

// Bytes of a tensor; axes of extent 0 do not hide an overflow of the others.
std::uint64_t bytes_of(const Entry& e) {
  std::uint64_t bytes = at::elementSize(e.dtype);
  bool empty = false;
  for (std::int64_t extent : e.shape) {
    empty = empty || extent == 0;
    if (extent != 0 && (__builtin_mul_overflow(bytes, static_cast<std::uint64_t>(extent), &bytes) ||
                        bytes > static_cast<std::uint64_t>(INT64_MAX)))
      throw DataError("the shape is too large");
  }
  return empty ? 0 : bytes;
}

Entry parse_entry(const std::string& name, const Json& j) {
  if (!j.is_object() || j.size() != 3 || !j.contains("dtype") || !j.contains("shape") ||
      !j.contains("data_offsets"))
    throw DataError("expected exactly dtype, shape and data_offsets");
  Entry e;
  e.name = name;
  const Dtype* known = j["dtype"].is_string() ? find_dtype(&Dtype::safetensors,
                                                           j["dtype"].get_ref<const std::string&>())
                                              : nullptr;
  if (!known) throw DataError("unknown dtype " + j["dtype"].dump());
  e.dtype = known->type;
  if (!j["shape"].is_array() || j["shape"].size() > 64) throw DataError("bad shape");
  for (const Json& extent : j["shape"]) {
    const std::uint64_t n = natural(extent);
    if (n > static_cast<std::uint64_t>(INT64_MAX)) throw DataError("the shape is too large");
    e.shape.push_back(static_cast<std::int64_t>(n));
  }
  if (!j["data_offsets"].is_array() || j["data_offsets"].size() != 2)
    throw DataError("bad data_offsets");
  e.begin = natural(j["data_offsets"][0]);
  e.end = natural(j["data_offsets"][1]);
  if (e.begin > e.end || e.end - e.begin != bytes_of(e))
    throw DataError("data_offsets do not fit dtype and shape");
  return e;
}

// In the order of their bytes: one after the other, without a hole, up to the file's end.
std::vector<Entry> parse_entries(const Json& header, std::uint64_t data_bytes,
                                 const std::string& file) {
  std::vector<Entry> entries;
  for (const auto& [name, j] : header.items()) {
    if (name == "__metadata__") continue;
    try {
      entries.push_back(parse_entry(name, j));
    } catch (const DataError& e) {
      throw DataError(file + ": tensor \"" + name + "\": " + e.what());
    }
  }
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
    return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
  });
  std::uint64_t at = 0;
  for (const Entry& e : entries) {
    if (e.begin != at)
      throw DataError(file + ": tensor \"" + e.name + "\" overlaps another or leaves a hole");
    at = e.end;
  }
  if (at != data_bytes)
    throw DataError(file + " holds " + std::to_string(data_bytes) +
                    " bytes of tensors, its header "
                    "says " +
                    std::to_string(at));
  return entries;
}

void require_booleans(const at::Tensor& t, const Entry& e, const std::string& file) {
  const auto* bytes = static_cast<const unsigned char*>(t.const_data_ptr());
  if (e.dtype == at::kBool && std::any_of(bytes, bytes + t.nbytes(), [](auto b) { return b > 1; }))
    throw DataError(file + ": tensor \"" + e.name + "\" has a boolean that is neither 0 nor 1");
}

}  // namespace

void write_tensors(File& file, const Tensors& tensors) {
  std::vector<std::pair<std::string, at::Tensor>> order;  // wide types first: all stay aligned
  for (const auto& [name, t] : tensors) order.emplace_back(name, t.detach().cpu().contiguous());
  std::stable_sort(order.begin(), order.end(), [](const auto& a, const auto& b) {
    return a.second.element_size() > b.second.element_size();
  });
  Json header = Json::object();
  std::uint64_t end = 0;
  for (const auto& [name, t] : order) {
    if (!is_utf8(name))
      throw DataError("tensor \"" + printable(name) +
                      "\": its name is not UTF-8, as safetensors has it");
    const std::uint64_t begin = std::exchange(end, end + t.nbytes());
    header[name] = {{"dtype", dtype_name(name, t.scalar_type())},
                    {"shape", t.sizes().vec()},
                    {"data_offsets", {begin, end}}};
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');
  const std::uint64_t length = text.size();
  file.reserve(sizeof length + length + end);
  file.write(&length, sizeof length);  // little endian, as the format and this machine are
  file.write(text.data(), text.size());
  for (const auto& [name, t] : order) file.write(t.const_data_ptr(), t.nbytes());
}

Tensors read_tensors(File& file, const std::string& name) {
  const std::uint64_t size = file.size();
  std::uint64_t length = 0;
  if (size < sizeof length + 2) throw DataError(name + " is too short for safetensors");
  file.read(&length, sizeof length);
  if (length < 2 || length > largest_header || length > size - sizeof length)
    throw DataError(name + ": is no safetensors file: its header would have " +
                    std::to_string(length) + " bytes");
  std::string text(length, '\0');
  file.read(text.data(), length);
  Tensors out;
  for (const Entry& e :
       parse_entries(parse_header(text, name), size - sizeof length - length, name)) {
    at::Tensor t = at::empty(e.shape, e.dtype);
    file.read(t.mutable_data_ptr(), t.nbytes());
    require_booleans(t, e, name);
    out.emplace(e.name, std::move(t));
  }
  return out;
}

void write_safetensors(const std::filesystem::path& path, const Tensors& tensors) {
  const std::filesystem::path temporary = path.string() + ".tmp";
  try {
    File file(temporary, O_WRONLY | O_CREAT | O_TRUNC);
    write_tensors(file, tensors);
    file.close();
    if (::rename(temporary.c_str(), path.c_str()) != 0) fail_io("write", path, errno);
  } catch (...) {
    ::unlink(temporary.c_str());
    throw;
  }
  sync_folder(path.has_parent_path() ? path.parent_path() : ".");
}

Tensors read_safetensors(const std::filesystem::path& path) {
  File file(path, O_RDONLY);
  return read_tensors(file, path.string());
}

std::string weights_sha256(const Tensors& tensors) {
  Sha256 digest;
  for (const auto& [name, tensor] : tensors) {
    const at::Tensor t = tensor.detach().cpu().contiguous();
    digest.update(name.c_str(), name.size() + 1);
    digest.update(t.const_data_ptr(), t.nbytes());
  }
  return digest.hex();
}

}  // namespace sluice
