#include "tools/lsp/input.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <charconv>

#include "engine/base/letter_case.h"

namespace sluice::lsp {
namespace {

constexpr std::size_t most_bytes = std::size_t{64} << 20;
constexpr std::size_t most_header = 8192;

}  // namespace

std::size_t FileStream::read(char* to, std::size_t most) {
  for (;;) {
    const auto n = ::read(descriptor_, to, most);
    if (n >= 0) return static_cast<std::size_t>(n);
    if (errno != EINTR) return 0;
  }
}

bool FileStream::waiting() {
  pollfd one{descriptor_, POLLIN, 0};
  return poll(&one, 1, 0) > 0;
}

std::optional<std::string> Input::next(bool wait) {
  for (;;) {
    if (!fault_.empty()) return std::nullopt;
    if (auto message = take()) return message;
    if (!fault_.empty() || ended_) return std::nullopt;
    if (!wait && !stream_.waiting()) return std::nullopt;
    char bytes[65536];
    const std::size_t n = stream_.read(bytes, sizeof bytes);
    if (n == 0) {
      ended_ = true;
      if (!buffer_.empty()) fault_ = "the input ends within a message";
      return std::nullopt;
    }
    buffer_.append(bytes, n);
  }
}

std::optional<std::string> Input::take() {
  const auto end = buffer_.find("\r\n\r\n", from_);
  if (end == std::string::npos || end - from_ > most_header) {
    if (buffer_.size() - from_ > most_header) fault_ = "no header of a message within 8192 bytes";
    return std::nullopt;
  }
  std::optional<std::size_t> length;
  for (std::size_t at = from_; at < end;) {
    const auto line_end = std::min(buffer_.find("\r\n", at), end);
    const std::string line = buffer_.substr(at, line_end - at);
    at = line_end + 2;
    const auto colon = line.find(':');
    if (colon == std::string::npos) {
      fault_ = "a header without a colon";
      return std::nullopt;
    }
    if (lower_case(line.substr(0, colon)) != "content-length") continue;
    const auto digits = std::min(line.find_first_not_of(' ', colon + 1), line.size());
    std::size_t n = 0;
    const auto [rest, problem] =
        std::from_chars(line.data() + digits, line.data() + line.size(), n);
    if (problem != std::errc() || rest != line.data() + line.size() || n > most_bytes) {
      fault_ = "a Content-Length that is no number up to 64 MiB";
      return std::nullopt;
    }
    length = n;
  }
  if (!length) {
    fault_ = "headers without Content-Length";
    return std::nullopt;
  }
  if (buffer_.size() < end + 4 + *length) return std::nullopt;
  std::string message = buffer_.substr(end + 4, *length);
  from_ = end + 4 + *length;
  if (from_ == buffer_.size() || from_ > std::size_t{1} << 20) {
    buffer_.erase(0, from_);
    from_ = 0;
  }
  return message;
}

}  // namespace sluice::lsp
