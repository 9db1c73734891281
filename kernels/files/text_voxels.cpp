#include "kernels/files/text_voxels.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <string_view>

#include "engine/base/error.h"

namespace sluice {
namespace {

constexpr std::string_view blanks = " \t\r\n\v\f";

[[noreturn]] void refuse_count(const std::string& name, const char* how, std::uint64_t expected,
                               const std::string& what) {
  throw DataError(name + ": " + how + " (expected " + with_commas(expected) + " " + what + ")");
}

std::string_view text_of(std::span<const std::uint8_t> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace

FileBytes voxels_of_numbers(std::span<const std::uint8_t> bytes, StoredType type,
                            std::uint64_t expected, const std::string& name) {
  static const std::string between = std::string(blanks) + ",";
  const std::string_view text = text_of(bytes);
  const std::uint64_t count = expected / size_of(type);
  if (count > text.size() / 2 + 1) refuse_count(name, "ends early", count, "numbers");
  FileBytes out(expected);
  std::size_t at = 0;
  const auto next = [&] {
    at = std::min(text.find_first_not_of(between, at), text.size());
    const std::size_t end = std::min(text.find_first_of(between, at), text.size());
    const std::string_view word = text.substr(at, end - at);
    at = end;
    return word;
  };
  with_stored_type(type, [&](auto value) {
    for (std::uint64_t i = 0; i < count; ++i) {
      std::string_view word = next();
      if (word.empty()) refuse_count(name, "ends early", count, "numbers, got " + with_commas(i));
      if (word.starts_with('+')) word.remove_prefix(1);
      const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
      if (error != std::errc{} || end != word.data() + word.size())
        throw DataError(name + ": number " + with_commas(i + 1) + " of its voxels is \"" +
                        std::string(word.substr(0, 40)) + "\", which is no " + name_of(type));
      std::memcpy(out.data() + i * sizeof value, &value, sizeof value);
    }
  });
  if (!next().empty()) refuse_count(name, "is too long", count, "numbers");
  return out;
}

FileBytes voxels_of_hex(std::span<const std::uint8_t> bytes, std::uint64_t expected,
                        const std::string& name) {
  const std::string_view text = text_of(bytes);
  if (expected > text.size() / 2)
    refuse_count(name, "ends early", expected, "bytes of two hexadecimal digits");
  FileBytes out(expected);
  std::uint64_t digits = 0;
  for (const char c : text) {
    if (blanks.find(c) != std::string_view::npos) continue;
    std::uint8_t digit = 0;
    if (std::from_chars(&c, &c + 1, digit, 16).ptr == &c)
      throw DataError(name + ": a byte of its voxels is no hexadecimal digit");
    if (digits == 2 * expected)
      refuse_count(name, "is too long", expected, "bytes of two hexadecimal digits");
    std::uint8_t& byte = out.data()[digits / 2];
    byte = static_cast<std::uint8_t>(digits % 2 == 0 ? digit << 4 : byte | digit);
    ++digits;
  }
  if (digits < 2 * expected)
    refuse_count(name, "ends early", expected,
                 "bytes of two hexadecimal digits, got " + with_commas(digits) + " digits");
  return out;
}

}  // namespace sluice
