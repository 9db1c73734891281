#include "engine/state/checkpoint.h"

#include <linux/fs.h>
#include <stdio.h>

#include <cmath>
#include <limits>
#include <vector>

#include "engine/base/durable_file.h"
#include "engine/base/message.h"
#include "engine/base/utf8.h"
#include "engine/state/safetensors.h"

namespace sluice {
std::string sha256_of(const std::string& text) {
  Sha256 digest;
  digest.update(text.data(), text.size());
  return digest.hex();
}

namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t largest_state = 16 << 20;
constexpr int deepest_state = 64;
constexpr const char* tensor_files[] = {"model.safetensors", "optimizer.safetensors"};

// JSON has no NaN and no infinity, which are written as {"$float": "nan"}, "inf" or "-inf", and no
// text but UTF-8, which names of files need not be: {"$bytes": [99, 233]}.
constexpr const char* odd_float = "$float";
constexpr const char* odd_text = "$bytes";

Json with_odd_values_named(const Json& j) {
  if (j.is_number_float())
    if (const double v = j; !std::isfinite(v))
      return {{odd_float, std::isnan(v) ? "nan" : v > 0 ? "inf" : "-inf"}};
  if (j.is_string())
    if (const auto& text = j.get_ref<const std::string&>(); !is_utf8(text))
      return {{odd_text, std::vector<std::uint8_t>(text.begin(), text.end())}};
  Json named = j;
  if (j.is_structured())
    for (Json& inner : named) inner = with_odd_values_named(inner);
  return named;
}

Json with_odd_values(const Json& j) {
  if (j.is_object() && j.size() == 1 && j.contains(odd_float)) {
    constexpr double inf = std::numeric_limits<double>::infinity();
    if (j[odd_float] == "nan") return std::numeric_limits<double>::quiet_NaN();
    if (j[odd_float] == "inf") return inf;
    if (j[odd_float] == "-inf") return -inf;
  }
  if (j.is_object() && j.size() == 1 && j.contains(odd_text)) {
    std::string text;
    for (const Json& byte : j[odd_text]) text += static_cast<char>(byte.get<std::uint8_t>());
    return text;
  }
  Json all = j;
  if (j.is_structured())
    for (Json& inner : all) inner = with_odd_values(inner);
  return all;
}

std::string write_tensor_file(const fs::path& path, const Tensors& tensors) {
  File file(path, O_WRONLY | O_CREAT | O_EXCL);
  write_tensors(file, tensors);
  const std::string sha256 = file.sha256.hex();
  file.close();
  return sha256;
}

void write_text(const fs::path& path, const std::string& text) {
  File file(path, O_WRONLY | O_CREAT | O_EXCL);
  file.reserve(text.size());
  file.write(text.data(), text.size());
  file.close();
}

// Whoever wrote the file wrote its checksum too, so that alone says nothing of what is in it.
bool has_all_parts(const Json& j) {
  const auto part = [&](const char* name) {
    const auto found = j.find(name);
    return found == j.end() ? Json::value_t::null : found->type();
  };
  return part("files") == Json::value_t::object && part("state") == Json::value_t::object &&
         part("serial") == Json::value_t::number_unsigned;
}

// state.json with its own checksum verified: {"files": {name: sha256}, "serial", "state",
// "sha256"}.
Json read_state(const fs::path& checkpoint) {
  const fs::path path = checkpoint / "state.json";
  File file(path, O_RDONLY);
  const std::uint64_t size = file.size();
  if (size > largest_state) throw DataError(path.string() + " is too large");
  std::string text(size, '\0');
  file.read(text.data(), size);
  const auto shallow = [&](int depth, Json::parse_event_t, Json&) {
    if (depth > deepest_state) throw DataError(path.string() + " is nested too deeply");
    return true;
  };
  Json j = Json::parse(text, shallow, false);
  if (!j.is_object() || !j.contains("sha256"))
    throw DataError(path.string() + " is damaged: not a JSON object with a checksum");
  const Json said = j["sha256"];
  j.erase("sha256");
  if (said != sha256_of(j.dump()))
    throw DataError(path.string() + " is damaged: its checksum differs");
  if (!has_all_parts(j)) throw DataError(path.string() + " is damaged: it lacks a part");
  return j;
}

Tensors read_verified(const fs::path& checkpoint, const char* name, const Json& state) {
  const fs::path path = checkpoint / name;
  File file(path, O_RDONLY);
  Tensors tensors = read_tensors(file, path.string());
  if (state["files"].value(name, Json()) != file.sha256.hex())
    throw DataError(path.string() + " is damaged: its checksum differs");
  return tensors;
}

constexpr const char* moved_away = ".old";  // behind the name of what is being replaced

// The name under which a folder is made before it counts.
std::string hidden(const std::string& name) {
  return std::string(1, '.').append(name).append(".tmp");
}

bool is_checkpoint(const fs::directory_entry& entry) {
  return entry.is_directory() && !entry.path().filename().string().starts_with('.');
}

// Checkpoints with a state that can be read, by serial number; what is wrong with the others. With
// `run`, those of that run alone.
struct Found {
  std::map<std::uint64_t, fs::path> by_serial;
  bool damaged = false;
};
using Warn = std::function<void(const std::string&)>;

Found find_checkpoints(const fs::path& folder, const std::string* run, const Warn& warn) {
  Found found;
  std::error_code failed;
  for (const auto& entry : fs::directory_iterator(folder, failed)) {
    if (!is_checkpoint(entry)) continue;
    try {
      const Json j = read_state(entry.path());
      if (!run || j["state"].value("run", Json("")) == *run)
        found.by_serial[j["serial"].get<std::uint64_t>()] = entry.path();
      else
        warn("left out a checkpoint of another run: " + entry.path().string());
    } catch (const MachineError&) {
      throw;  // another checkpoint would be taken for this one
    } catch (const Error& e) {
      found.damaged = true;
      warn(std::string("left out a checkpoint: ") + e.what());
    }
  }
  if (failed && failed != std::errc::no_such_file_or_directory)
    fail_io("read", folder, failed.value());
  return found;
}

// What a killed process left half-written.
void remove_leftovers(const fs::path& folder) {
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder, ignored)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with('.') && name.ends_with(".tmp")) fs::remove_all(entry.path(), ignored);
  }
}

void write_all(const fs::path& folder, const Checkpoint& c, std::uint64_t serial) {
  Json j;
  j["files"][tensor_files[0]] = write_tensor_file(folder / tensor_files[0], c.model);
  j["files"][tensor_files[1]] = write_tensor_file(folder / tensor_files[1], c.optimizer);
  j["serial"] = serial;
  j["state"] = with_odd_values_named(c.state);
  j["sha256"] = sha256_of(j.dump());
  const std::string text = j.dump(1) + "\n";
  if (text.size() > largest_state)
    throw DataError((folder / "state.json").string() + " would have " +
                    std::to_string(text.size()) + " bytes and could not be read again: at most " +
                    std::to_string(largest_state));
  write_text(folder / "state.json", text);
  sync_folder(folder);
}

// Puts the finished folder under its name. A checkpoint of that name is exchanged in one step, or,
// where the file system cannot, moved away first: to a name that counts, for between the two steps
// it is the only one.
void publish(const fs::path& temporary, const fs::path& target) {
  const fs::path old = target.parent_path() / (target.filename().string() + moved_away);
  std::error_code ignored;
  if (::rename(temporary.c_str(), target.c_str()) == 0) {
    fs::remove_all(old, ignored);
    return;
  }
  if (errno != ENOTEMPTY && errno != EEXIST) fail_io("write", target, errno);
  if (::renameat2(AT_FDCWD, temporary.c_str(), AT_FDCWD, target.c_str(), RENAME_EXCHANGE) == 0) {
    fs::remove_all(temporary, ignored);
    return;
  }
  fs::remove_all(old, ignored);
  if (::rename(target.c_str(), old.c_str()) != 0) fail_io("write", target, errno);
  if (::rename(temporary.c_str(), target.c_str()) != 0) {
    const int cause = errno;
    if (::rename(old.c_str(), target.c_str()) != 0) fail_io("restore", target, errno);
    fail_io("write", target, cause);
  }
  fs::remove_all(old, ignored);
}

}  // namespace

void save_checkpoint(const fs::path& folder, const std::string& name,
                     const Checkpoint& checkpoint) {
  std::error_code failed;
  fs::create_directory(folder, failed);  // not its parents: a run's folder may have been taken
  if (failed) fail_io("make", folder, failed.value());
  remove_leftovers(folder);
  const auto before = find_checkpoints(folder, nullptr, [](const std::string&) {}).by_serial;
  const fs::path temporary = folder / hidden(name);
  if (!fs::create_directory(temporary, failed)) fail_io("make", temporary, failed.value());
  try {
    write_all(temporary, checkpoint, before.empty() ? 1 : before.rbegin()->first + 1);
    publish(temporary, folder / name);
  } catch (...) {
    fs::remove_all(temporary, failed);
    throw;
  }
  sync_folder(folder);
}

Checkpoint load_checkpoint(const fs::path& checkpoint) try {
  const Json j = read_state(checkpoint);
  Checkpoint c;
  c.model = read_verified(checkpoint, tensor_files[0], j);
  c.optimizer = read_verified(checkpoint, tensor_files[1], j);
  c.state = with_odd_values(j["state"]);
  return c;
} catch (const Json::exception& e) {
  throw DataError((checkpoint / "state.json").string() + " is damaged: " + e.what());
}

static void say_on_stderr(const std::string& text) { tell("warning: " + text); }

static fs::path newest_of(const Found& found, const fs::path& folder, const Warn& warn) {
  for (auto it = found.by_serial.rbegin(); it != found.by_serial.rend(); ++it) {
    try {
      load_checkpoint(it->second);
      return it->second;
    } catch (const MachineError&) {
      throw;
    } catch (const Error& e) {
      warn(std::string(e.what()) + "; taking the checkpoint before");
    }
  }
  throw IoError("no complete checkpoint in " + folder.string());
}

fs::path newest_checkpoint(const fs::path& folder, const Warn& warn) {
  const Warn say = warn ? warn : say_on_stderr;
  return newest_of(find_checkpoints(folder, nullptr, say), folder, say);
}

std::optional<fs::path> newest_checkpoint_of(const std::string& run, const fs::path& folder,
                                             const Warn& warn) {
  const Warn say = warn ? warn : say_on_stderr;
  const Found found = find_checkpoints(folder, &run, say);
  if (found.by_serial.empty() && !found.damaged) return std::nullopt;
  return newest_of(found, folder, say);
}

}  // namespace sluice
