#include "kernels/files/dicom.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <nlohmann/json.hpp>
#include <vector>

#include "engine/base/system_call.h"
#include "kernels/files/file_io.h"
#include "kernels/files/text_header.h"

extern char** environ;

namespace sluice {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

// Beside the binary or library that this code is in; SLUICE_DICOM overrides.
std::string reader_file() {
  if (const char* given = std::getenv("SLUICE_DICOM"); given && *given) return given;
  Dl_info info{};
  fs::path folder;
  std::error_code problem;
  if (::dladdr(reinterpret_cast<void*>(&is_dicom_file), &info) != 0 && info.dli_fname)
    folder = fs::canonical(info.dli_fname, problem).parent_path();
  if (problem || !fs::exists(folder / "sluice_dicom", problem))
    folder = fs::read_symlink("/proc/self/exe", problem).parent_path();
  return (folder / "sluice_dicom").string();
}

// Bytes that a process can have as its stdin, from the first.
class Given {
 public:
  Given() : file_(::memfd_create("sluice", MFD_CLOEXEC)) {
    if (file_ < 0) fail_call("no memory file", errno);
  }
  ~Given() { ::close(file_); }
  Given(const Given&) = delete;

  void add(const void* data, std::size_t size) {
    for (const char* p = static_cast<const char*>(data); size > 0;) {
      const ssize_t done = ::write(file_, p, size);
      if (done < 0 && errno == EINTR) continue;
      if (done < 0) fail_call("a memory file cannot be written", errno);
      p += done;
      size -= static_cast<std::size_t>(done);
    }
  }
  int rewound() const {
    ::lseek(file_, 0, SEEK_SET);
    return file_;
  }

 private:
  const int file_;
};

// A process whose stdout is read. It is gone when this is. `in` is its stdin; -1: nothing.
class Child {
 public:
  Child(const std::vector<std::string>& command, const std::string& name, int in) : name_(name) {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) fail_call(name + ": no pipe", errno);
    posix_spawn_file_actions_t actions;
    ::posix_spawn_file_actions_init(&actions);
    if (in >= 0)
      ::posix_spawn_file_actions_adddup2(&actions, in, 0);
    else
      ::posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    ::posix_spawn_file_actions_adddup2(&actions, ends[1], 1);
    ::posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", O_WRONLY, 0);
    std::vector<char*> words;
    for (const auto& word : command) words.push_back(const_cast<char*>(word.c_str()));
    words.push_back(nullptr);
    const int error = ::posix_spawn(&pid_, words[0], &actions, nullptr, words.data(), environ);
    ::posix_spawn_file_actions_destroy(&actions);
    ::close(ends[1]);
    out_ = ends[0];
    if (error != 0) {
      ::close(out_);
      fail_call(command[0] + ": cannot be started", error);
    }
  }
  ~Child() {
    ::close(out_);
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    wait();
  }
  Child(const Child&) = delete;

  // As many bytes as there are up to n; fewer where the child has closed its end.
  std::size_t read(void* to, std::size_t n, Clock::time_point until) {
    std::size_t done = 0;
    while (done < n) {
      const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(until - Clock::now());
      pollfd p{out_, POLLIN, 0};
      const int ready =
          ::poll(&p, 1, static_cast<int>(std::clamp<std::int64_t>(left.count(), 0, 1 << 30)));
      if (ready < 0 && errno == EINTR) continue;
      if (ready <= 0) throw DataError(name_ + ": reading it takes too long; given up");
      const ssize_t got = ::read(out_, static_cast<char*>(to) + done, n - done);
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0) return done;
      done += static_cast<std::size_t>(got);
    }
    return done;
  }
  // Its status, once it has ended.
  int wait() {
    int status = 0;
    while (::waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
    }
    pid_ = 0;
    return status;
  }

 private:
  const std::string& name_;
  pid_t pid_ = 0;
  int out_ = -1;
};

// The sizes of the series' files, each of which goes through `read`.
std::uint64_t total_bytes(const fs::path& folder, const ReadBytes& read) {
  std::uint64_t total = 0;
  std::error_code problem;
  if (!fs::is_directory(folder, problem)) return read(folder).size();
  for (const auto& entry : fs::directory_iterator(folder, problem))
    if (!entry.path().filename().string().starts_with('.')) total += read(entry.path()).size();
  if (problem) fail_to_list(folder, problem);
  if (total == 0) throw DataError(folder.string() + ": is an empty folder");
  return total;
}

// sluice_dicom at work on a series, with what its first line says.
class HelperProcess {
 public:
  HelperProcess(const fs::path& folder, const ReadBytes& read, int in = -1, std::uint64_t given = 0)
      : name_(folder.string()),
        bytes_(total_bytes(folder, read)),
        seconds_(30 + bytes_ / 1'000'000),
        until_(Clock::now() + std::chrono::seconds(4 * seconds_)),
        child_(command(in, given), name_, in) {
    said = nlohmann::json::parse(first_line(), nullptr, false);
    if (!said.is_object()) throw DataError(name_ + ": its reader failed");
    if (said.contains("error")) throw DataError(said["error"].get<std::string>());
  }

  FileBytes take(std::size_t size, const char* what) {
    FileBytes all(size);
    if (child_.read(all.data(), size, until_) != size)
      throw DataError(name_ + ": its reader ended before the last " + what);
    return all;
  }

  nlohmann::json said;

 private:
  std::vector<std::string> command(int in, std::uint64_t given) const {
    const std::uint64_t memory =
        std::min<std::uint64_t>((1u << 30) + 16 * bytes_ + 4 * given, 2 * max_volume_bytes);
    std::vector<std::string> words{reader_file(), std::to_string(memory), std::to_string(seconds_),
                                   name_};
    if (in >= 0) words.push_back("seg");
    return words;
  }

  std::string first_line() {
    std::string line;
    for (char c = 0; child_.read(&c, 1, until_) == 1 && c != '\n'; line.push_back(c))
      if (line.size() > 4096) break;
    if (!line.empty()) return line;
    const int status = child_.wait();
    if (WIFSIGNALED(status) && (WTERMSIG(status) == SIGXCPU || WTERMSIG(status) == SIGKILL))
      throw DataError(name_ + ": reading it takes too long; given up");
    throw DataError(name_ + ": a file of it ends the reader (" +
                    (WIFSIGNALED(status) ? std::string("signal ") + std::to_string(WTERMSIG(status))
                                         : "exit " + std::to_string(WEXITSTATUS(status))) +
                    ")");
  }

  const std::string name_;
  const std::uint64_t bytes_, seconds_;
  const Clock::time_point until_;
  Child child_;
};

RawVolume raw_volume(const nlohmann::json& header) {
  RawVolume raw;
  raw.type = stored_type(header.at("type"));
  raw.dim = header.at("dim").get<std::vector<std::int64_t>>();
  raw.channel_axis = raw.dim.size();
  const auto rows = header.at("affine").get<std::vector<double>>();
  std::copy_n(rows.begin(), 12, raw.affine.begin());
  return raw;
}

}  // namespace

bool is_dicom_file(const fs::path& file) {
  try {
    const FileBytes front = read_file_front(file, 132);
    return front.size() == 132 && std::memcmp(front.data() + 128, "DICM", 4) == 0;
  } catch (const MachineError&) {
    throw;
  } catch (const Error&) {
    return false;
  }
}

Volume read_dicom_series(const fs::path& folder, at::ScalarType dtype, const ReadBytes& read) {
  const std::string name = folder.string();
  HelperProcess reader(folder, read);
  const RawVolume raw = raw_volume(reader.said);
  check_affine(raw.affine, 3, name);
  FileBytes voxels = reader.take(voxel_bytes(raw, name), "voxel");
  return to_volume(raw, voxels, 0, dtype, name);
}

FileBytes dicom_segmentation(const fs::path& series, const at::Tensor& labels,
                             const Matrix4& affine, nlohmann::json about) {
  const at::Tensor voxels = labels[0].permute({2, 1, 0}).contiguous();  // X fastest
  about["dim"] = labels[0].sizes().vec();
  about["affine"] = std::vector<double>(affine.begin(), affine.begin() + 12);
  const std::string line = about.dump() + "\n";
  const auto size = static_cast<std::size_t>(voxels.numel());
  Given given;
  given.add(line.data(), line.size());
  given.add(voxels.const_data_ptr<std::uint8_t>(), size);
  HelperProcess writer(series, read_plain, given.rewound(), size);
  return writer.take(writer.said.at("bytes"), "byte of its segmentation");
}

}  // namespace sluice
