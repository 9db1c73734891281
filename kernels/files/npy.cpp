#include "kernels/files/npy.h"

#include <ATen/Functions.h>

#include <bit>
#include <cstring>
#include <limits>
#include <set>
#include <vector>

#include "engine/base/error.h"
#include "kernels/base/word.h"
#include "kernels/files/file_io.h"

namespace sluice {
namespace {

static_assert(std::endian::native == std::endian::little);
constexpr std::size_t most_axes = 32;  // NumPy's own limit
constexpr char magic[] = "\x93NUMPY";

// `type` is how the stored bytes are held, `wide` what they become.
struct NpyType {
  const char* code;
  std::size_t size;
  at::ScalarType type, wide;
};
constexpr NpyType npy_types[] = {
    {"b1", 1, at::kBool, at::kBool},     {"u1", 1, at::kByte, at::kByte},
    {"i1", 1, at::kChar, at::kChar},     {"u2", 2, at::kShort, at::kInt},
    {"i2", 2, at::kShort, at::kShort},   {"u4", 4, at::kInt, at::kLong},
    {"i4", 4, at::kInt, at::kInt},       {"i8", 8, at::kLong, at::kLong},
    {"f2", 2, at::kHalf, at::kHalf},     {"f4", 4, at::kFloat, at::kFloat},
    {"f8", 8, at::kDouble, at::kDouble},
};

struct Header {
  const NpyType* row = nullptr;
  bool big_endian = false, fortran = false;
  std::vector<std::int64_t> shape;
};

// Reads the header's text, a Python dictionary with exactly three members:
//   {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }
class HeaderText {
 public:
  HeaderText(std::string_view text, const std::string& name) : text_(text), name_(name) {}

  Header read() {
    Header h;
    std::set<std::string> seen;
    expect('{');
    while (!take('}')) {
      const std::string key = string();
      if (!seen.insert(key).second) fail("\"" + key + "\" stands twice");
      expect(':');
      read_member(h, key);
      if (!take(',') && peek() != '}') fail("expected , or }");
    }
    if (seen.size() != 3) fail("needs descr, fortran_order and shape");
    skip_blanks();
    if (at_ != text_.size()) fail("something follows the }");
    return h;
  }

 private:
  [[noreturn]] void fail(const std::string& why) const {
    throw DataError(name_ + ": damaged .npy header: " + why);
  }

  void read_member(Header& h, const std::string& key) {
    if (key == "descr")
      read_type(h);
    else if (key == "fortran_order")
      h.fortran = boolean();
    else if (key == "shape")
      h.shape = tuple();
    else
      fail("unknown member \"" + key + "\"");
  }

  void read_type(Header& h) {
    if (peek() == '[')
      throw DataError(name_ + ": holds records with named members; only plain numbers are read");
    const std::string type = string();
    const char order = type.empty() ? ' ' : type[0];
    for (const auto& row : npy_types)
      if (type.size() == 3 && type.compare(1, 2, row.code) == 0) h.row = &row;
    const bool ordered = order == '<' || order == '>' || order == '=';
    if (!h.row || !(ordered || (order == '|' && h.row->size == 1)))
      throw DataError(name_ + ": holds \"" + type +
                      "\"; read are bool, int8 to int64, uint8 to uint32, float16 to float64");
    h.big_endian = order == '>' && h.row->size > 1;
  }

  void skip_blanks() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n')) ++at_;
  }
  char peek() {
    skip_blanks();
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  bool take(char c) {
    if (peek() != c) return false;
    ++at_;
    return true;
  }
  void expect(char c) {
    if (!take(c)) fail(std::string("expected ") + c);
  }
  bool take_word(std::string_view word) {
    skip_blanks();
    if (text_.substr(at_, word.size()) != word) return false;
    at_ += word.size();
    return true;
  }
  std::string string() {
    const char quote = peek();
    if (quote != '\'' && quote != '"') fail("expected a text in quotes");
    const auto end = text_.find(quote, ++at_);
    if (end == std::string_view::npos) fail("a text has no end");
    const std::string found(text_.substr(at_, end - at_));
    for (char c : found)
      if (c < ' ' || c > '~' || c == '\\') fail("a text with odd characters");
    at_ = end + 1;
    return found;
  }
  bool boolean() {
    if (take_word("True")) return true;
    if (!take_word("False")) fail("fortran_order is neither True nor False");
    return false;
  }
  std::int64_t integer() {
    skip_blanks();
    const std::size_t begin = at_;
    std::int64_t value = 0;
    for (; at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9'; ++at_)
      if (__builtin_mul_overflow(value, 10, &value) ||
          __builtin_add_overflow(value, text_[at_] - '0', &value))
        fail("an axis does not fit 64 bits");
    if (at_ == begin) fail("expected the length of an axis");
    return value;
  }
  std::vector<std::int64_t> tuple() {
    std::vector<std::int64_t> values;
    bool comma = true;  // (3) is a number to Python, (3,) is a tuple
    expect('(');
    while (!take(')')) {
      if (!comma) fail("expected , or )");
      values.push_back(integer());
      comma = take(',');
    }
    if (values.size() == 1 && !comma) fail("the shape is not a tuple");
    return values;
  }

  std::string_view text_;
  const std::string& name_;
  std::size_t at_ = 0;
};

// Where the numbers begin, and what they are.
std::size_t read_header(std::span<const std::uint8_t> file, const std::string& name, Header& h) {
  const auto text = [&](std::size_t at, std::size_t n) {
    return std::string_view(reinterpret_cast<const char*>(file.data()) + at, n);
  };
  if (file.size() < 10 || text(0, 6) != magic) throw DataError(name + ": is no .npy file");
  const int version = file[6];
  if ((version != 1 && version != 2) || file[7] != 0)
    throw DataError(name + ": is a .npy file of version " + std::to_string(version) + "." +
                    std::to_string(file[7]) + "; read are 1.0 and 2.0");
  const std::size_t begin = version == 1 ? 10 : 12;
  std::size_t length = 0;
  for (std::size_t i = begin; i > 8 && i <= file.size(); --i) length = length << 8 | file[i - 1];
  if (file.size() < begin || length > file.size() - begin)
    throw DataError(name + ": ends inside its .npy header");
  if (length > 65535) throw DataError(name + ": its .npy header is longer than 65,535 bytes");
  h = HeaderText(text(begin, length), name).read();
  return begin + length;
}

// The bytes that the header announces; a shape that no file could fill is refused.
std::uint64_t size_of(const Header& h, const std::string& name) {
  if (h.shape.size() > most_axes)
    throw DataError(name + ": has " + std::to_string(h.shape.size()) + " axes, more than " +
                    std::to_string(most_axes));
  std::uint64_t volume = h.row->size;  // with empty axes counted as 1: strides must not overflow
  bool empty = false;
  for (const auto n : h.shape) {
    empty |= n == 0;
    const auto length = static_cast<std::uint64_t>(std::max<std::int64_t>(n, 1));
    if (length > max_volume_bytes / volume)
      throw DataError(name + ": declares more than " + with_commas(max_volume_bytes) + " bytes");
    volume *= length;
  }
  return empty ? 0 : volume;
}

at::Tensor widened(const at::Tensor& stored, const NpyType& row) {
  if (row.type == row.wide) return stored;
  const std::int64_t mask = row.size == 2 ? 0xffff : 0xffffffff;
  return stored.to(row.wide).bitwise_and_(mask);
}

}  // namespace

at::Tensor parse_npy(std::span<const std::uint8_t> file, const std::string& name) {
  Header h;
  const std::size_t begin = read_header(file, name, h);
  const std::uint64_t expected = size_of(h, name), found = file.size() - begin;
  if (found != expected)
    throw DataError(name + (found < expected ? ": ends early" : ": is too long") + " (expected " +
                    with_commas(begin + expected) + " bytes, got " + with_commas(file.size()) +
                    ")");
  auto shape = h.shape;
  if (h.fortran) std::reverse(shape.begin(), shape.end());
  at::Tensor data = at::empty(shape, h.row->type);
  auto* bytes = static_cast<std::uint8_t*>(data.data_ptr());
  if (expected > 0) std::memcpy(bytes, file.data() + begin, expected);
  if (h.row->type == at::kBool)
    for (std::uint64_t i = 0; i < expected; ++i)
      if (bytes[i] > 1) throw DataError(name + ": a bool is neither 0 nor 1");
  if (h.big_endian) swap_bytes({bytes, expected}, h.row->size);
  if (h.fortran && shape.size() > 1) {
    std::vector<std::int64_t> axes(shape.size());
    for (std::size_t i = 0; i < axes.size(); ++i)
      axes[i] = static_cast<std::int64_t>(axes.size() - 1 - i);
    data = data.permute(axes).contiguous();
  }
  return widened(data, *h.row);
}

at::Tensor read_npy(const std::filesystem::path& path) {
  return parse_npy(read_file(path).view(), path.string());
}

at::Tensor channels_first(const at::Tensor& t, std::int64_t channel_dim, std::int64_t first,
                          const std::string& name) {
  const std::int64_t axes = t.dim() - first;
  if (channel_dim < -axes || channel_dim >= axes)
    throw DataError(name + " has " + std::to_string(axes) + " axes; there is no axis " +
                    std::to_string(channel_dim));
  return t.movedim((channel_dim < 0 ? channel_dim + axes : channel_dim) + first, first)
      .contiguous();
}

void write_npy(const std::filesystem::path& path, const at::Tensor& data) {
  const at::Tensor whole = data.detach().cpu().contiguous();
  const NpyType* row = nullptr;
  for (const auto& r : npy_types)
    if (r.type == r.wide && r.type == whole.scalar_type()) row = &r;
  if (!row)
    throw DataError(path.string() + ": .npy is not written of " +
                    c10::getDtypeNames(whole.scalar_type()).first);
  std::string text = std::string("{'descr': '") + (row->size == 1 ? "|" : "<");
  text.append(row->code).append("', 'fortran_order': False, 'shape': (");
  for (const auto n : whole.sizes()) text.append(std::to_string(n)).append(", ");
  text += "), }";
  const std::size_t used = 10 + text.size() + 1;
  text.append((64 - used % 64) % 64, ' ').push_back('\n');  // the numbers begin at a multiple of 64
  std::string front(magic, 6);
  front += {'\1', '\0', static_cast<char>(text.size() & 0xff), static_cast<char>(text.size() >> 8)};
  front += text;
  write_file(path, {{reinterpret_cast<const std::uint8_t*>(front.data()), front.size()},
                    {static_cast<const std::uint8_t*>(whole.data_ptr()), whole.nbytes()}});
}

}  // namespace sluice
