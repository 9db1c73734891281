// Protocol buffers on the wire, as much as traces and ONNX files need: written and read by field
// number, without generated code (https://protobuf.dev/programming-guides/encoding). Debian's
// libprotobuf would bring a compiler step and 3 MB for what is 60 lines here.
//
// Invariant: reading never goes beyond its text; a message that is cut short ends the reading.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

namespace sluice::protobuf {

class Writer {
 public:
  std::string text;

  Writer& number(int field, std::uint64_t value) {
    varint(static_cast<std::uint64_t>(field) << 3);
    varint(value);
    return *this;
  }
  Writer& fixed64(int field, std::uint64_t value) {
    varint(static_cast<std::uint64_t>(field) << 3 | 1);
    text.append(reinterpret_cast<const char*>(&value), sizeof value);  // little endian, as x86 is
    return *this;
  }
  Writer& fixed32(int field, float value) {
    varint(static_cast<std::uint64_t>(field) << 3 | 5);
    text.append(reinterpret_cast<const char*>(&value), sizeof value);
    return *this;
  }
  Writer& real(int field, double value) {
    std::uint64_t bits;
    std::memcpy(&bits, &value, sizeof bits);
    return fixed64(field, bits);
  }
  Writer& bytes(int field, std::string_view value) {
    varint(static_cast<std::uint64_t>(field) << 3 | 2);
    varint(value.size());
    text.append(value);
    return *this;
  }
  Writer& message(int field, const Writer& inner) { return bytes(field, inner.text); }

 private:
  void varint(std::uint64_t value) {
    for (; value >= 0x80; value >>= 7) text += static_cast<char>(value | 0x80);
    text += static_cast<char>(value);
  }
};

struct Field {
  int number = 0, type = 0;
  std::uint64_t value = 0;  // of a varint, a fixed64 or a fixed32
  std::string_view bytes;   // of a string or a message
};

class Reader {
 public:
  explicit Reader(std::string_view text) : text_(text) {}

  // False at the end, and where the text is no whole field.
  bool next(Field& field) {
    std::uint64_t tag = 0, size = 0;
    const std::size_t begin = at_;
    field = {};
    if (at_ < text_.size() && varint(tag)) {
      field.number = static_cast<int>(tag >> 3);
      field.type = static_cast<int>(tag & 7);
      if (field.type == 0 && varint(field.value)) return true;
      if (field.type == 1 && fixed(8, field.value)) return true;
      if (field.type == 5 && fixed(4, field.value)) return true;
      if (field.type == 2 && varint(size) && size <= text_.size() - at_) {
        field.bytes = text_.substr(at_, size);
        at_ += size;
        return true;
      }
    }
    at_ = begin;
    return false;
  }
  std::size_t position() const { return at_; }  // after the last whole field

 private:
  bool varint(std::uint64_t& value) {
    value = 0;
    for (int shift = 0; shift < 64 && at_ < text_.size(); shift += 7) {
      const auto byte = static_cast<unsigned char>(text_[at_++]);
      value |= static_cast<std::uint64_t>(byte & 0x7f) << shift;
      if (byte < 0x80) return true;
    }
    return false;
  }
  bool fixed(std::size_t size, std::uint64_t& value) {
    if (text_.size() - at_ < size) return false;
    std::memcpy(&value, text_.data() + at_, size);
    at_ += size;
    return true;
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

}  // namespace sluice::protobuf
