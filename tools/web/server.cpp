#include "tools/web/server.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <iostream>
#include <optional>
#include <thread>

#include "engine/base/error.h"
#include "engine/base/message.h"
#include "engine/base/shell_word.h"
#include "tools/runs/runs.h"
#include "tools/web/api.h"
#include "tools/web/guard.h"
#include "tools/web/page_files.h"

extern char** environ;

namespace sluice::web {
namespace {

namespace fs = std::filesystem;
using HttpRequest = httplib::Request;
using httplib::Response;

// A thread a connection: those that wait for a request cost a stack that nothing touches, so a
// thousand idle ones keep nobody out. More have to wait.
class Threads final : public httplib::TaskQueue {
 public:
  void enqueue(std::function<void()> work) override {
    std::unique_lock lock(shared_->mutex);
    shared_->ended.wait(lock, [&] { return shared_->at_work < most; });
    ++shared_->at_work;
    std::thread([shared = shared_, work = std::move(work)] {
      work();
      const std::lock_guard done(shared->mutex);
      --shared->at_work;
      shared->ended.notify_all();
    }).detach();
  }
  void shutdown() override {
    std::unique_lock lock(shared_->mutex);
    shared_->ended.wait(lock, [&] { return shared_->at_work == 0; });
  }

 private:
  static constexpr int most = 2048;
  struct Shared {
    std::mutex mutex;
    std::condition_variable ended;
    int at_work = 0;
  };
  const std::shared_ptr<Shared> shared_ = std::make_shared<Shared>();  // the last thread's, too
};

void allow_connections() {
  rlimit files{};
  if (::getrlimit(RLIMIT_NOFILE, &files) != 0) return;
  files.rlim_cur = std::min<rlim_t>(files.rlim_max, 8192);
  ::setrlimit(RLIMIT_NOFILE, &files);
}

void refuse(Response& r, int status, const std::string& why, Json more = Json::object()) {
  more["error"] = why;
  r.status = status;
  r.set_content(more.dump(-1, ' ', false, Json::error_handler_t::replace), "application/json");
  r.set_header("Connection", "close");  // what is left of a body is not read
}

// A page that goes on to the address, readable by this user alone: an address on a command line is
// everybody's to see.
class Redirect {
 public:
  explicit Redirect(const std::string& address) {
    const char* folder = std::getenv("XDG_RUNTIME_DIR");
    if (!folder || !*folder) return;
    std::string name = (fs::path(folder) / "sluice-open-XXXXXX.html").string();
    const int fd = ::mkostemps(name.data(), 5, O_CLOEXEC);  // 0600
    if (fd < 0) return;
    const std::string text =
        "<!doctype html><meta http-equiv=\"refresh\" content=\"0;url=" + address +
        "\"><title>Sluice</title>\n";
    if (::write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size())) file_ = name;
    ::close(fd);
  }
  ~Redirect() {
    if (!file_.empty()) ::unlink(file_.c_str());
  }
  Redirect(const Redirect&) = delete;
  Redirect& operator=(const Redirect&) = delete;

  bool open() const {
    if (file_.empty() || (!std::getenv("DISPLAY") && !std::getenv("WAYLAND_DISPLAY"))) return false;
    std::string program = "xdg-open", file = file_;
    char* argv[] = {program.data(), file.data(), nullptr};
    pid_t child = -1;
    return ::posix_spawnp(&child, "xdg-open", nullptr, nullptr, argv, environ) == 0;
  }

 private:
  std::string file_;
};

// A socket in the file system that this user alone may connect to; gone with the server. The
// library knows ports only, but accepts from whatever socket it holds.
class SocketFile {
 public:
  explicit SocketFile(const std::string& path) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    if (path.size() >= sizeof address.sun_path)
      throw Error(Exit::usage, "--socket " + path + ": the system takes at most " +
                                   std::to_string(sizeof address.sun_path - 1) + " bytes");
    path.copy(address.sun_path, path.size());
    const auto* at = reinterpret_cast<const sockaddr*>(&address);
    remove_left(path, at, sizeof address);
    fd_ = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const mode_t before = ::umask(0177);
    const bool bound = fd_ >= 0 && ::bind(fd_, at, sizeof address) == 0;
    ::umask(before);
    if (!bound || ::listen(fd_, SOMAXCONN) != 0)
      throw IoError("--socket " + path + ": " + std::strerror(errno));
    path_ = path;
  }
  ~SocketFile() { ::unlink(path_.c_str()); }
  SocketFile(const SocketFile&) = delete;
  SocketFile& operator=(const SocketFile&) = delete;
  int listening() const { return fd_; }  // the server closes it

 private:
  // What a server left that was killed.
  static void remove_left(const std::string& path, const sockaddr* at, socklen_t size) {
    struct stat there {};
    if (::lstat(path.c_str(), &there) != 0) return;
    if (!S_ISSOCK(there.st_mode)) throw IoError("--socket " + path + ": is there, and no socket");
    const int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const bool left = ::connect(fd, at, size) != 0 && errno == ECONNREFUSED;
    ::close(fd);
    if (!left) throw IoError("--socket " + path + ": another server listens there");
    ::unlink(path.c_str());
  }

  int fd_ = -1;
  std::string path_;
};

class Server final : public httplib::Server {
 public:
  void listen_on(int socket) { svr_sock_ = socket; }
};

// The port, or -1. No other process may share it, and more than the library's five connections may
// wait to be accepted.
int bind(httplib::Server& http, int wanted) {
  const char* host = "127.0.0.1";
  int listening = -1;
  http.set_socket_options([&](int socket) {
    const int yes = 1;
    ::setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    listening = socket;
  });
  const auto longer = [&](int port) {
    if (port > 0) ::listen(listening, SOMAXCONN);
    return port;
  };
  if (wanted == 0) return longer(http.bind_to_any_port(host));
  for (int port = wanted; port < std::min(wanted + 20, 65536); ++port) {
    if (!http.bind_to_port(host, port)) continue;
    if (port != wanted)
      tell("port " + std::to_string(wanted) + " is taken, perhaps by another `sluice open`; this " +
           "is " + std::to_string(port));
    return longer(port);
  }
  return -1;
}

void add_page(httplib::Server& http) {
  const auto send = [](Response& r, std::string_view name) {
    for (const PageFile& file : page_files())
      if (file.name == name) {
        r.set_content(file.text.data(), file.text.size(), std::string(file.type).c_str());
        return;
      }
    refuse(r, 404, "there is nothing here");
  };
  http.Get("/", [send](const HttpRequest&, Response& r) { send(r, "index.html"); });
  http.Get(R"(/page/([A-Za-z0-9_.-]+))",
           [send](const HttpRequest& q, Response& r) { send(r, q.matches[1].str()); });
}

// What the command line named, and the folder that holds it: here, where it lies below.
struct Opened {
  fs::path root = fs::current_path();
  fs::path graph, run;
};

Opened find_opened(const std::string& what) {
  Opened o;
  if (what.empty()) return o;
  const fs::path path = fs::weakly_canonical(what);
  if (!fs::exists(path)) throw IoError(what + ": no such file or folder");
  const bool is_folder = fs::is_directory(path), is_run = is_folder && runs::is_run(path);
  const fs::path folder = is_folder && !is_run ? path : path.parent_path();
  if (!is_folder) o.graph = path;
  if (is_run) o.run = path;
  const std::string below = folder.lexically_relative(o.root).string();
  if (below.starts_with("..") || (is_folder && !is_run)) o.root = folder;
  return o;
}

}  // namespace

int serve(const Request& request) {
  allow_connections();
  const Opened opened = find_opened(request.what);
  Guard guard(new_token(), request.read_only);
  std::optional<SocketFile> socket;
  if (!request.socket.empty()) socket.emplace(fs::absolute(request.socket).string());
  Api api(request, opened.root, opened.graph, opened.run);

  Server http;
  http.set_payload_max_length(largest_file);
  http.set_read_timeout(10);
  http.set_write_timeout(10);
  http.set_keep_alive_timeout(3);
  http.set_keep_alive_max_count(10'000);
  http.new_task_queue = [] { return new Threads; };
  http.set_default_headers(safe_headers());
  http.set_pre_routing_handler([&](const HttpRequest& q, Response& r) {
    const Verdict verdict = guard.look(q);
    if (verdict.status == 0) return httplib::Server::HandlerResponse::Unhandled;
    refuse(r, verdict.status, verdict.why);
    return httplib::Server::HandlerResponse::Handled;
  });
  http.set_error_handler([](const HttpRequest&, Response& r) {
    if (r.body.empty())
      refuse(r, r.status,
             r.status == 413   ? "more than 16 MiB"
             : r.status == 404 ? "there is nothing here"
                               : "this request cannot be read");
  });
  add_page(http);
  api.add(http);

  // Behind a socket the port is that of the other end, where the browser is.
  const int port = socket ? (request.port > 0 ? request.port : 8000) : bind(http, request.port);
  if (port < 0) throw IoError("no port of 127.0.0.1 is free");
  if (socket) http.listen_on(socket->listening());
  guard.serve_on(port);
  const std::string address = "http://127.0.0.1:" + std::to_string(port) + "/#" + guard.token();
  std::cout << address << std::endl;
  std::optional<Redirect> redirect;
  if (!socket) redirect.emplace(address);
  if (socket)
    tell("where the browser is: ssh -L " + std::to_string(port) + ":" +
         shell_word(fs::absolute(request.socket).string()) +
         " HOST, then this address; Ctrl-C ends the server, runs go on");
  else if (request.browser && redirect->open())
    tell("opened in the browser; Ctrl-C ends this server, runs go on");
  else
    tell("open this address in a browser; Ctrl-C ends the server, runs go on");
  std::atomic<bool> ended{false};
  std::thread end([&] {
    const auto until = [&](const auto& holds) {
      while (!ended && !holds()) std::this_thread::sleep_for(std::chrono::milliseconds(50));
    };
    until([&] { return *request.signal != 0; });
    api.close();
    until([&] { return http.is_running(); });  // before that the library does not hear `stop`
    http.stop();
  });
  http.listen_after_bind();
  ended = true;
  end.join();
  return 0;
}

}  // namespace sluice::web

extern "C" __attribute__((visibility("default"))) int sluice_web_serve(
    const sluice::web::Request& request) {
  return sluice::web::serve(request);
}
