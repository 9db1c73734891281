#include "kernels/lists/manifest.h"

#include <openssl/evp.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <new>
#include <string_view>
#include <vector>

#include "engine/base/read_file.h"
#include "engine/base/system_call.h"

namespace sluice {

namespace fs = std::filesystem;

namespace {

constexpr std::string_view first_line = "# sluice data manifest 1\n";
constexpr std::string_view last_line = "# end: ";
constexpr std::size_t digits = 64;

class Sha256 {
 public:
  Sha256() : context_(EVP_MD_CTX_new(), &EVP_MD_CTX_free) {
    if (!context_ || EVP_DigestInit_ex(context_.get(), EVP_sha256(), nullptr) != 1)
      throw std::bad_alloc();
  }
  void add(const void* bytes, std::size_t n) { EVP_DigestUpdate(context_.get(), bytes, n); }
  std::string hex() {
    std::array<unsigned char, 32> digest;
    EVP_DigestFinal_ex(context_.get(), digest.data(), nullptr);
    std::string text;
    for (const unsigned char byte : digest)
      for (const int shift : {4, 0}) text.push_back("0123456789abcdef"[byte >> shift & 15]);
    return text;
  }

 private:
  std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context_;
};

bool is_digest(std::string_view text) {
  return text.size() == digits && text.find_first_not_of("0123456789abcdef") == text.npos;
}

std::string line_of(const std::string& digest, const std::string& path) {
  std::string escaped;
  for (const char c : path) escaped += c == '\n' ? "\\n" : c == '\\' ? "\\\\" : std::string(1, c);
  std::string line = escaped.size() == path.size() ? "" : "\\";
  return line.append(digest).append("  ").append(escaped).append("\n");
}

std::string unescaped(std::string_view text) {
  std::string path;
  for (std::size_t i = 0; i < text.size(); ++i)
    if (text[i] == '\\' && i + 1 < text.size())
      path.push_back(text[++i] == 'n' ? '\n' : text[i]);
    else
      path.push_back(text[i]);
  return path;
}

[[noreturn]] void damaged(const fs::path& file, const std::string& why) {
  throw DataError(file.string() + ": is no whole manifest: " + why);
}

// "# end: 440 files, DIGEST\n" and nothing after it.
void check_end(std::string_view lines, std::string_view end, std::size_t files,
               const fs::path& file) {
  const std::string expected =
      std::string(last_line) + std::to_string(files) + " files, " +
      sha256({reinterpret_cast<const std::uint8_t*>(lines.data()), lines.size()}) + "\n";
  if (end != expected) damaged(file, "its last line does not fit what stands above it");
}

}  // namespace

std::string sha256(std::span<const std::uint8_t> bytes) {
  Sha256 digest;
  digest.add(bytes.data(), bytes.size());
  return digest.hex();
}

std::string sha256_of_file(const fs::path& path) {
  const int fd = open_to_read(path.c_str());
  if (fd < 0 && is_of_machine(errno)) fail_call(path.string() + ": cannot open", errno);
  if (fd < 0) throw IoError(path.string() + ": cannot open: " + why_not_opened(errno));
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(::fdopen(fd, "rb"), &std::fclose);
  if (!file) throw std::bad_alloc();
  Sha256 digest;
  std::vector<char> block(1u << 20);
  for (std::size_t n; (n = std::fread(block.data(), 1, block.size(), file.get())) > 0;)
    digest.add(block.data(), n);
  if (std::ferror(file.get()))
    throw IoError(path.string() + ": cannot read: " + std::strerror(errno));
  return digest.hex();
}

Manifest::Manifest(fs::path folder)
    : folder_(fs::absolute(folder.empty() ? "." : folder).lexically_normal()) {}

std::string Manifest::relative(const fs::path& path) const {
  return fs::absolute(path).lexically_normal().lexically_relative(folder_).string();
}

std::string Manifest::digest(const fs::path& path) const {
  const auto found = digests.find(relative(path));
  return found == digests.end() ? "" : found->second;
}

void Manifest::verify(const fs::path& path, std::span<const std::uint8_t> bytes) const {
  const std::string listed = digest(path);
  if (listed.empty())
    throw DataError(path.string() + ": is not listed in the manifest of " + folder_.string());
  const std::string found = sha256(bytes);
  if (found != listed)
    throw DataError(path.string() + ": is not the file that was indexed: its SHA-256 is " +
                    found.substr(0, 12) + "..., the manifest says " + listed.substr(0, 12) + "...");
}

FileBytes Manifest::read_listed(const fs::path& path) const {
  FileBytes bytes = read_file(path);
  verify(path, bytes.view());
  return bytes;
}

Manifest Manifest::read(const fs::path& file) {
  const FileBytes bytes = read_file(file, 1u << 30);
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (!text.starts_with(first_line)) damaged(file, "it does not begin as one does");
  Manifest manifest(file.parent_path());
  for (std::size_t at = first_line.size();;) {
    const auto end = text.find('\n', at);
    if (end == text.npos) damaged(file, "it ends early");
    std::string_view line = text.substr(at, end - at);
    if (line.starts_with(last_line)) {
      check_end(text.substr(0, at), text.substr(at), manifest.digests.size(), file);
      return manifest;
    }
    const bool escaped = line.starts_with('\\');
    if (escaped) line.remove_prefix(1);
    if (line.size() < digits + 3 || !is_digest(line.substr(0, digits)))
      damaged(file, std::string(line.substr(0, 80)).append(": no digest and path"));
    const std::string_view path = line.substr(digits + 2);
    manifest.digests[escaped ? unescaped(path) : std::string(path)] = line.substr(0, digits);
    at = end + 1;
  }
}

void Manifest::write(const fs::path& file) const {
  std::string text(first_line);
  for (const auto& [path, digest] : digests) text += line_of(digest, path);
  const auto view = [](const std::string& s) {
    return std::span(reinterpret_cast<const std::uint8_t*>(s.data()), s.size());
  };
  const std::string digest = sha256(view(text));
  text.append(last_line).append(std::to_string(digests.size())).append(" files, ");
  text.append(digest).append("\n");
  write_file(file, {view(text)});
}

}  // namespace sluice
