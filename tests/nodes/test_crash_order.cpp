// What a machine that loses power leaves: a run's writes are recorded, and states are made in which
// those that no fsync covers are missing, in part or whole, in any legal order. Each must load the
// last checkpoint that was complete, or the one that was being written. SLUICE_LONG=1 makes 10,000.
#include <doctest/doctest.h>

#include <fstream>
#include <map>
#include <random>
#include <set>
#include <sstream>

#include "engine/base/error.h"
#include "engine/state/checkpoint.h"
#include "tests/campaign.h"
#include "tests/cli/tiny_training.h"

using namespace sluice;
namespace fs = std::filesystem;

namespace {

// A line of what fake/file_calls.cpp wrote down.
struct Call {
  std::string name, path, to;
  std::size_t place = 0, size = 0;
  std::string bytes;
};

std::vector<Call> calls_in(const fs::path& record) {
  std::ifstream data(record.string() + ".data", std::ios::binary);
  const std::string all{std::istreambuf_iterator<char>(data), {}};
  std::ifstream in(record);
  std::vector<Call> calls;
  for (std::string line; std::getline(in, line);) {
    std::istringstream words(line);
    Call c;
    words >> c.name >> c.path;
    if (c.name == "rename" || c.name == "exchange") words >> c.to;
    if (c.name == "truncate" || c.name == "extend") words >> c.size;
    if (std::size_t at = 0; c.name == "write") {
      words >> c.place >> at >> c.size;
      c.bytes = all.substr(at, c.size);
    }
    calls.push_back(std::move(c));
  }
  return calls;
}

// A file system after some calls, which knows of each change whether it is on the disk.
class Disk {
 public:
  explicit Disk(fs::path root) : root_(std::move(root)) { files_.push_back({.is_folder = true}); }

  void apply(const Call& c) {
    if (c.name == "sync") return sync(find(c.path));
    if (c.name == "write" || c.name == "truncate" || c.name == "extend")
      return change(find(c.path), c);
    if (c.name == "make" || c.name == "empty" || c.name == "mkdir") return make(c);
    if (c.path == root_) return;
    const auto [folder, name] = parent(c.path);
    Naming n{.folder = folder, .name = name};
    if (c.name == "rename" || c.name == "exchange") {
      const auto [to_folder, to_name] = parent(c.to);
      n.to_folder = to_folder, n.to_name = to_name;
      n.to_file = find(c.path);
      if (c.name == "exchange") n.file = find(c.to);
    }
    name_anew(n);
  }

  // A state of the disk: what was synced, and of the rest what `keeps` says.
  struct State {
    std::vector<std::map<std::string, int>> entries;  // by folder
    std::vector<std::string> bytes;                   // by file
  };
  State state(const std::function<bool()>& keeps, std::mt19937& random) const {
    State s{.entries = std::vector<std::map<std::string, int>>(files_.size()),
            .bytes = std::vector<std::string>(files_.size())};
    for (const Naming& n : namings_)
      if (n.synced || keeps()) put(s.entries, n);
    for (std::size_t i = 0; i < files_.size(); ++i)
      for (const Change& c : files_[i].changes)
        if (c.synced || keeps()) put(s.bytes[i], c.call, c.synced ? 0 : random());
    return s;
  }

  void write(const State& s, const fs::path& to, int file = 0) const {
    fs::create_directories(to);
    for (const auto& [name, child] : s.entries[static_cast<std::size_t>(file)])
      if (files_[static_cast<std::size_t>(child)].is_folder)
        write(s, to / name, child);
      else
        std::ofstream(to / name, std::ios::binary) << s.bytes[static_cast<std::size_t>(child)];
  }

 private:
  struct Change {
    Call call;
    bool synced = false;
  };
  struct File {
    bool is_folder = false;
    std::map<std::string, int> entries;  // as processes see it
    std::vector<Change> changes;
  };
  // `folder/name` becomes `file`, or goes; and so `to_folder/to_name`.
  struct Naming {
    int folder = -1;
    std::string name;
    int file = -1, to_folder = -1;
    std::string to_name;
    int to_file = -1;
    bool synced = false;
  };

  File& at(int file) { return files_[static_cast<std::size_t>(file)]; }
  int find(const fs::path& path) {
    int file = 0;
    for (const auto& part : path.lexically_relative(root_)) {
      if (part == ".") continue;
      const auto found = at(file).entries.find(part.string());
      REQUIRE_MESSAGE(found != at(file).entries.end(), path.string());
      file = found->second;
    }
    return file;
  }
  std::pair<int, std::string> parent(const fs::path& path) {
    return {find(path.parent_path()), path.filename().string()};
  }

  void make(const Call& c) {
    if (c.path == root_) return;
    const auto [folder, name] = parent(c.path);
    const auto found = at(folder).entries.find(name);
    if (found == at(folder).entries.end()) {
      files_.push_back({.is_folder = c.name == "mkdir"});
      name_anew({.folder = folder, .name = name, .file = static_cast<int>(files_.size()) - 1});
    } else if (c.name == "empty") {
      change(found->second, {.name = "truncate", .path = c.path});
    }
  }
  void change(int file, const Call& c) { at(file).changes.push_back({c}); }
  void name_anew(const Naming& n) {
    std::vector<std::map<std::string, int>> entries;
    for (File& f : files_) entries.push_back(std::move(f.entries));
    put(entries, n);
    for (std::size_t i = 0; i < files_.size(); ++i) files_[i].entries = std::move(entries[i]);
    namings_.push_back(n);
  }
  void sync(int file) {
    for (Change& c : at(file).changes) c.synced = true;
    for (Naming& n : namings_) n.synced |= n.folder == file || n.to_folder == file;
  }

  static void put(std::vector<std::map<std::string, int>>& entries, const Naming& n) {
    auto& from = entries[static_cast<std::size_t>(n.folder)];
    if (n.file >= 0)
      from[n.name] = n.file;
    else
      from.erase(n.name);
    if (n.to_folder >= 0) entries[static_cast<std::size_t>(n.to_folder)][n.to_name] = n.to_file;
  }
  // `tear` other than 0: a write may have reached the disk in part.
  static void put(std::string& bytes, const Call& c, std::uint32_t tear) {
    if (c.name == "truncate") return bytes.resize(c.size);
    if (c.name == "extend") return bytes.resize(std::max(bytes.size(), c.size));
    const std::size_t n = tear % 4 == 1 ? tear % (c.size + 1) : c.size;
    bytes.resize(std::max(bytes.size(), c.place + n));
    bytes.replace(c.place, n, c.bytes, 0, n);
  }

  fs::path root_;
  std::vector<File> files_;
  std::vector<Naming> namings_;
};

// The step that the newest checkpoint of a run's folder stands at; -1: there is none. Its digest
// goes into `digest`.
std::int64_t newest(const fs::path& run, std::string& digest) {
  try {
    const Checkpoint c =
        load_checkpoint(newest_checkpoint(run / "checkpoints", [](const std::string&) {}));
    digest = weights_sha256(c.model) + weights_sha256(c.optimizer);
    return c.state.at("steps").get<std::int64_t>();
  } catch (const IoError&) {
    digest.clear();
    return -1;
  }
}

// A run of five epochs with a checkpoint each, of which two stay, and the calls that it made.
struct Recorded {
  TinyTraining t;
  fs::path out = fs::canonical(t.folder.path) / "out", record = t.folder.path / "calls";
  std::vector<Call> calls;
  // By the number of calls: the newest checkpoint that is on the disk whatever is lost, the newest
  // that a process sees; and what checkpoints there are.
  std::vector<std::int64_t> least, most;
  std::set<std::string> known;
  std::string weights;

  Recorded() {
    const auto ran =
        shell::run("cd " + t.folder.path.string() + "; FILE_CALLS_UNDER=" + out.string() +
                   " FILE_CALLS_RECORD=" + record.string() +
                   " LD_PRELOAD=" SLUICE_BINARY_DIR
                   "/fake/libfile_calls.so $SLUICE run g.json --quiet --out " +
                   out.string() +
                   " --set run.epochs=5 --set '+run.checkpoint={\"every_epochs\":1,\"keep\":2}'");
    REQUIRE_MESSAGE(ran.code == 0, ran.err);
    weights = t.weights("out");
    calls = calls_in(record);
    REQUIRE(calls.size() > 50);
    std::mt19937 random(1);
    Disk disk(out);
    for (std::size_t i = 0; i <= calls.size(); ++i) {
      const auto found = [&](bool all) {
        const shell::Folder f;
        disk.write(disk.state([&] { return all; }, random), f.path);
        std::string digest;
        const auto steps = newest(f.path, digest);
        if (steps >= 0) known.insert(digest);
        return steps;
      };
      // Only what has to do with checkpoints changes the answer.
      const bool looks = i == 0 || calls[i - 1].path.find("checkpoints") != std::string::npos;
      least.push_back(looks ? found(false) : least.back());
      most.push_back(looks ? found(true) : most.back());
      if (i < calls.size()) disk.apply(calls[i]);
    }
    CHECK(known.size() == 5);
    CHECK(least.back() == 15);
  }
};

}  // namespace

TEST_CASE("whatever a loss of power leaves, the last whole checkpoint loads, or the newer one") {
  const Recorded r;
  std::mt19937 random(static_cast<std::uint32_t>(campaign::seed()));
  int resumed = 0, none = 0;
  for (campaign::Cases cases("crash_order", 150, 10000); cases.next();) {
    const std::size_t cut = random() % (r.calls.size() + 1);
    Disk disk(r.out);
    for (std::size_t i = 0; i < cut; ++i) disk.apply(r.calls[i]);
    // Journalled: changes reach the disk in order. Else: any of them.
    const bool journalled = random() % 2 == 0;
    const unsigned lost = random() % 100;
    bool whole = true;
    const auto keeps = [&] {
      if (journalled) return whole = whole && random() % 100 >= lost;
      return random() % 100 >= lost;
    };
    const shell::Folder f;
    disk.write(disk.state(keeps, random), f.path / "out");
    CAPTURE(cut);
    CAPTURE(cases.index());
    std::string digest;
    const std::int64_t steps = newest(f.path / "out", digest);
    CHECK(steps >= r.least[cut]);
    CHECK(steps <= r.most[cut]);
    CHECK((steps < 0 || r.known.contains(digest)));
    none += steps < 0;
    // The run goes on from some of them to the same end.
    if (steps < 0 || cases.index() % (campaign::at_length() ? 100 : 50) != 0) continue;
    ++resumed;
    f.write("g.json", r.t.folder.read("g.json"));
    const auto ran = shell::run("cd " + f.path.string() +
                                "; $SLUICE run g.json --quiet --resume out --set run.epochs=5");
    CHECK_MESSAGE(ran.code == 0, ran.err);
    const auto summary = nlohmann::json::parse(f.read("out/summary.json"), nullptr, false);
    CHECK(summary.value("weights_sha256", "") == r.weights);
  }
  MESSAGE(resumed << " resumed, " << none << " before the first checkpoint");
}
