#include "kernels/files/event_file.h"

#include <array>
#include <bit>
#include <cerrno>
#include <chrono>
#include <cstring>

#include "engine/base/error.h"

namespace sluice {

namespace fs = std::filesystem;

std::uint32_t crc32c(const std::string& bytes) {
  static const auto table = [] {
    std::array<std::uint32_t, 256> t{};
    for (std::uint32_t i = 0; i < 256; ++i) {
      t[i] = i;
      for (int bit = 0; bit < 8; ++bit) t[i] = t[i] >> 1 ^ (t[i] & 1 ? 0x82F63B78u : 0);
    }
    return t;
  }();
  std::uint32_t crc = ~0u;
  for (char c : bytes) crc = crc >> 8 ^ table[(crc ^ static_cast<unsigned char>(c)) & 0xFF];
  return ~crc;
}

namespace {

// ---- protobuf: a field is its number and wire type, then the value ------------------------------

std::string varint(std::uint64_t v) {
  std::string out;
  for (; v >= 0x80; v >>= 7) out += static_cast<char>(v | 0x80);
  return out + static_cast<char>(v);
}

template <class T>
std::string little_endian(T value) {
  static_assert(std::endian::native == std::endian::little);
  return {reinterpret_cast<const char*>(&value), sizeof value};
}

std::string key(int field, int wire) { return varint(static_cast<unsigned>(field << 3 | wire)); }
std::string integer(int field, std::int64_t v) {
  return key(field, 0) + varint(static_cast<std::uint64_t>(v));
}
std::string number(int field, double v) { return key(field, 1) + little_endian(v); }
std::string number(int field, float v) { return key(field, 5) + little_endian(v); }
std::string bytes(int field, const std::string& v) { return key(field, 2) + varint(v.size()) + v; }

// Summary { repeated Value value = 1; } with Value { string tag = 1; ... }
std::string summary(const std::string& tag, const std::string& content) {
  return bytes(5, bytes(1, bytes(1, tag) + content));
}

std::string masked_crc(const std::string& of) {
  const std::uint32_t crc = crc32c(of);
  return little_endian((crc >> 15 | crc << 17) + 0xA282EAD8u);
}

double now() {
  using namespace std::chrono;
  return duration<double>(system_clock::now().time_since_epoch()).count();
}

constexpr const char* prefix = "events.out.tfevents.";

// Readers take a folder's files in the order of their names, whose digits are the time.
fs::path next_file(const fs::path& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) throw IoError(folder.string() + ": cannot make the folder: " + error.message());
  auto time = static_cast<long long>(now());
  for (const auto& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename();
    if (name.starts_with(prefix))
      time = std::max(time, std::atoll(name.c_str() + std::strlen(prefix)) + 1);
  }
  char digits[32];
  std::snprintf(digits, sizeof digits, "%010lld", time);
  return folder / (std::string(prefix) + digits + ".sluice");
}

}  // namespace

EventFile::EventFile(const fs::path& folder, std::int64_t first_step)
    : path_(next_file(folder)), file_(std::fopen(path_.c_str(), "wbx")) {
  if (!file_) throw IoError(path_.string() + ": cannot create: " + std::strerror(errno));
  event(bytes(3, "brain.Event:2"), 0);
  event(bytes(7, integer(1, 1)), first_step);  // SessionLog { status: START }
  flush();
}

EventFile::~EventFile() { std::fclose(file_); }

void EventFile::scalar(const std::string& tag, double value, std::int64_t step) {
  event(summary(tag, number(2, static_cast<float>(value))), step);
}

void EventFile::image(const std::string& tag, const std::string& png, int width, int height,
                      std::int64_t step) {
  const std::string image = integer(1, height) + integer(2, width) + integer(3, 3) + bytes(4, png);
  event(summary(tag, bytes(4, image)), step);
}

void EventFile::event(const std::string& what, std::int64_t step) {
  const std::string payload = number(1, now()) + integer(2, step) + what;
  const std::string length = little_endian(static_cast<std::uint64_t>(payload.size()));
  const std::string record = length + masked_crc(length) + payload + masked_crc(payload);
  if (std::fwrite(record.data(), 1, record.size(), file_) != record.size())
    throw IoError(path_.string() + ": cannot write: " + std::strerror(errno));
}

void EventFile::flush() {
  if (std::fflush(file_) != 0)
    throw IoError(path_.string() + ": cannot write: " + std::strerror(errno));
}

}  // namespace sluice
