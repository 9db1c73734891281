#include "tools/runtime/http_server.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>

#include "engine/base/seconds_since.h"
#include "tools/runtime/run/supervise.h"

namespace sluice {
namespace {

using Clock = std::chrono::steady_clock;

constexpr double headers_s = 10, body_s = 20, bytes_a_second = 500, write_s = 30, slice_s = 0.05;

class Connection final : public httplib::Stream {
 public:
  Connection(int socket, double most_s) : socket_(socket), most_s_(most_s) {}
  ~Connection() override {
    if (wrote_) read_rest();
    ::shutdown(socket_, SHUT_RDWR);
    ::close(socket_);
  }
  void headers_are_whole() {
    in_body_ = true;
    begin_ = Clock::now();
    received_ = held_ - next_;
  }

  bool is_readable() const override { return comes(); }
  bool is_writable() const override { return ready(POLLOUT, write_s); }
  ssize_t read(char* to, std::size_t n) override {
    if (next_ == held_) {  // the library asks for headers byte by byte
      if (!comes()) return -1;
      const ssize_t got = ::recv(socket_, buffer_.data(), buffer_.size(), 0);
      if (got <= 0) return got;
      next_ = 0;
      held_ = static_cast<std::size_t>(got);
      received_ += held_;
    }
    n = std::min(n, held_ - next_);
    std::copy_n(buffer_.data() + next_, n, to);
    next_ += n;
    return static_cast<ssize_t>(n);
  }
  ssize_t write(const char* from, std::size_t n) override {
    wrote_ = true;
    return is_writable() ? ::send(socket_, from, n, MSG_NOSIGNAL) : -1;
  }
  void get_remote_ip_and_port(std::string&, int&) const override {}
  void get_local_ip_and_port(std::string&, int&) const override {}
  int socket() const override { return socket_; }

 private:
  bool ready(short event, double seconds) const {
    pollfd one{socket_, event, 0};
    return ::poll(&one, 1, static_cast<int>(std::ceil(1000 * seconds))) > 0;
  }

  double limit_s() const {
    const double own =
        in_body_ ? body_s + static_cast<double>(received_) / bytes_a_second : headers_s;
    return std::min(most_s_, own);
  }

  // Whether there is something to read, in time.
  bool comes() const {
    for (;;) {
      if (in_body_ && stopping()) throw HttpRefusal{503, "the server is ending"};
      const double left = limit_s() - seconds_since(begin_);
      if (left <= 0) return late();
      if (ready(POLLIN, std::min(left, slice_s))) return true;
      if (!in_body_ && stopping()) return false;
    }
  }

  bool late() const {
    if (!in_body_) return false;
    if (limit_s() >= most_s_)
      throw HttpRefusal{408, fmt::format("the upload is not there in {} s", most_s_)};
    throw HttpRefusal{408, fmt::format("the upload comes too slowly: {} bytes in {:.0f} s",
                                       received_, seconds_since(begin_))};
  }

  // A socket that is closed with unread bytes resets the connection: a client that is still sending
  // may not see the answer. So it is read for a while first.
  void read_rest() {
    ::shutdown(socket_, SHUT_WR);
    const auto begin = Clock::now();
    while (seconds_since(begin) < (stopping() ? 0.5 : 2))
      if (ready(POLLIN, slice_s) && ::recv(socket_, buffer_.data(), buffer_.size(), 0) <= 0) return;
  }

  const int socket_;
  const double most_s_;
  bool in_body_ = false, wrote_ = false;
  Clock::time_point begin_ = Clock::now();  // of the headers or the body
  std::size_t received_ = 0;                // of these
  std::array<char, 16384> buffer_{};
  std::size_t next_ = 0, held_ = 0;
};

}  // namespace

void HttpServer::set_backlog(int n) { ::listen(svr_sock_, n); }

bool HttpServer::process_and_close_socket(int socket) {
  Connection connection(socket, most_s);
  bool is_closed = false;
  return process_request(connection, true, is_closed,
                         [&](httplib::Request&) { connection.headers_are_whole(); });
}

}  // namespace sluice
