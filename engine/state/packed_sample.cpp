#include "engine/state/packed_sample.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/from_blob.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <stdexcept>

#include "engine/state/dtype.h"

namespace sluice {
namespace {

constexpr std::size_t alignment = 64;
// ---- geometry: numbers as their bits, since JSON has no NaN -------------------------------------

template <class Range>
Json bits(const Range& numbers) {
  Json all = Json::array();
  for (const double v : numbers) all.push_back(std::bit_cast<std::uint64_t>(v));
  return all;
}

double number(const Json& bits) { return std::bit_cast<double>(bits.get<std::uint64_t>()); }

Affine affine_of(const Json& j) {
  Affine a;
  for (std::size_t i = 0; i < a.size(); ++i) a[i] = number(j.at(i));
  return a;
}

MetaPtr meta_of(const Json& j, const Sample& record) {
  auto meta = std::make_shared<Meta>();
  const Json& path = j.at("path");
  if (path.is_number())
    meta->path = record.fields().at(path.get<std::size_t>()).second.geometry().path;
  else
    meta->path = path.get<std::string>();
  meta->affine = affine_of(j.at("affine"));
  meta->has_affine = j.at("has_affine").get<bool>();
  for (const Json& h : j.at("history")) {
    Applied applied;
    applied.transform = h.at("transform");
    applied.affine_before = affine_of(h.at("affine"));
    applied.shape_before = h.at("shape").get<std::vector<std::int64_t>>();
    for (const Json& v : h.at("values")) applied.values.push_back(number(v));
    meta->history.push_back(std::move(applied));
  }
  return meta;
}

Json path_json(const std::string& path, const Sample& record) {
  for (std::size_t i = 0; !path.empty() && i < record.fields().size(); ++i)
    if (record.fields()[i].second.geometry().path == path) return i;
  return path;
}

// ---- tables of values ---------------------------------------------------------------------------

constexpr std::size_t most_values = 1 << 16;

template <class Word>
class Table {
 public:
  Table() : slots_(2 * most_values, 0) {}

  // The word's number, in the order of first appearance; most_values where the table is full.
  std::size_t number(Word word) {
    std::size_t at = (static_cast<std::uint64_t>(word) * 0x9E3779B97F4A7C15ull) >> 47;
    for (; slots_[at] != 0; at = (at + 1) % slots_.size())
      if (values[slots_[at] - 1] == word) return slots_[at] - 1;
    if (values.size() == most_values) return most_values;
    values.push_back(word);
    slots_[at] = static_cast<std::uint32_t>(values.size());
    return values.size() - 1;
  }

  std::vector<Word> values;

 private:
  std::vector<std::uint32_t> slots_;  // number + 1; 0: free
};

struct Coded {
  int bits = 0;  // 0: as it is
  at::Tensor table, numbers;
};

at::Tensor packed_bits(const std::vector<std::uint16_t>& numbers) {
  at::Tensor out = at::empty({static_cast<std::int64_t>((numbers.size() + 7) / 8)}, at::kByte);
  auto* to = out.mutable_data_ptr<std::uint8_t>();
  std::fill(to, to + out.numel(), std::uint8_t{0});
  for (std::size_t i = 0; i < numbers.size(); ++i)
    to[i / 8] = static_cast<std::uint8_t>(to[i / 8] | numbers[i] << (i % 8));
  return out;
}

template <class Word>
Coded coded(const Word* words, std::size_t n) {
  Table<Word> table;
  std::vector<std::uint16_t> numbers(n);
  const std::size_t most = sizeof(Word) == 1 ? 2 : sizeof(Word) == 2 ? 256 : most_values;
  for (std::size_t i = 0, last = 0; i < n; ++i) {
    if (i == 0 || words[i] != words[i - 1]) last = table.number(words[i]);
    if (last >= most) return {};
    numbers[i] = static_cast<std::uint16_t>(last);
  }
  Coded c;
  c.bits = table.values.size() <= 2 ? 1 : table.values.size() <= 256 ? 8 : 16;
  const std::size_t bytes = n * static_cast<std::size_t>(c.bits) / 8;
  if (bytes + table.values.size() * sizeof(Word) > n * sizeof(Word) * 3 / 4) return {};
  c.table = at::empty({static_cast<std::int64_t>(table.values.size() * sizeof(Word))}, at::kByte);
  std::memcpy(c.table.mutable_data_ptr(), table.values.data(), table.values.size() * sizeof(Word));
  if (c.bits == 1) {
    c.numbers = packed_bits(numbers);
    return c;
  }
  c.numbers = at::empty({static_cast<std::int64_t>(bytes)}, at::kByte);
  auto* to = c.numbers.mutable_data_ptr<std::uint8_t>();
  if (c.bits == 8)
    for (std::size_t i = 0; i < n; ++i) to[i] = static_cast<std::uint8_t>(numbers[i]);
  else
    std::memcpy(to, numbers.data(), bytes);
  return c;
}

Coded coded(const at::Tensor& t) {
  const void* p = t.const_data_ptr();
  const auto n = static_cast<std::size_t>(t.numel());
  switch (t.element_size()) {
    case 1:
      return coded(static_cast<const std::uint8_t*>(p), n);
    case 2:
      return coded(static_cast<const std::uint16_t*>(p), n);
    case 4:
      return coded(static_cast<const std::uint32_t*>(p), n);
    default:
      return coded(static_cast<const std::uint64_t*>(p), n);
  }
}

void require(bool ok) {
  if (!ok) throw std::invalid_argument("a cache entry whose parts do not fit");
}

template <class Word>
void decode(int bits, std::span<const std::byte> table, const std::byte* from, void* to,
            std::size_t n) {
  const std::size_t values = table.size() / sizeof(Word);
  std::vector<Word> value(std::size_t{1} << bits);  // numbers beyond the table read zeros
  std::memcpy(value.data(), table.data(), std::min(values, value.size()) * sizeof(Word));
  auto* out = static_cast<Word*>(to);
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(from);
  if (bits == 1)
    for (std::size_t i = 0; i < n; ++i) out[i] = value[bytes[i / 8] >> (i % 8) & 1];
  else if (bits == 8)
    for (std::size_t i = 0; i < n; ++i) out[i] = value[bytes[i]];
  else
    for (std::size_t i = 0; i < n; ++i)
      out[i] = value[static_cast<std::size_t>(bytes[2 * i]) | std::size_t{bytes[2 * i + 1]} << 8];
}

// ---- tensors ------------------------------------------------------------------------------------

class Packer {
 public:
  explicit Packer(PackedSample& out) : out_(out) {}

  // False where the tensor has no bytes of its own to keep.
  bool add(const at::Tensor& given, Json& j) {
    const Dtype* dtype = find_dtype(given.scalar_type());
    if (!dtype || !given.device().is_cpu() || given.layout() != at::kStrided || given.is_neg())
      return false;
    const bool dense = given.is_non_overlapping_and_dense();
    const bool view = given.storage().nbytes() > given.nbytes();
    const at::Tensor t = dense && !view ? given.detach() : given.detach().contiguous();
    j["dtype"] = dtype->name;
    j["shape"] = t.sizes().vec();
    if (!t.is_contiguous()) j["strides"] = t.strides().vec();
    const Coded c = coded(t);
    j["bits"] = c.bits;
    if (c.bits > 0) {
      j["table"] = part(c.table);
      j["at"] = part(c.numbers);
    } else {
      j["at"] = part(t);
    }
    return true;
  }

 private:
  // [begin, bytes] in the payload, whose parts begin at multiples of 64.
  Json part(const at::Tensor& t) {
    static constexpr std::byte zeros[alignment]{};
    const std::size_t bytes = t.nbytes(), begin = end_;
    out_.owned.push_back(t);
    out_.parts.emplace_back(static_cast<const std::byte*>(t.const_data_ptr()), bytes);
    const std::size_t fill = (alignment - bytes % alignment) % alignment;
    out_.parts.emplace_back(zeros, fill);
    end_ += bytes + fill;
    return {begin, bytes};
  }

  PackedSample& out_;
  std::size_t end_ = 0;
};

std::span<const std::byte> part_of(const CachedEntry& entry, const Json& j) {
  const auto begin = j.at(0).get<std::size_t>(), bytes = j.at(1).get<std::size_t>();
  require(begin <= entry.payload.size() && bytes <= entry.payload.size() - begin);
  return entry.payload.subspan(begin, bytes);
}

at::Tensor tensor_of(const CachedEntry& entry, const Json& j) {
  const Dtype* dtype = find_dtype(&Dtype::name, j.at("dtype").get_ref<const std::string&>());
  require(dtype);
  const auto shape = j.at("shape").get<std::vector<std::int64_t>>();
  const int bits = j.at("bits");
  const auto bytes = part_of(entry, j.at("at"));
  std::vector<std::int64_t> strides(shape.size(), 1);
  for (std::size_t d = shape.size(); d-- > 1;)
    strides[d - 1] = strides[d] * std::max<std::int64_t>(shape[d], 1);
  if (j.contains("strides")) strides = j.at("strides").get<std::vector<std::int64_t>>();
  std::size_t n = 1;
  for (const std::int64_t extent : shape) n *= static_cast<std::size_t>(extent);
  const std::size_t size = at::elementSize(dtype->type);
  if (bits == 0) {
    require(bytes.size() == n * size);
    auto* p = const_cast<std::byte*>(bytes.data());
    return at::from_blob(
        p, shape, strides, [keep = entry.bytes](void*) {}, dtype->type);
  }
  require(bytes.size() == (bits == 1 ? (n + 7) / 8 : n * static_cast<std::size_t>(bits) / 8));
  const auto table = part_of(entry, j.at("table"));
  at::Tensor t = at::empty_strided(shape, strides, dtype->type);
  void* to = t.mutable_data_ptr();
  if (size == 1) decode<std::uint8_t>(bits, table, bytes.data(), to, n);
  if (size == 2) decode<std::uint16_t>(bits, table, bytes.data(), to, n);
  if (size == 4) decode<std::uint32_t>(bits, table, bytes.data(), to, n);
  if (size == 8) decode<std::uint64_t>(bits, table, bytes.data(), to, n);
  return t;
}

}  // namespace

Json geometry_json(const Meta& meta) {
  Json history = Json::array();
  for (const Applied& a : meta.history)
    history.push_back({{"transform", a.transform},
                       {"affine", bits(a.affine_before)},
                       {"shape", a.shape_before},
                       {"values", bits(a.values)}});
  return {{"affine", bits(meta.affine)},
          {"has_affine", meta.has_affine},
          {"history", std::move(history)}};
}

std::optional<PackedSample> pack(const Sample& sample, const Sample& record) {
  PackedSample out;
  Packer packer(out);
  Json fields = Json::array();
  for (const auto& [key, field] : sample.fields()) {
    Json j{{"key", key}, {"meta", Json::array()}};
    for (const MetaPtr& meta : field.meta) {
      Json m = geometry_json(*meta);
      m["path"] = path_json(meta->path, record);
      j["meta"].push_back(std::move(m));
    }
    if (field.pending) throw std::logic_error("a sample with work pending came to a disk");
    if (field.tensor.defined() && !packer.add(field.tensor, j)) return std::nullopt;
    fields.push_back(std::move(j));
  }
  out.header = {{"name", sample.name}, {"fields", std::move(fields)}};
  if (!sample.members.empty()) out.header["members"] = sample.members;
  return out;
}

SamplePtr unpack(const CachedEntry& entry, const Sample& record) try {
  auto sample = std::make_shared<Sample>();
  sample->name = entry.header.at("name").get<std::string>();
  sample->members = entry.header.value("members", sample->members);
  for (const Json& j : entry.header.at("fields")) {
    Field field;
    field.meta.clear();
    for (const Json& m : j.at("meta")) field.meta.push_back(meta_of(m, record));
    require(!field.meta.empty());
    if (j.contains("dtype")) field.tensor = tensor_of(entry, j);
    sample->fields().emplace_back(j.at("key").get<std::string>(), std::move(field));
  }
  return sample;
} catch (const Json::exception&) {
  return nullptr;
} catch (const std::logic_error&) {  // out of range too
  return nullptr;
}

}  // namespace sluice
