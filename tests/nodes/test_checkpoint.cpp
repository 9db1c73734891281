#include <ATen/ATen.h>
#include <doctest/doctest.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <limits>

#include "engine/base/error.h"
#include "engine/state/checkpoint.h"

using namespace sluice;
namespace fs = std::filesystem;

namespace {

struct Folder {
  fs::path path;
  Folder() {
    std::string name = (fs::temp_directory_path() / "sluice_checkpoint_XXXXXX").string();
    REQUIRE(::mkdtemp(name.data()));
    path = name;
  }
  ~Folder() { fs::remove_all(path); }
};

// A disk of one megabyte, where we may mount one.
struct SmallDisk : Folder {
  const bool mounted = ::mount("none", path.c_str(), "tmpfs", 0, "size=1m") == 0;
  ~SmallDisk() {
    if (mounted) ::umount2(path.c_str(), MNT_DETACH);
  }
};

std::string bytes_of(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void put(const fs::path& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

// A file of that header and so many bytes of tensors.
std::string safetensors(const std::string& header, std::size_t data) {
  const std::uint64_t n = header.size();
  return std::string(reinterpret_cast<const char*>(&n), 8) + header + std::string(data, '\1');
}

std::map<std::string, at::Tensor> weights() {
  return {{"net.conv.weight", at::arange(24, at::kFloat).view({2, 3, 4}).sin()},
          {"net.conv.bias", at::arange(3, at::kDouble)},
          {"net.count", at::scalar_tensor(7, at::kLong)},
          {"net.empty", at::zeros({0, 3})},
          {"net.half", at::arange(5, at::kFloat).to(at::kBFloat16)},
          {"net.mask", at::arange(3).ne(1)},
          {"net.odd", at::arange(7, at::kByte)}};
}

Checkpoint checkpoint(int epoch) {
  Checkpoint c;
  c.model = weights();
  c.model["net.conv.weight"] = c.model["net.conv.weight"] + epoch;
  c.optimizer = {{"step.exp_avg.conv", at::full({50}, epoch, at::kFloat)}};
  c.state = {{"epoch", epoch}, {"loss", 0.1 * epoch}, {"nan", std::nan("")}};
  return c;
}

void check_equal(const std::map<std::string, at::Tensor>& a,
                 const std::map<std::string, at::Tensor>& b) {
  REQUIRE(a.size() == b.size());
  for (const auto& [name, t] : a) {
    CAPTURE(name);
    CHECK((t.scalar_type() == b.at(name).scalar_type()));
    CHECK(at::equal(t, b.at(name)));
  }
}

int open_files() {
  int n = 0;
  for (const auto& entry : fs::directory_iterator("/proc/self/fd")) n += entry.exists() ? 1 : 1;
  return n;
}

}  // namespace

TEST_CASE("safetensors keep every dtype, shape and bit") {
  Folder f;
  write_safetensors(f.path / "w.safetensors", weights());
  check_equal(weights(), read_safetensors(f.path / "w.safetensors"));
  CHECK(std::distance(fs::directory_iterator(f.path), {}) == 1);
}

TEST_CASE("a strided tensor is written as its values") {
  Folder f;
  const at::Tensor t = at::arange(12, at::kFloat).view({3, 4}).t();
  write_safetensors(f.path / "w", {{"t", t}});
  CHECK(at::equal(read_safetensors(f.path / "w").at("t"), t));
}

TEST_CASE("a tensor whose name is no UTF-8 is refused by it") {
  Folder f;
  try {
    write_safetensors(f.path / "w", {{"a\xff", at::zeros({1})}});
    FAIL("it was written");
  } catch (const DataError& e) {
    CHECK(std::string(e.what()).find("\\xff\": its name is not UTF-8") != std::string::npos);
  }
}

TEST_CASE("a safetensors file cut anywhere or lengthened is refused") {
  Folder f;
  write_safetensors(f.path / "w", weights());
  const std::string whole = bytes_of(f.path / "w");
  for (std::size_t n = 0; n < whole.size(); ++n) {
    put(f.path / "cut", whole.substr(0, n));
    CHECK_THROWS_AS(read_safetensors(f.path / "cut"), DataError);
  }
  put(f.path / "long", whole + '\0');
  CHECK_THROWS_AS(read_safetensors(f.path / "long"), DataError);
}

TEST_CASE("safetensors headers that lie are refused") {
  const std::string f4 = R"("dtype":"F32","shape":[1],"data_offsets":)";
  const auto one = [](const std::string& dtype, const std::string& shape,
                      const std::string& offsets, std::size_t data) {
    return safetensors("{\"a\":{\"dtype\":\"" + dtype + "\",\"shape\":" + shape +
                           ",\"data_offsets\":" + offsets + "}}",
                       data);
  };
  std::string axes = "1";
  for (int i = 0; i < 64; ++i) axes += ",1";
  const std::pair<const char*, std::string> lies[] = {
      {"overlap", safetensors("{\"a\":{" + f4 + "[0,4]},\"b\":{" + f4 + "[2,6]}}", 6)},
      {"same bytes twice", safetensors("{\"a\":{" + f4 + "[0,4]},\"b\":{" + f4 + "[0,4]}}", 4)},
      {"hole", safetensors("{\"a\":{" + f4 + "[0,4]},\"b\":{" + f4 + "[8,12]}}", 12)},
      {"late start", safetensors("{\"a\":{" + f4 + "[4,8]}}", 8)},
      {"beyond the end", safetensors("{\"a\":{" + f4 + "[0,4]}}", 3)},
      {"bytes left over", safetensors("{\"a\":{" + f4 + "[0,4]}}", 5)},
      {"reversed", safetensors("{\"a\":{" + f4 + "[4,0]}}", 4)},
      {"name twice", safetensors("{\"a\":{" + f4 + "[0,4]},\"a\":{" + f4 + "[0,4]}}", 4)},
      {"field twice", safetensors("{\"a\":{\"dtype\":\"F32\"," + f4 + "[0,4]}}", 4)},
      {"unknown field", safetensors("{\"a\":{\"x\":1," + f4 + "[0,4]}}", 4)},
      {"unknown dtype", one("F33", "[1]", "[0,4]", 4)},
      {"no shape", one("F32", "1", "[0,4]", 4)},
      {"more than 64 axes", one("F32", "[" + axes + "]", "[0,4]", 4)},
      {"one offset", one("F32", "[1]", "[4]", 4)},
      {"offsets that are no list", one("F32", "[1]", "4", 4)},
      {"float extent", one("F32", "[1.0]", "[0,4]", 4)},
      {"negative", one("F32", "[-1]", "[0,4]", 4)},
      {"product overflows", one("F32", "[4294967296,4294967296]", "[0,0]", 0)},
      {"overflow behind a zero", one("U8", "[0,4294967296,4294967296]", "[0,0]", 0)},
      {"extent above int64", one("U8", "[18446744073709551615]", "[0,0]", 0)},
      {"empty inside another",
       safetensors(
           "{\"a\":{" + f4 + R"([0,4]},"b":{"dtype":"U8","shape":[0],"data_offsets":[2,2]}})", 4)},
      {"bad boolean", one("BOOL", "[1]", "[0,1]", 0) + '\2'},
      {"not an object", safetensors("[]", 0)},
      {"not JSON", safetensors("{\"a\":", 0)},
      {"deep", safetensors("{\"a\":" + std::string(100000, '['), 0)},
      {"empty header", safetensors("", 0)},
      {"huge header", std::string("\xff\xff\xff\xff\xff\xff\xff\x7f{}", 10)}};
  Folder f;
  for (const auto& [what, bytes] : lies) {
    CAPTURE(what);
    put(f.path / "w", bytes);
    CHECK_THROWS_AS(read_safetensors(f.path / "w"), DataError);
  }
  put(f.path / "w", safetensors("{\"__metadata__\":{\"k\":\"v\"},\"a\":{" + f4 + "[0,4]}}   ", 4));
  CHECK(read_safetensors(f.path / "w").size() == 1);
}

TEST_CASE("what cannot be opened is an IoError that names the path") {
  Folder f;
  CHECK_THROWS_WITH_AS(read_safetensors(f.path / "none"),
                       doctest::Contains((f.path / "none").c_str()), IoError);
  CHECK_THROWS_AS(read_safetensors(f.path), IoError);
  CHECK_THROWS_AS(write_safetensors(f.path / "no" / "such", weights()), IoError);
}

TEST_CASE("a checkpoint is read back as it was saved") {
  Folder f;
  save_checkpoint(f.path / "checkpoints", "epoch_1", checkpoint(1));
  const Checkpoint c = load_checkpoint(f.path / "checkpoints" / "epoch_1");
  check_equal(checkpoint(1).model, c.model);
  check_equal(checkpoint(1).optimizer, c.optimizer);
  CHECK(c.state["epoch"] == 1);
  CHECK(c.state["loss"] == 0.1);
  CHECK(weights_sha256(c.model) == weights_sha256(checkpoint(1).model));
}

TEST_CASE("a state's NaN and infinities are read back as they were, and its nulls as nulls") {
  Folder f;
  constexpr double inf = std::numeric_limits<double>::infinity();
  Checkpoint c;
  c.state = {{"metrics", {{"auc.mean", {{"last", std::nan("")}, {"best", -inf}}}}},
             {"nodes", {{"plateau", {{"seen", {1.5, inf, std::nan("")}}, {"best", nullptr}}}}}};
  save_checkpoint(f.path, "c", c);
  const Json state = load_checkpoint(f.path / "c").state;
  const Json& metric = state["metrics"]["auc.mean"];
  CHECK(std::isnan(metric["last"].get<double>()));
  CHECK(metric["best"] == -inf);
  const Json& node = state["nodes"]["plateau"];
  CHECK(node["seen"][0] == 1.5);
  CHECK(node["seen"][1] == inf);
  CHECK(std::isnan(node["seen"][2].get<double>()));
  CHECK(node["best"].is_null());
}

TEST_CASE("a state's text that is no UTF-8, as names of files may be, is read back as it was") {
  Folder f;
  Checkpoint c;
  const Json names{"caf\xe9", "caf\xc3\xa9", "", "\xff"};
  c.state = {{"nodes", {{"dice", {{"names", names}}}}}};
  save_checkpoint(f.path, "c", c);
  CHECK(load_checkpoint(f.path / "c").state["nodes"]["dice"]["names"] == names);
}

TEST_CASE("a state that could not be read again is not written, and the old checkpoint stays") {
  Folder f;
  save_checkpoint(f.path, "c", checkpoint(1));
  Checkpoint c = checkpoint(2);
  c.state["names"] = std::string(17 << 20, 'x');
  CHECK_THROWS_AS(save_checkpoint(f.path, "c", c), DataError);
  CHECK(std::distance(fs::directory_iterator(f.path), {}) == 1);
  CHECK(load_checkpoint(f.path / "c").state["epoch"] == 1);
}

TEST_CASE("every flipped bit of a checkpoint is found") {
  Folder f;
  save_checkpoint(f.path, "c", checkpoint(1));
  for (const char* name : {"model.safetensors", "optimizer.safetensors", "state.json"}) {
    const fs::path path = f.path / "c" / name;
    const std::string whole = bytes_of(path);
    for (std::size_t i = 0; i < whole.size(); ++i) {
      if (name[0] == 's' && std::isspace(static_cast<unsigned char>(whole[i]))) continue;
      std::string flipped = whole;
      flipped[i] ^= static_cast<char>(1 << i % 8);
      put(path, flipped);
      CAPTURE(name);
      CAPTURE(i);
      CHECK_THROWS_AS(load_checkpoint(f.path / "c"), Error);
    }
    put(path, whole);
  }
  CHECK_NOTHROW(load_checkpoint(f.path / "c"));
}

TEST_CASE("a state of the right checksum and the wrong form is refused, and another one taken") {
  Folder f;
  save_checkpoint(f.path, "old", checkpoint(1));
  save_checkpoint(f.path, "new", checkpoint(2));
  const fs::path file = f.path / "new" / "state.json";
  const Json whole = Json::parse(bytes_of(file));
  const auto silent = [](const std::string&) {};
  const auto refused = [&](const char* part, const Json& value) {
    CAPTURE(part);
    CAPTURE(value.dump());
    Json j = whole;
    j.erase("sha256");
    if (value.is_discarded())
      j.erase(part);
    else
      j[part] = value;
    j["sha256"] = sha256_of(j.dump());
    put(file, j.dump());
    CHECK_THROWS_WITH_AS(load_checkpoint(f.path / "new"), doctest::Contains("is damaged"),
                         DataError);
    CHECK(newest_checkpoint(f.path, silent).filename() == "old");
  };
  for (const char* part : {"files", "serial", "state"}) {
    refused(part, Json(Json::value_t::discarded));
    for (const Json& value : {Json(), Json(-1), Json("x"), Json::array()}) refused(part, value);
  }
  refused("files", Json::object());
  refused("files", {{"model.safetensors", 1}, {"optimizer.safetensors", 2}});
  refused("state", {{"name", {{"$bytes", {"x"}}}}});
  put(file, whole.dump());
  CHECK(newest_checkpoint(f.path, silent).filename() == "new");
}

TEST_CASE("a state whose run is no text is of another run") {
  Folder f;
  Checkpoint c = checkpoint(1);
  c.state["run"] = {1, 2};
  save_checkpoint(f.path, "c", c);
  CHECK_FALSE(newest_checkpoint_of("a", f.path, [](const std::string&) {}));
}

TEST_CASE("a state nested without end is refused") {
  Folder f;
  save_checkpoint(f.path, "c", checkpoint(1));
  put(f.path / "c" / "state.json", "{\"sha256\":\"\",\"state\":" + std::string(1000000, '['));
  CHECK_THROWS_AS(load_checkpoint(f.path / "c"), DataError);
}

TEST_CASE("the newest checkpoint is the one saved last, whatever its name or time") {
  Folder f;
  save_checkpoint(f.path, "z", checkpoint(1));
  save_checkpoint(f.path, "a", checkpoint(2));
  CHECK(newest_checkpoint(f.path).filename() == "a");
  save_checkpoint(f.path, "z", checkpoint(3));
  CHECK(newest_checkpoint(f.path).filename() == "z");
  CHECK(load_checkpoint(f.path / "z").state["epoch"] == 3);
  CHECK(std::distance(fs::directory_iterator(f.path), {}) == 2);
}

TEST_CASE("a damaged newest checkpoint is passed over with a message") {
  Folder f;
  for (int i = 1; i <= 3; ++i) save_checkpoint(f.path, "e" + std::to_string(i), checkpoint(i));
  const fs::path model = f.path / "e3" / "model.safetensors";
  std::string bytes = bytes_of(model);
  bytes.back() ^= 1;
  put(model, bytes);
  put(f.path / "e2" / "state.json", "{");
  std::vector<std::string> said;
  CHECK(newest_checkpoint(f.path, [&](const std::string& s) { said.push_back(s); }).filename() ==
        "e1");
  REQUIRE(said.size() == 2);
  CHECK(said[0].find("e2/state.json is damaged") != std::string::npos);
  CHECK(said[1].find("e3/model.safetensors is damaged") != std::string::npos);
}

TEST_CASE("without a complete checkpoint there is an IoError") {
  Folder f;
  CHECK_THROWS_AS(newest_checkpoint(f.path), IoError);
  CHECK_THROWS_AS(newest_checkpoint(f.path / "none"), IoError);
}

TEST_CASE("what a killed process left is ignored by readers and removed by the next save") {
  Folder f;
  save_checkpoint(f.path, "e1", checkpoint(1));
  fs::copy(f.path / "e1", f.path / ".e2.tmp");
  CHECK(newest_checkpoint(f.path).filename() == "e1");
  save_checkpoint(f.path, "e3", checkpoint(3));
  CHECK_FALSE(fs::exists(f.path / ".e2.tmp"));
}

TEST_CASE("a checkpoint that was moved away for the next counts until that is there") {
  Folder f;
  save_checkpoint(f.path, "last", checkpoint(1));
  fs::rename(f.path / "last", f.path / "last.old");  // killed here, with the next under .last.tmp
  fs::create_directory(f.path / ".last.tmp");
  CHECK(newest_checkpoint(f.path).filename() == "last.old");
  save_checkpoint(f.path, "last", checkpoint(2));
  CHECK(newest_checkpoint(f.path).filename() == "last");
  CHECK(std::distance(fs::directory_iterator(f.path), {}) == 1);
}

TEST_CASE("a saver killed at any moment leaves the last checkpoint whole") {
  Folder f;
  save_checkpoint(f.path, "last", checkpoint(0));
  std::int64_t epoch = 0;
  // On a busy machine the first savers may have no time to save anything.
  for (int kill = 0; kill < 40 || (epoch == 0 && kill < 400); ++kill) {
    const pid_t saver = ::fork();
    if (saver == 0) {
      try {
        for (int i = 1;; ++i)
          save_checkpoint(f.path, "last", checkpoint(static_cast<int>(epoch) + i));
      } catch (...) {
      }
      ::_exit(1);
    }
    ::usleep(static_cast<useconds_t>(3000 + 700 * kill));
    ::kill(saver, SIGKILL);
    ::waitpid(saver, nullptr, 0);
    std::vector<std::string> said;
    const fs::path newest =
        newest_checkpoint(f.path, [&](const std::string& s) { said.push_back(s); });
    CHECK(newest.filename() == "last");
    CHECK(said.empty());
    const std::int64_t found = load_checkpoint(newest).state["epoch"];
    CHECK(found >= epoch);
    epoch = found;
  }
  CHECK(epoch > 0);
}

TEST_CASE("a write that fails half-way leaves the old checkpoint and no trace") {
  Folder f;
  save_checkpoint(f.path, "e", checkpoint(1));
  const rlim_t size = fs::file_size(f.path / "e" / "model.safetensors");
  const int files = open_files();
  rlimit old{};
  getrlimit(RLIMIT_FSIZE, &old);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  std::string said;
  for (rlim_t most : {rlim_t{0}, rlim_t{100}, size / 2, size - 1}) {
    said.clear();
    const rlimit limit{most, old.rlim_max};
    setrlimit(RLIMIT_FSIZE, &limit);
    try {
      save_checkpoint(f.path, "e", checkpoint(2));
    } catch (const IoError& e) {
      said = e.what();
    }
    setrlimit(RLIMIT_FSIZE, &old);
    CHECK(said.starts_with("cannot write " + (f.path / ".e.tmp").string()));
    CHECK(std::distance(fs::directory_iterator(f.path), {}) == 1);
    CHECK(load_checkpoint(f.path / "e").state["epoch"] == 1);
  }
  std::signal(SIGXFSZ, handler);
  CHECK(open_files() == files);
}

TEST_CASE("a full disk is an IoError that says so, and the old checkpoint stays") {
  SmallDisk f;
  if (!f.mounted) {
    MESSAGE("no right to mount a small disk: left out");
    return;
  }
  Checkpoint big = checkpoint(2);
  big.model["net.big"] = at::zeros({1 << 20});
  save_checkpoint(f.path, "e1", checkpoint(1));
  std::string said;
  try {
    save_checkpoint(f.path, "e2", big);
  } catch (const IoError& e) {
    said = e.what();
  }
  const bool alone = std::distance(fs::directory_iterator(f.path), {}) == 1;
  const auto newest = newest_checkpoint(f.path).filename();
  CHECK(said.find("model.safetensors: No space left on device") != std::string::npos);
  CHECK(alone);
  CHECK(newest == "e1");
}

TEST_CASE("weights_sha256 is SHA-256 over name, zero byte and bytes in name order") {
  // printf 'a\0\001\002b\0\003' | sha256sum
  const auto t = at::tensor({1, 2}, at::kByte), u = at::tensor({3}, at::kByte);
  CHECK(weights_sha256({{"b", u}, {"a", t}}) ==
        "7336b13f1f246c6fe253006497bba2935eaa41785cd4dc8dc4b4d606c87b51d9");
  CHECK(weights_sha256({{"a", t}}) != weights_sha256({{"b", t}}));
}
