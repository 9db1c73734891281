// A terminal in small: what a program that runs on a pseudo-terminal leaves on its screen.
#pragma once

#include <fcntl.h>
#include <poll.h>
#include <pty.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

namespace shell {

// Understands what Sluice writes: text, CR, LF, "up n lines", "erase what is below", colours. All
// that scrolled off is kept.
class Screen {
 public:
  int width = 80, height = 24;
  std::vector<std::string> rows{""};  // UTF-8, without trailing blanks; the newest last
  std::string unknown;                // sequences that it does not understand

  void feed(const std::string& bytes) {
    for (const char c : bytes) {
      if (!escape_.empty())
        sequence(c);
      else if (c == '\033')
        escape_ = c;
      else if (c == '\r')
        column_ = 0;
      else if (c == '\n')
        down();
      else
        put(c);
    }
  }
  std::string text() const {  // what is to be seen
    std::string out;
    const auto top = rows.size() - std::min(rows.size(), static_cast<std::size_t>(height));
    for (std::size_t i = top; i < rows.size(); ++i) out += rows[i] + "\n";
    return out;
  }

 private:
  void down() {
    if (++row_ == rows.size()) rows.emplace_back();
  }
  // Writes only ever begin at a line's start, so a character goes to the end of its row.
  void put(char c) {
    if (column_ == 0) rows[row_].clear();
    if (column_ == width && (static_cast<unsigned char>(c) & 0xC0) != 0x80) {  // wraps
      down();
      rows[row_].clear();
      column_ = 0;
    }
    rows[row_] += c;
    if ((static_cast<unsigned char>(c) & 0xC0) != 0x80) ++column_;
  }
  void sequence(char c) {
    escape_ += c;
    if (escape_.size() < 3 || !(c >= '@' && c <= '~')) return;
    const int n = std::max(1, std::atoi(escape_.c_str() + 2));
    if (c == 'A') {
      const std::size_t top =
          rows.size() > static_cast<std::size_t>(height) ? rows.size() - height : 0;
      row_ = std::max(top, row_ >= static_cast<std::size_t>(n) ? row_ - n : 0);
    } else if (c == 'J') {
      rows.resize(row_ + 1);
      rows[row_].clear();
    } else if (c != 'm') {
      unknown += escape_.substr(1) + " ";
    }
    escape_.clear();
  }

  std::string escape_;
  std::size_t row_ = 0;
  int column_ = 0;
};

// A program whose stderr is a pseudo-terminal and whose stdout is a file.
struct OnTerminal {
  Screen screen;
  std::string raw;  // every byte it wrote
  int code = -1;

  // Runs until `enough` says so or `seconds` went by, then interrupts it and waits for its end.
  void run(std::vector<std::string> words, const std::vector<std::string>& variables,
           const std::string& out, const std::function<bool(const OnTerminal&)>& enough,
           double seconds = 60) {
    winsize size{static_cast<unsigned short>(screen.height),
                 static_cast<unsigned short>(screen.width), 0, 0};
    int terminal = -1;
    const pid_t child = forkpty(&terminal, nullptr, nullptr, &size);
    if (child == 0) {
      dup2(open(out.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600), 1);
      for (const auto& v : variables) putenv(const_cast<char*>(v.c_str()));
      std::vector<char*> argv;
      for (auto& w : words) argv.push_back(w.data());
      argv.push_back(nullptr);
      execv(argv[0], argv.data());
      _exit(127);
    }
    const bool in_time = read(terminal, seconds, [&] { return enough(*this); });
    kill(child, SIGINT);
    if (!in_time || !read(terminal, seconds, [] { return false; })) kill(child, SIGKILL);
    int status = 0;
    waitpid(child, &status, 0);
    code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    close(terminal);
  }

 private:
  // False where the time is up; true at the end of what it writes, and where `enough`.
  bool read(int terminal, double seconds, const std::function<bool()>& enough) {
    for (int left = static_cast<int>(seconds * 20); left > 0;) {
      pollfd p{terminal, POLLIN, 0};
      if (poll(&p, 1, 50) <= 0) {
        --left;
        if (enough()) return true;
        continue;
      }
      char buffer[4096];
      const ssize_t n = ::read(terminal, buffer, sizeof buffer);
      if (n <= 0) return true;
      raw.append(buffer, static_cast<std::size_t>(n));
      screen.feed(std::string(buffer, static_cast<std::size_t>(n)));
      if (enough()) return true;
    }
    return false;
  }
};

}  // namespace shell
