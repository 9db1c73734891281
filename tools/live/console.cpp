#include "tools/live/console.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <iostream>
#include <streambuf>

#include "tools/live/text.h"

namespace sluice::live {
namespace {

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

bool speaks_utf8() {
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    const std::string locale = variable(name);
    if (locale.empty()) continue;
    return locale.find("UTF-8") != std::string::npos || locale.find("utf8") != std::string::npos;
  }
  return false;
}

int number(const char* name, int otherwise) {
  const int n = std::atoi(variable(name).c_str());
  return n > 0 ? n : otherwise;
}

void write_all(std::string_view text) {
  while (!text.empty()) {
    const ssize_t n = ::write(2, text.data(), text.size());
    if (n < 0 && errno != EINTR && errno != EAGAIN) return;  // nobody is there to be told
    if (n > 0) text.remove_prefix(static_cast<std::size_t>(n));
  }
}

// Columns without the codes of colours.
int columns_of(const std::string& line) {
  std::string plain;
  for (std::size_t i = 0; i < line.size(); ++i) {
    if (line[i] != '\033') {
      plain += line[i];
      continue;
    }
    while (i < line.size() && line[i] != 'm') ++i;
  }
  return columns(plain);
}

}  // namespace

// std::cerr's buffer: hands whole lines over. Threads may write at once, so each has a line of its
// own until it ends.
class Console::Redirect final : public std::streambuf {
 public:
  explicit Redirect(Console& console) : console_(console), before_(std::cerr.rdbuf(this)) {}
  ~Redirect() override {
    std::cerr.rdbuf(before_);
    for (const auto& [thread, rest] : lines_)
      if (!rest.empty()) console_.say(rest);
  }

 private:
  int overflow(int c) override {
    if (c == traits_type::eof()) return 0;
    const char character = static_cast<char>(c);
    xsputn(&character, 1);
    return c;
  }
  std::streamsize xsputn(const char* text, std::streamsize n) override {
    std::string whole;
    {
      std::lock_guard lock(mutex_);
      std::string& line = lines_[std::this_thread::get_id()];
      line.append(text, static_cast<std::size_t>(n));
      const auto end = line.rfind('\n');
      if (end != std::string::npos) {
        whole = line.substr(0, end + 1);
        line.erase(0, end + 1);
      }
    }
    if (!whole.empty()) console_.say(whole);
    return n;
  }

  Console& console_;
  std::streambuf* const before_;
  std::mutex mutex_;
  std::map<std::thread::id, std::string> lines_;
};

std::atomic<bool> Console::on_screen{false};

Console::Console()
    : redraws_(isatty(2) && variable("TERM") != "dumb" && !variable("TERM").empty()),
      color_(redraws_ && variable("NO_COLOR").empty()),
      utf8_(speaks_utf8()),
      redirect_(std::make_unique<Redirect>(*this)) {}

Console::~Console() {
  redirect_.reset();
  clear();
}

// The last column stays free: a full line makes some terminals begin a new one.
Style Console::style() const {
  Style s;
  s.color = color_;
  s.utf8 = utf8_;
  winsize size{};
  const bool known = ioctl(2, TIOCGWINSZ, &size) == 0;
  s.width = std::max(20, (known && size.ws_col > 0 ? size.ws_col : number("COLUMNS", 80)) - 1);
  s.height = std::max(2, (known && size.ws_row > 0 ? size.ws_row : number("LINES", 24)) - 1);
  return s;
}

// Up to the block's first line and away with it. A terminal that became narrower has wrapped it.
std::string Console::erase() const {
  if (block_.empty()) return "";
  const int width = style().width + 1;
  int rows = 0;
  for (int w : widths_) rows += std::max(1, (w + width - 1) / width);
  return "\r\033[" + std::to_string(rows) + "A\033[J";
}

static std::string joined(const std::vector<std::string>& lines) {
  std::string out;
  for (const auto& line : lines) out += line + "\n";
  return out;
}

void Console::draw(std::vector<std::string> block) {
  if (!redraws_) return;
  std::lock_guard lock(mutex_);
  if (block.empty() && block_.empty()) return;
  const std::string before = erase();
  block_ = std::move(block);
  widths_.clear();
  for (const auto& line : block_) widths_.push_back(columns_of(line));
  on_screen = !block_.empty();
  write_all(before + joined(block_));
}

void Console::say(std::string_view lines) {
  if (lines.empty()) return;
  std::lock_guard lock(mutex_);
  std::string text = redraws_ ? printable(lines, true) : std::string(lines);
  if (text.back() != '\n') text += '\n';
  write_all(erase() + text + joined(block_));
}

}  // namespace sluice::live
