#include "tools/runs/files.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <sstream>

#include "engine/base/read_file.h"
#include "engine/base/system_call.h"

namespace sluice::runs {

namespace fs = std::filesystem;

std::string text_of(const fs::path& file) {
  const int fd = open_to_read(file.c_str());
  if (fd < 0) return "";
  ::close(fd);
  return read_text(file);
}

Json read_json(const fs::path& file) {
  Json j = Json::parse(text_of(file), nullptr, /*allow_exceptions=*/false);
  return j.is_object() ? j : Json();
}

std::vector<Json> read_lines(const fs::path& file) {
  std::vector<Json> all;
  std::istringstream in(text_of(file));
  for (std::string line; std::getline(in, line);) {
    Json j = Json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (j.is_object()) all.push_back(std::move(j));
  }
  return all;
}

std::string text(const Json& object, const char* key) {
  if (!object.is_object()) return "";
  const auto it = object.find(key);
  return it != object.end() && it->is_string() ? it->get<std::string>() : "";
}

double number(const Json& object, const char* key, double otherwise) {
  if (!object.is_object()) return otherwise;
  const auto it = object.find(key);
  return it != object.end() && it->is_number() ? it->get<double>() : otherwise;
}

Json sessions_of(const fs::path& folder) {
  Json all = Json::array();
  for (const Json& line : read_lines(folder / "sessions.jsonl")) {
    if (text(line, "event") == "begin") {
      all.push_back({{"time", text(line, "time")},
                     {"steps_before", number(line, "steps")},
                     {"resumed_from", text(line, "resumed_from")}});
      if (line.contains("command")) all.back()["command"] = line["command"];
    } else if (text(line, "event") == "end" && !all.empty()) {
      all.back()["status"] = text(line, "status");
      all.back()["steps"] = number(line, "steps");
      all.back()["wall_s"] = number(line, "wall_s");
    }
  }
  return all;
}

void write_whole(const fs::path& file, const std::string& text) {
  write_whole(file, [&](const Put& put) { put(text); });
}

void write_whole(const fs::path& file, const std::function<void(const Put&)>& pieces) {
  std::error_code ignored;
  const fs::path target =
      fs::is_symlink(file, ignored) ? fs::weakly_canonical(file, ignored) : file;
  const bool replaces = !fs::exists(target, ignored) || fs::is_regular_file(target, ignored);
  const std::string part = replaces ? target.string() + ".part" : target.string();
  std::FILE* out = std::fopen(part.c_str(), "wbe");
  int cause = out ? 0 : errno;
  struct stat old {};
  if (out && replaces && ::stat(target.c_str(), &old) == 0 &&
      ::fchmod(::fileno(out), old.st_mode & 07777) != 0)
    cause = errno;
  if (out)
    pieces([&](std::string_view text) {
      if (cause == 0 && std::fwrite(text.data(), 1, text.size(), out) != text.size()) cause = errno;
    });
  if (out && std::fclose(out) != 0 && cause == 0) cause = errno;
  if (cause == 0 && replaces && std::rename(part.c_str(), target.c_str()) != 0) cause = errno;
  if (cause == 0) return;
  if (out && replaces) std::remove(part.c_str());
  fail_call("cannot write " + file.string(), cause);
}

}  // namespace sluice::runs
