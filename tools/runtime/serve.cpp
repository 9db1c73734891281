#include "tools/runtime/serve.h"

// As Debian's library was compiled.
#define CPPHTTPLIB_OPENSSL_SUPPORT
#define CPPHTTPLIB_ZLIB_SUPPORT
#define CPPHTTPLIB_BROTLI_SUPPORT
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <httplib.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <climits>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <mutex>
#include <optional>
#include <thread>

#include "engine/base/error.h"
#include "engine/base/message.h"
#include "engine/base/read_file.h"
#include "engine/base/scratch.h"
#include "engine/state/zip_file.h"
#include "kernels/lists/data_list.h"
#include "tools/edge/manifest.h"
#include "tools/runtime/package.h"
#include "tools/runtime/run/supervise.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;
using httplib::Request;
using httplib::Response;
using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

// What a client is told when it gets no segmentation.
struct Refusal {
  int status;
  std::string why;
};

constexpr const char* no_room = "there is no room for the upload";

constexpr double most_headers_s = 10;

// A connection whose headers have to be whole by a certain time, however slowly they come: else
// clients that send a byte now and then would hold all threads.
class Connection final : public httplib::Stream {
 public:
  Connection(int socket, double headers_s)
      : socket_(socket),
        last_(Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                 std::chrono::duration<double>(headers_s))) {}
  ~Connection() override {
    ::shutdown(socket_, SHUT_RDWR);
    ::close(socket_);
  }
  void headers_are_whole() { last_.reset(); }

  bool is_readable() const override { return waits(POLLIN); }
  bool is_writable() const override { return waits(POLLOUT); }
  ssize_t read(char* to, std::size_t n) override {
    if (next_ == held_) {  // the library asks for headers byte by byte
      if (!is_readable()) return -1;
      const ssize_t got = ::recv(socket_, buffer_.data(), buffer_.size(), 0);
      if (got <= 0) return got;
      next_ = 0;
      held_ = static_cast<std::size_t>(got);
    }
    n = std::min(n, held_ - next_);
    std::copy_n(buffer_.data() + next_, n, to);
    next_ += n;
    return static_cast<ssize_t>(n);
  }
  ssize_t write(const char* from, std::size_t n) override {
    return is_writable() ? ::send(socket_, from, n, MSG_NOSIGNAL) : -1;
  }
  void get_remote_ip_and_port(std::string&, int&) const override {}
  void get_local_ip_and_port(std::string&, int&) const override {}
  int socket() const override { return socket_; }

 private:
  bool waits(short event) const {
    using std::chrono::milliseconds;
    milliseconds most(30'000);
    if (last_) most = std::chrono::duration_cast<milliseconds>(*last_ - Clock::now());
    pollfd one{socket_, event, 0};
    return most.count() > 0 && ::poll(&one, 1, static_cast<int>(most.count())) > 0;
  }

  const int socket_;
  std::optional<Clock::time_point> last_;  // until the headers are whole
  std::array<char, 16384> buffer_{};
  std::size_t next_ = 0, held_ = 0;
};

// One request a connection: a client that was refused goes on sending what nobody reads.
class Http final : public httplib::Server {
 public:
  double headers_s = most_headers_s;

 private:
  bool process_and_close_socket(int socket) override {
    Connection connection(socket, headers_s);
    bool is_closed = false;
    return process_request(connection, true, is_closed,
                           [&](Request&) { connection.headers_are_whole(); });
  }
};

// Of a path that is served: what may be asked there.
std::string allowed(const std::string& path) {
  if (path == "/predict") return "POST";
  return path == "/health" || path == "/metrics" ? "GET, HEAD" : "";
}

class Server {
 public:
  explicit Server(const Json& request)
      : package_(request.at("package").get<std::string>()),
        host_(request.at("host")),
        queue_(request.at("queue")),
        timeout_s_(request.at("timeout_s")),
        max_bytes_(request.at("max_bytes")) {
    if (const char* token = std::getenv("SLUICE_TOKEN")) token_ = token;
    if (!is_package(package_))
      throw Error(Exit::usage, package_.string() +
                                   ": is no package: `sluice export RUN --package DIR` makes one");
    place_ = fs::canonical(package_);
    if (token_.empty() && host_ != "127.0.0.1" && host_ != "localhost" && host_ != "::1")
      throw Error(Exit::usage, "--host " + host_ +
                                   ": others than this machine are served with a "
                                   "token alone: set SLUICE_TOKEN");
    Options o = package_run(package_, "", "");
    o.graphs = {package_.string()};
    open_packages(o);  // it is whole
    keys_ = read_json(package_ / "manifest.json").at("images").at("files_a_case");
  }

  void run(int port) {
    http_.set_payload_max_length(max_bytes_);
    http_.headers_s = std::min(most_headers_s, timeout_s_);
    // Without SO_REUSEPORT, with which two servers could share a port.
    http_.set_socket_options([](int socket) {
      const int yes = 1;
      ::setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    });
    // Those that wait, the one that is at work, and those who ask how it goes.
    http_.new_task_queue = [this] { return new httplib::ThreadPool(queue_ + 4); };
    http_.Get("/health", [this](const Request&, Response& r) {
      r.set_content(Json{{"status", "ok"},
                         {"package", place_.filename().string()},
                         {"waiting", waiting_.load()}}
                        .dump(),
                    "application/json");
    });
    http_.Get("/metrics", [this](const Request&, Response& r) {
      r.set_content(metrics(), "text/plain; version=0.0.4");
    });
    http_.Post("/predict", [this](const Request& q, Response& r,
                                  const httplib::ContentReader& body) { answer(q, r, body); });
    http_.set_error_handler([](const Request& q, Response& r) {
      if (!r.body.empty()) return;
      const std::string other = allowed(q.path);
      if (r.status == 413) r.set_content("the upload is too large\n", "text/plain");
      if (r.status != 404) return;
      if (other.empty())
        return r.set_content("POST /predict, GET /health and GET /metrics are answered\n",
                             "text/plain");
      r.status = 405;
      r.set_header("Allow", other);
      r.set_content(q.path + " answers " + other + "\n", "text/plain");
    });
    if (port == 0) {
      port = http_.bind_to_any_port(host_);
      if (port < 0) throw IoError("--host " + host_ + ": this machine has no such address");
    } else if (!http_.bind_to_port(host_, port)) {
      throw IoError(
          fmt::format("--port {}: cannot listen on {}:{}: another program does, or this "
                      "machine has no such address; --port 0 takes any free one",
                      port, host_, port));
    }
    tell(fmt::format("serving {} on http://{}:{}", package_.string(), host_, port));
    std::thread end([this] {
      while (!stopping()) std::this_thread::sleep_for(std::chrono::milliseconds(50));
      http_.stop();
    });
    http_.listen_after_bind();
    end.join();
  }

 private:
  // From the place in the queue to the answer.
  void answer(const Request& q, Response& r, const httplib::ContentReader& body) {
    const auto begin = Clock::now();
    if (waiting_.fetch_add(1) >= queue_ + 1) {
      refuse(r, {429, "too many requests wait; try again later"});
      r.set_header("Retry-After", "1");
    } else {
      try {
        if (!token_.empty() && q.get_header_value("Authorization") != "Bearer " + token_)
          throw Refusal{401, "Authorization: Bearer TOKEN is missing or wrong"};
        // The library would read what is declared too large to its end, however slowly it comes.
        const std::string declared = q.get_header_value("Content-Length");
        if (std::strtoull(declared.c_str(), nullptr, 10) > max_bytes_)
          throw Refusal{413, too_large()};
        const Scratch folder;
        const bool series = receive(q, r, body, folder.path);
        r.set_content(segmented(folder.path, series), "application/gzip");
      } catch (const Refusal& why) {
        refuse(r, why);
      } catch (const std::exception& e) {
        refuse(r, {500, e.what()});
      }
    }
    --waiting_;
    const std::lock_guard lock(counts_mutex_);
    ++answers_[r.status > 0 ? r.status : 200];
    seconds_ += seconds_since(begin);
  }

  static void refuse(Response& r, const Refusal& why) {
    r.status = why.status;
    r.set_content(why.why + "\n", "text/plain");
    r.set_header("Connection", "close");  // what is left of the upload is not read
  }

  // The upload as files in FOLDER/in, as they come. Whether it is a DICOM series, zipped.
  bool receive(const Request& q, Response& r, const httplib::ContentReader& body,
               const fs::path& folder) const {
    fs::create_directories(folder / "in");
    std::map<std::string, std::ofstream> files;
    std::ofstream* file = nullptr;
    std::optional<Refusal> why;
    const auto stop = [&](int status, const std::string& text) {
      if (!why) why = Refusal{status, text};
      return false;
    };
    const auto begin = Clock::now();
    std::size_t left = max_bytes_;
    const auto begin_file = [&](const std::string& key) {
      if (std::find(keys_.begin(), keys_.end(), key) == keys_.end())
        return stop(400, "the form has a file \"" + printable(key) + "\"; expected " +
                             fmt::format("{}", fmt::join(keys_, ", ")));
      if (files.contains(key)) return stop(400, "the form has two files \"" + key + "\"");
      file = &(files[key] = std::ofstream(folder / key, std::ios::binary));
      return true;
    };
    // Chunks and what was packed have no length that could be looked at before.
    const auto take = [&](const char* data, std::size_t n) {
      if (n > left) return stop(413, too_large());
      left -= n;
      if (seconds_since(begin) > timeout_s_)
        return stop(408, fmt::format("the upload is not there in {} s", timeout_s_));
      if (!file->write(data, static_cast<std::streamsize>(n))) return stop(507, no_room);
      return true;
    };
    bool whole = false;
    if (q.is_multipart_form_data()) {
      whole =
          body([&](const httplib::MultipartFormData& part) { return begin_file(part.name); }, take);
    } else {
      begin_file(keys_[0]);
      whole = body(take);
    }
    if (!why && r.status == 413) stop(413, too_large());
    if (!why && !whole) stop(400, "the upload ended early");
    for (auto& [key, one] : files) {
      one.close();
      if (!one) stop(507, no_room);
    }
    if (why) throw Refusal(*why);
    for (const std::string& key : keys_) {
      if (!fs::exists(folder / key)) throw Refusal{400, "the form lacks a file \"" + key + "\""};
      const std::string front = read_text(folder / key, 4);
      if (keys_.size() == 1 && is_zip(front)) {
        unpack(folder / key, folder / "in" / key);
        return true;
      }
      const bool gzip = front.starts_with("\x1f\x8b");
      const std::string name = keys_.size() == 1 ? key : "case_" + key;
      fs::rename(folder / key, folder / "in" / (name + (gzip ? ".nii.gz" : ".nii")));
    }
    return false;
  }

  std::string too_large() const {
    return fmt::format("the upload is larger than {} bytes", max_bytes_);
  }

  // A zipped series as files of one folder, whatever folders it was zipped in.
  void unpack(const fs::path& archive, const fs::path& into) const {
    try {
      const std::string bytes = read_text(archive);
      const ZipFile zip(bytes, "the upload");
      std::uint64_t left = max_bytes_;
      for (const auto& [path, entry] : zip.entries()) {
        const std::string name = fs::path(path).filename();
        if (name.empty() || name.starts_with('.') || path.starts_with("__MACOSX")) continue;
        if (name.size() > NAME_MAX) throw Refusal{400, "a file's name in the archive is too long"};
        if (entry.bytes > left)
          throw Refusal{413, fmt::format("the archive holds more than {} bytes", max_bytes_)};
        left -= entry.bytes;
        if (fs::exists(into / name))
          throw Refusal{400, "the archive has two files \"" + printable(name) + "\""};
        fs::create_directories(into);
        std::ofstream file(into / name, std::ios::binary);
        file << zip.unpacked(path);
        file.close();
        if (!file) throw Refusal{507, no_room};
      }
      if (!fs::exists(into)) throw Refusal{400, "the archive is empty"};
    } catch (const DataError& e) {
      throw Refusal{400, e.what()};
    }
  }

  std::string segmented(const fs::path& folder, bool series) {
    const std::lock_guard one_at_a_time(engine_);
    if (stopping()) throw Refusal{503, "the server is ending"};
    const auto begin = Clock::now();
    Options o = package_run(place_, folder / "in", folder / "out");
    if (series)
      o.set.push_back("nodes.cases=" + Json{{"type", "file_patterns"},
                                            {"root", "@images"},
                                            {"patterns", {{keys_[0], "*/"}}}}
                                           .dump());
    o.warnings = false;
    o.seconds = timeout_s_;
    Outcome outcome;
    try {
      const auto session = Session::open(o);
      if (!session) throw Refusal{500, "the package's graph is wrong"};
      outcome = run_for(*session, o);
    } catch (const Error& e) {
      throw Refusal{e.exit == Exit::data ? 400 : 500, without(folder, e.what())};
    }
    if (outcome.status == Outcome::Status::failed)
      throw Refusal{outcome.failure.exit == Exit::data ? 400 : 500,
                    without(folder, outcome.failure.str())};
    if (outcome.status != Outcome::Status::done)
      throw Refusal{stopping() ? 503 : 504, stopping()
                                                ? "the server is ending"
                                                : fmt::format("not done in {} s", timeout_s_)};
    for (const auto& file : fs::directory_iterator(folder / "out/segmentations")) {
      const std::lock_guard lock(counts_mutex_);
      ++predictions_;
      computing_ += seconds_since(begin);
      return read_text(file.path());
    }
    throw Refusal{500, "the prediction made no segmentation"};
  }

  // Where files lie here is nothing to a client.
  std::string without(const fs::path& folder, std::string text) const {
    for (const std::string& part :
         {(folder / "in").string() + "/", folder.string(), place_.string() + "/"})
      for (auto at = text.find(part); at != std::string::npos; at = text.find(part))
        text.erase(at, part.size());
    return text;
  }

  std::string metrics() {
    const std::lock_guard lock(counts_mutex_);
    std::string text = "# TYPE sluice_requests_total counter\n";
    std::uint64_t all = 0;
    for (const auto& [status, n] : answers_) {
      text += fmt::format("sluice_requests_total{{status=\"{}\"}} {}\n", status, n);
      all += n;
    }
    return text + fmt::format(
                      "# TYPE sluice_request_seconds summary\nsluice_request_seconds_sum {:.6f}\n"
                      "sluice_request_seconds_count {}\n"
                      "# TYPE sluice_prediction_seconds summary\n"
                      "sluice_prediction_seconds_sum {:.6f}\nsluice_prediction_seconds_count {}\n"
                      "# TYPE sluice_waiting gauge\nsluice_waiting {}\n",
                      seconds_, all, computing_, predictions_, waiting_.load());
  }

  const fs::path package_;  // as it was given
  fs::path place_;          // in full: no other text has it by chance
  const std::string host_;
  const std::int64_t queue_;
  const double timeout_s_;
  const std::size_t max_bytes_;
  std::string token_;
  std::vector<std::string> keys_;
  Http http_;
  std::mutex engine_;
  std::atomic<std::int64_t> waiting_{0};
  std::mutex counts_mutex_;
  std::map<int, std::uint64_t> answers_;  // by status
  std::uint64_t predictions_ = 0;
  double seconds_ = 0, computing_ = 0;
};

}  // namespace

int serve_command(const Json& request) {
  Server(request).run(request.at("port"));
  return static_cast<int>(Exit::done);
}

}  // namespace sluice
