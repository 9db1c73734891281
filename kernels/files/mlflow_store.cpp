#include "kernels/files/mlflow_store.h"

#include <unistd.h>

#include <cctype>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <sstream>

#include "engine/base/json.h"
#include "engine/base/philox.h"
#include "engine/base/system_call.h"

namespace sluice {

namespace fs = std::filesystem;

namespace {

std::int64_t now_ms() {
  const auto since = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::milliseconds>(since).count();
}

void make_folder(const fs::path& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) fail_call("cannot make " + folder.string(), error.value());
}

void replace(const fs::path& file, const std::string& text) {
  const fs::path part = file.string() + "." + std::to_string(::getpid()) + ".part";
  std::ofstream out(part, std::ios::binary);
  out << text;
  out.close();
  if (!out || std::rename(part.c_str(), file.c_str()) != 0)
    fail_call("cannot write " + file.string(), errno);
}

std::string read(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

// A JSON string is a YAML string too.
std::string quoted(const std::string& text) {
  return Json(text).dump(-1, ' ', false, Json::error_handler_t::replace);
}

// A member of a meta.yaml, which is flat; as PyYAML writes strings: plain, or in quotes.
std::string member(const std::string& yaml, const std::string& key) {
  std::istringstream lines("\n" + yaml);
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with(key + ": ")) continue;
    std::string value = line.substr(key.size() + 2);
    if (value.starts_with('"')) {
      const Json parsed = Json::parse(value, nullptr, false);
      return parsed.is_string() ? parsed.get<std::string>() : value;
    }
    if (!value.starts_with('\'')) return value;
    std::string out;
    for (std::size_t i = 1; i + 1 < value.size(); ++i)
      if (out += value[i]; value[i] == '\'') ++i;  // '' is one '
    return out;
  }
  return "";
}

std::string find_experiment(const fs::path& store, const std::string& name) {
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(store, ignored)) {
    const std::string meta = read(entry.path() / "meta.yaml");
    if (member(meta, "name") == name && member(meta, "lifecycle_stage") != "deleted")
      return entry.path().filename().string();
  }
  return "";
}

// Of 18 digits, as MLflow's; from the name, so that two runs that begin at once agree.
std::string make_experiment(const fs::path& store, const std::string& name) {
  std::uint64_t digest = 0;
  for (const char c : name) digest = mix(digest ^ static_cast<unsigned char>(c));
  const std::string id = std::to_string(100'000'000'000'000'000 + digest % 900'000'000'000'000'000);
  const fs::path folder = store / id;
  make_folder(folder);
  const std::string now = std::to_string(now_ms());
  replace(folder / "meta.yaml", "artifact_location: " + quoted("file://" + folder.string()) +
                                    "\ncreation_time: " + now + "\nexperiment_id: '" + id +
                                    "'\nlast_update_time: " + now +
                                    "\nlifecycle_stage: active\nname: " + quoted(name) + "\n");
  return id;
}

// Names become paths, so no part of one leads out of its folder.
std::string valid(std::string name) {
  for (char& c : name)
    if (!std::isalnum(static_cast<unsigned char>(c)) && std::string("_-. /").find(c) == name.npos)
      c = '_';
  const std::string clean = fs::path("/" + name).lexically_normal().relative_path().string();
  return clean.empty() ? "_" : clean.substr(0, 250);
}

}  // namespace

MlflowRun::MlflowRun(const fs::path& store, About about) : about_(std::move(about)) {
  const fs::path root = fs::absolute(store).lexically_normal();
  make_folder(root);
  experiment_ = find_experiment(root, about_.experiment);
  if (experiment_.empty()) experiment_ = make_experiment(root, about_.experiment);
  folder_ = root / experiment_ / about_.id;
  for (const char* kind : {"params", "metrics", "tags", "artifacts"}) make_folder(folder_ / kind);
  began_ = std::atoll(member(read(folder_ / "meta.yaml"), "start_time").c_str());
  if (began_ == 0) began_ = now_ms();
  status(Status::running);
  tag("mlflow.runName", about_.name);
  tag("mlflow.source.name", "sluice");
  tag("mlflow.source.type", "LOCAL");
}

MlflowRun::~MlflowRun() {
  for (auto& [name, p] : points_)
    if (p.file) std::fclose(p.file);
}

void MlflowRun::write(const char* kind, const std::string& name, const std::string& value) {
  const fs::path file = folder_ / kind / valid(name);
  make_folder(file.parent_path());
  replace(file, value.substr(0, 6000));
}

void MlflowRun::param(const std::string& name, const std::string& value) {
  write("params", name, value);
}
void MlflowRun::tag(const std::string& name, const std::string& value) {
  write("tags", name, value);
}

void MlflowRun::retell() {
  const fs::path root = folder_ / "metrics";
  std::error_code ignored;
  for (const auto& entry : fs::recursive_directory_iterator(root, ignored)) {
    if (!entry.is_regular_file(ignored)) continue;
    Points& p = points_[entry.path().lexically_relative(root).string()];
    std::ifstream in(entry.path());
    for (std::string line; std::getline(in, line);)
      p.times.push_back(line.substr(0, line.find(' ')));
    fs::resize_file(entry.path(), 0, ignored);
  }
}

MlflowRun::Points& MlflowRun::points(const std::string& name) {
  Points& p = points_[name];
  if (p.file) return p;
  const fs::path file = folder_ / "metrics" / name;
  make_folder(file.parent_path());
  p.file = std::fopen(file.c_str(), "ae");
  if (!p.file) fail_call("cannot write " + file.string(), errno);
  return p;
}

void MlflowRun::metric(const std::string& name, double value, std::int64_t step) {
  Points& p = points(valid(name));
  const std::size_t i = p.written++;
  const std::string time = i < p.times.size() ? p.times[i] : std::to_string(now_ms());
  // Python's float() reads nan and inf as printf writes them.
  if (std::fprintf(p.file, "%s %.17g %lld\n", time.c_str(), value, static_cast<long long>(step)) <
          0 ||
      std::fflush(p.file) != 0)
    fail_call("cannot write " + (folder_ / "metrics" / name).string(), errno);
}

void MlflowRun::status(Status status) {
  const char* user = std::getenv("USER");
  const std::string name = user && *user ? user : "unknown";
  const bool over = status != Status::running;
  replace(folder_ / "meta.yaml",
          "artifact_uri: " + quoted("file://" + fs::absolute(about_.artifacts).string()) +
              "\nend_time: " + (over ? std::to_string(now_ms()) : "null") +
              "\nentry_point_name: ''\nexperiment_id: '" + experiment_ +
              "'\nlifecycle_stage: active\nrun_id: " + about_.id +
              "\nrun_name: " + quoted(about_.name) + "\nrun_uuid: " + about_.id +
              "\nsource_name: ''\nsource_type: 4\nsource_version: ''\nstart_time: " +
              std::to_string(began_) + "\nstatus: " + std::to_string(static_cast<int>(status)) +
              "\ntags: []\nuser_id: " + quoted(name) + "\n");
}

}  // namespace sluice
