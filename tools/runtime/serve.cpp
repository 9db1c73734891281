#include "tools/runtime/serve.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/socket.h>

#include <algorithm>
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
#include "engine/base/seconds_since.h"
#include "engine/state/zip_file.h"
#include "kernels/files/nifti_file.h"
#include "kernels/lists/data_list.h"
#include "tools/edge/manifest.h"
#include "tools/runtime/http_server.h"
#include "tools/runtime/package.h"
#include "tools/runtime/run/supervise.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;
using httplib::Request;
using httplib::Response;
using Clock = std::chrono::steady_clock;

constexpr const char* no_room = "there is no room for the upload";

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
    http_.most_s = timeout_s_;
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
    http_.set_pre_routing_handler([this](const Request& q, Response& r) {
      const auto why = refusal(q, r);
      if (!why) return HttpServer::HandlerResponse::Unhandled;
      refuse(r, *why);
      if (q.path == "/predict" && q.method == "POST") count(r, 0);
      return HttpServer::HandlerResponse::Handled;
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
    http_.set_backlog(SOMAXCONN);  // a burst of clients is told to come again, not reset
    tell(fmt::format("serving {} on http://{}:{}", package_.string(), host_, port));
    std::atomic<bool> over = false;
    std::thread end([&] {
      while (!over && !(stopping() && http_.is_running()))  // else stop() does nothing
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
      http_.stop();
    });
    http_.listen_after_bind();
    over = true;
    end.join();
    if (!stopping()) throw IoError("the machine gives the server no more connections");
  }

 private:
  // What is refused before anything of the body is read: the library would read a body that nobody
  // takes into memory, however slowly it comes.
  std::optional<HttpRefusal> refusal(const Request& q, Response& r) const {
    const std::string methods = allowed(q.path);
    if (methods.empty())
      return HttpRefusal{404, "POST /predict, GET /health and GET /metrics are answered"};
    if (methods.find(q.method) == std::string::npos) {
      r.set_header("Allow", methods);
      return HttpRefusal{405, q.path + " answers " + methods};
    }
    if (q.method != "POST") return std::nullopt;
    if (!token_.empty() && q.get_header_value("Authorization") != "Bearer " + token_)
      return HttpRefusal{401, "Authorization: Bearer TOKEN is missing or wrong"};
    const auto lengths = q.get_header_value_count("Content-Length");
    const std::string length = q.get_header_value("Content-Length");
    if (lengths > 1 || length.find_first_not_of("0123456789") != std::string::npos)
      return HttpRefusal{400, "Content-Length is no number of bytes"};
    if (q.has_header("Transfer-Encoding")) {
      if (q.get_header_value("Transfer-Encoding") != "chunked")
        return HttpRefusal{501, "Transfer-Encoding: only \"chunked\" is read"};
    } else if (lengths == 0) {
      return HttpRefusal{411, "Content-Length is missing"};
    }
    if (std::strtoull(length.c_str(), nullptr, 10) > max_bytes_)
      return HttpRefusal{413, too_large()};
    if (const std::string packed = q.get_header_value("Content-Encoding");
        q.get_header_value_count("Content-Encoding") > 1 ||
        (packed != "" && packed != "gzip" && packed != "deflate" && packed != "br" &&
         packed != "identity"))
      return HttpRefusal{415,
                         "Content-Encoding: only one of gzip, deflate, br and identity is read"};
    return std::nullopt;
  }

  // From the place in the queue to the answer.
  void answer(const Request& q, Response& r, const httplib::ContentReader& body) {
    const auto begin = Clock::now();
    if (waiting_.fetch_add(1) >= queue_ + 1) {
      refuse(r, {429, "too many requests wait; try again later"});
      r.set_header("Retry-After", "1");
    } else {
      try {
        const Scratch folder;
        const bool series = receive(q, body, folder.path);
        r.set_content(segmented(folder.path, series), "application/gzip");
      } catch (const HttpRefusal& why) {
        refuse(r, why);
      } catch (const std::exception& e) {
        refuse(r, {500, e.what()});
      }
    }
    --waiting_;
    count(r, seconds_since(begin));
  }

  void count(const Response& r, double seconds) {
    const std::lock_guard lock(counts_mutex_);
    ++answers_[r.status > 0 ? r.status : 200];
    seconds_ += seconds;
  }

  static void refuse(Response& r, const HttpRefusal& why) {
    r.status = why.status;
    r.set_content(why.why + "\n", "text/plain");
  }

  // The upload as files in FOLDER/in, as they come. Whether it is a DICOM series, zipped.
  bool receive(const Request& q, const httplib::ContentReader& body, const fs::path& folder) const {
    fs::create_directories(folder / "in");
    std::map<std::string, std::ofstream> files;
    std::ofstream* file = nullptr;
    std::size_t left = max_bytes_;
    const auto begin_file = [&](const std::string& key) {
      if (std::find(keys_.begin(), keys_.end(), key) == keys_.end())
        throw HttpRefusal{400, "the form has a file \"" + printable(key) + "\"; expected " +
                                   fmt::format("{}", fmt::join(keys_, ", "))};
      if (files.contains(key)) throw HttpRefusal{400, "the form has two files \"" + key + "\""};
      file = &(files[key] = std::ofstream(upload(folder, key), std::ios::binary));
      return true;
    };
    // Chunks and what was packed have no length that could be looked at before.
    const auto take = [&](const char* data, std::size_t n) {
      if (n > left) throw HttpRefusal{413, too_large()};
      left -= n;
      if (!file->write(data, static_cast<std::streamsize>(n))) throw HttpRefusal{507, no_room};
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
    if (!whole) throw HttpRefusal{400, "the upload ended early"};
    for (auto& [key, one] : files) {
      one.close();
      if (!one) throw HttpRefusal{507, no_room};
    }
    if (left == max_bytes_) throw HttpRefusal{400, "the upload is empty"};
    return place(folder);
  }

  static fs::path upload(const fs::path& folder, const std::string& key) {
    return folder / ("upload_" + key);
  }

  // The uploads to where the package's graph finds them. Whether they are a DICOM series.
  bool place(const fs::path& folder) const {
    std::uint64_t left = max_bytes_;
    for (const std::string& key : keys_) {
      const fs::path file = upload(folder, key);
      if (!fs::exists(file)) throw HttpRefusal{400, "the form lacks a file \"" + key + "\""};
      const std::string front = read_text(file, 4);
      if (keys_.size() == 1 && is_zip(front)) {
        unpack(folder, key);
        return true;
      }
      const bool gzip = front.starts_with("\x1f\x8b");
      const std::string name = keys_.size() == 1 ? key : "case_" + key;
      const fs::path path = folder / "in" / (name + (gzip ? ".nii.gz" : ".nii"));
      fs::rename(file, path);
      const std::uint64_t bytes = voxel_bytes(path);
      if (bytes > left)
        throw HttpRefusal{413, fmt::format("the upload's voxels take more than {} bytes (4 or more "
                                           "each)",
                                           max_bytes_)};
      left -= bytes;
    }
    return false;
  }

  // What a header says that the voxels take in memory; of a file that is wrong, 0.
  static std::uint64_t voxel_bytes(const fs::path& path) {
    try {
      const NiftiHeader h = read_nifti_header(path);
      return static_cast<std::uint64_t>(h.voxels()) * std::max<std::size_t>(4, size_of(h.type));
    } catch (const DataError&) {
      return 0;  // the run says what is wrong
    }
  }

  std::string too_large() const {
    return fmt::format("the upload is larger than {} bytes", max_bytes_);
  }

  // A zipped series as files of the one folder FOLDER/in/KEY, whatever folders it was zipped in.
  // Among DICOM files others are left out: an index, a viewer, a text.
  void unpack(const fs::path& folder, const std::string& key) const {
    const fs::path into = folder / "in" / key, others = folder / "others";
    std::string twice;  // among the others
    try {
      const std::string bytes = read_text(upload(folder, key));
      const ZipFile zip(bytes, "the upload");
      std::uint64_t left = max_bytes_;
      for (const auto& [path, entry] : zip.entries()) {
        const std::string name = fs::path(path).filename();
        if (name.empty() || name.starts_with('.') || path.starts_with("__MACOSX")) continue;
        if (name.size() > NAME_MAX)
          throw HttpRefusal{400, "a file's name in the archive is too long"};
        if (entry.bytes > left)
          throw HttpRefusal{413, fmt::format("the archive holds more than {} bytes", max_bytes_)};
        left -= entry.bytes;
        const std::string content = zip.unpacked(path);
        const bool is_slice =
            name != "DICOMDIR" && content.size() >= 132 && content.compare(128, 4, "DICM") == 0;
        const fs::path file = (is_slice ? into : others) / name;
        if (!fs::exists(file))
          write(file, content);
        else if (is_slice)
          throw two_files(name);
        else
          twice = name;
      }
    } catch (const DataError& e) {
      throw HttpRefusal{400, e.what()};
    }
    if (fs::exists(into)) return;
    if (!fs::exists(others)) throw HttpRefusal{400, "the archive is empty"};
    if (!twice.empty()) throw two_files(twice);
    fs::rename(others, into);  // old DICOM files say nothing of it, or the run says what is wrong
  }

  static HttpRefusal two_files(const std::string& name) {
    return {400, "the archive has two files \"" + printable(name) + "\""};
  }

  static void write(const fs::path& path, const std::string& content) {
    fs::create_directories(path.parent_path());
    std::ofstream file(path, std::ios::binary);
    file << content;
    file.close();
    if (!file) throw HttpRefusal{507, no_room};
  }

  std::string segmented(const fs::path& folder, bool series) {
    const std::lock_guard one_at_a_time(engine_);
    if (stopping()) throw HttpRefusal{503, "the server is ending"};
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
      if (!session) throw HttpRefusal{500, "the package's graph is wrong"};
      outcome = run_for(*session, o);
    } catch (const Error& e) {
      throw HttpRefusal{e.exit == Exit::data ? 400 : 500, without(folder, e.what())};
    }
    if (outcome.status == Outcome::Status::failed)
      throw HttpRefusal{outcome.failure.exit == Exit::data ? 400 : 500,
                        without(folder, outcome.failure.str())};
    if (outcome.status != Outcome::Status::done)
      throw HttpRefusal{stopping() ? 503 : 504, stopping()
                                                    ? "the server is ending"
                                                    : fmt::format("not done in {} s", timeout_s_)};
    for (const auto& file : fs::directory_iterator(folder / "out/segmentations")) {
      const std::lock_guard lock(counts_mutex_);
      ++predictions_;
      computing_ += seconds_since(begin);
      return read_text(file.path());
    }
    throw HttpRefusal{500, "the prediction made no segmentation"};
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
  HttpServer http_;
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
