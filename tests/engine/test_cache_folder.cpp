// The folder of disk caches: nothing that was not written is served.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <random>
#include <thread>

#include "engine/base/error.h"
#include "engine/base/system_call.h"
#include "engine/base/warnings.h"
#include "engine/cache/cache_folder.h"
#include "engine/cache/file_digests.h"
#include "tests/campaign.h"
#include "tests/temporary_folder.h"

using namespace sluice;

namespace fs = std::filesystem;

namespace {

std::vector<std::byte> content(std::mt19937& random, std::size_t most) {
  std::vector<std::byte> bytes(random() % most);
  for (auto& b : bytes) b = static_cast<std::byte>(random());
  return bytes;
}

void overwrite(const fs::path& file, const Bytes& bytes) {
  std::ofstream(file, std::ios::binary | std::ios::trunc)
      .write(reinterpret_cast<const char*>(bytes.data()), std::streamsize(bytes.size()));
}

fs::path file_of(const fs::path& folder, const CacheKey& key) {
  return folder / key.hex().substr(0, 2) / key.hex();
}

}  // namespace

TEST_CASE("a key's text is 32 digits and back") {
  const CacheKey key{0x0123456789abcdefull, 0xfedcba9876543210ull};
  CHECK(key.hex() == "0123456789abcdeffedcba9876543210");
  CHECK(CacheKey::from_hex(key.hex()) == key);
  CHECK_FALSE(CacheKey::from_hex("0123"));
  CHECK_FALSE(CacheKey::from_hex("0123456789ABCDEFFEDCBA9876543210"));
}

TEST_CASE("an entry for which there is no file descriptor is said, and is not damaged") {
  TemporaryFolder folder;
  CacheFolder cache(folder.path);
  const CacheKey key{1, 2};
  REQUIRE(cache.write(key, {{"name", "a"}}, {}));
  rlimit before{};
  REQUIRE(::getrlimit(RLIMIT_NOFILE, &before) == 0);
  const int free = ::dup(0);  // the lowest
  ::close(free);
  const rlimit few{static_cast<rlim_t>(free), before.rlim_max};
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &few) == 0);
  bool said = false;
  try {
    cache.read(key);
  } catch (const MachineError& e) {
    said = e.exit == Exit::io;
  }
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &before) == 0);
  CHECK(said);
  CHECK(cache.read(key));
  CHECK(cache.figures().damaged == 0);
}

TEST_CASE("no entry with a changed bit or another length is served") {
  TemporaryFolder folder;
  CacheFolder cache(folder.path);
  std::mt19937 random(1);
  int served = 0;
  std::uint64_t flips = 0;
  for (campaign::Cases cases("cache_bits", 500, 10'000); cases.next(); ++flips) {
    const CacheKey key{random(), random()};
    const auto bytes = content(random, 3000);
    REQUIRE(cache.write(key, {{"name", "a"}}, {bytes}));
    const fs::path file = file_of(folder.path, key);
    Bytes whole = bytes_of(file);
    const auto kind = random() % 20;
    if (kind == 0)
      whole.resize(random() % whole.size());
    else if (kind == 1)
      whole.push_back(0);
    else
      whole[random() % whole.size()] ^= static_cast<std::uint8_t>(1u << random() % 8);
    overwrite(file, whole);
    served += cache.read(key) ? 1 : 0;
    CHECK_FALSE(fs::exists(file));
  }
  MESSAGE(flips << " damaged entries: " << served << " served");
  CHECK(served == 0);
  CHECK(cache.figures().damaged == flips);
}

TEST_CASE("readers and writers of one folder never see anything but what was written") {
  TemporaryFolder folder;
  std::atomic<int> wrong = 0, read = 0;
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      CacheFolder cache(folder.path, 40'000);  // each its own view, as a process has
      std::mt19937 random(t);
      for (int i = 0; i < 400; ++i) {
        const CacheKey key{0, random() % 40};
        std::mt19937 of_key(static_cast<unsigned>(key.low));
        const auto expected = content(of_key, 2000);
        if (const auto entry = cache.read(key)) {
          ++read;
          wrong += !std::equal(expected.begin(), expected.end(), entry->payload.begin(),
                               entry->payload.end());
        } else {
          cache.write(key, {{"name", "x"}}, {expected});
        }
      }
      CHECK(cache.figures().damaged == 0);
    });
  for (auto& t : threads) t.join();
  CHECK(wrong == 0);
  CHECK(read > 100);
  CHECK(fs::is_empty(folder.path / "new"));
}

TEST_CASE("entries are written while other processes begin to use the folder") {
  TemporaryFolder folder;
  std::atomic<bool> done = false;
  std::thread others([&] {
    while (!done) CacheFolder beginner(folder.path);
  });
  CacheFolder cache(folder.path);
  int failed = 0;
  for (std::uint64_t i = 0; i < 500; ++i)
    failed += !cache.write({3, i}, Json::object(), {std::vector<std::byte>(100)});
  done = true;
  others.join();
  CHECK(failed == 0);
}

TEST_CASE("what a dead writer left is removed, and what a living one writes is not an entry") {
  TemporaryFolder folder;
  CacheFolder cache(folder.path);
  folder.write_text("new/0123456789abcdeffedcba9876543210.1.1", "half");
  CHECK(cached_files(folder.path).empty());
  CacheFolder next(folder.path);
  CHECK(fs::is_empty(folder.path / "new"));
  CHECK(is_cache_folder(folder.path));
  CHECK_FALSE(is_cache_folder(folder.path / "new"));
}

TEST_CASE("pruning removes what was not used for longest, and nothing that is no entry") {
  TemporaryFolder folder;
  folder.write_text("00/readme", "mine");
  {
    CacheFolder cache(folder.path);
    const std::vector<std::byte> bytes(1000);
    for (std::uint64_t i = 0; i < 10; ++i) {
      REQUIRE(cache.write({i, i}, Json::object(), {bytes}));
      const timespec times[2] = {{static_cast<time_t>(1000 + i), 0},
                                 {static_cast<time_t>(1000 + i), 0}};
      ::utimensat(AT_FDCWD, file_of(folder.path, {i, i}).c_str(), times, 0);
    }
  }
  const std::uint64_t one = cached_files(folder.path).front().bytes;
  CacheFolder used(folder.path);
  CHECK(used.read({0, 0}));
  Pruned p = prune_cache(folder.path, 4 * one, {});
  CHECK(p.entries == 6);
  CHECK(p.left_bytes == 4 * one);
  CHECK(used.read({0, 0}));
  CHECK_FALSE(used.read({1, 1}));
  CHECK(used.read({9, 9}));
  p = prune_cache(folder.path, {}, 1009'000'000'000);
  CHECK(p.left_entries == 2);  // those that were read
  CHECK(prune_cache(folder.path, 0, {}).left_entries == 0);
  CHECK(fs::exists(folder / "00/readme"));
}

TEST_CASE(
    "entries are told by when they were used, to the nanosecond, and by name where that is one") {
  TemporaryFolder folder;
  CacheFolder cache(folder.path);
  const auto add = [&](std::uint64_t name, time_t s, long ns) {
    REQUIRE(cache.write({name, 0}, Json::object(), {}));
    const timespec times[2] = {{s, ns}, {s, ns}};
    ::utimensat(AT_FDCWD, file_of(folder.path, {name, 0}).c_str(), times, 0);
  };
  add(1, 1000, 500);
  add(2, 1000, 499);
  add(4, 900, 999'999'999);
  add(3, 1000, 499);
  std::string order;
  for (const CachedFile& f : cached_files(folder.path))
    order += f.path.filename().string().substr(15, 1) + " " + std::to_string(f.used_ns) + "\n";
  CHECK(order == "4 900999999999\n2 1000000000499\n3 1000000000499\n1 1000000000500\n");
  CHECK(prune_cache(folder.path, {}, 1'000'000'000'499).left_entries == 3);  // as old as that stays
  const std::uint64_t all = 3 * cached_files(folder.path).front().bytes;
  CHECK(prune_cache(folder.path, all, {}).left_entries == 3);  // as many as that stay
  const Pruned one = prune_cache(folder.path, all - 1, {});
  CHECK(one.entries == 1);
  CHECK(one.bytes == all / 3);
  CHECK(one.left_bytes == all - all / 3);
}

TEST_CASE("an entry may be read by others, and by no one run") {
  TemporaryFolder folder;
  const mode_t before = ::umask(0);
  CacheFolder cache(folder.path);
  REQUIRE(cache.write({1, 1}, Json::object(), {}));
  ::umask(before);
  struct stat status {};
  REQUIRE(::stat(file_of(folder.path, {1, 1}).c_str(), &status) == 0);
  CHECK((status.st_mode & 0777) == 0644);
}

TEST_CASE("an entry that others remove is no longer one that this process uses") {
  TemporaryFolder folder;
  CacheFolder cache(folder / "c");
  CacheKey key;
  key.low = 7;
  REQUIRE(cache.write(key, {{"a", 1}}, {}));
  CHECK(cache.uses(key));
  prune_cache(folder / "c", 0, std::nullopt);
  CHECK_FALSE(cache.read(key));
  CHECK_FALSE(cache.uses(key));
  CHECK(cache.figures().entries == 0);
  CHECK(cache.figures().bytes == 0);
  CHECK(cache.write(key, {{"a", 1}}, {}));
  CHECK(cache.read(key));
}

TEST_CASE("entries that take the place of older ones do not each count the whole folder") {
  TemporaryFolder folder;
  const std::vector<std::byte> bytes(100);
  constexpr std::uint64_t n = 200;
  {
    CacheFolder before(folder.path);
    for (std::uint64_t i = 0; i < n; ++i) {
      REQUIRE(before.write({1, i}, Json::object(), {bytes}));
      const timespec times[2] = {{static_cast<time_t>(1000 + i), 0},
                                 {static_cast<time_t>(1000 + i), 0}};
      ::utimensat(AT_FDCWD, file_of(folder.path, {1, i}).c_str(), times, 0);
    }
  }
  const std::uint64_t one = cached_files(folder.path).front().bytes;
  CacheFolder cache(folder.path, n * one);
  REQUIRE(cache.write({2, 0}, Json::object(), {bytes}));
  CHECK_FALSE(fs::exists(file_of(folder.path, {1, 0})));
  std::this_thread::sleep_for(std::chrono::milliseconds(50));  // a tick of the files' clock
  CacheFolder other(folder.path);
  REQUIRE(other.read({1, 1}));
  for (std::uint64_t i = 1; i < n - 1; ++i) REQUIRE(cache.write({2, i}, Json::object(), {bytes}));
  CHECK(other.read({1, 1}));  // what another process uses stays
  CHECK(cached_files(folder.path).size() == n);
  CHECK_FALSE(cache.write({2, n}, Json::object(), {bytes}));
  CHECK(cache.figures().counts < 25);
}

TEST_CASE(
    "a budget is kept: what earlier runs left gives way, oldest first, and this one's stays") {
  TemporaryFolder folder;
  const std::vector<std::byte> bytes(1000);
  const auto write = [&](CacheFolder& cache, std::uint64_t i) {
    return cache.write({i, i}, Json::object(), {bytes});
  };
  const auto there = [&](std::uint64_t i) { return fs::exists(file_of(folder.path, {i, i})); };
  const auto used_at = [&](std::uint64_t i, time_t seconds) {
    const timespec times[2] = {{seconds, 0}, {seconds, 0}};
    ::utimensat(AT_FDCWD, file_of(folder.path, {i, i}).c_str(), times, 0);
  };
  constexpr std::uint64_t one = 64 + 64 + 1000;  // the front, a header of two letters, the bytes
  {
    CacheFolder cache(folder.path);
    REQUIRE(write(cache, 0));
    CHECK(cached_files(folder.path).front().bytes == one);
    used_at(0, 1000);
  }
  {
    CacheFolder cache(folder.path, 3 * one);
    CHECK(write(cache, 1));
    CHECK(write(cache, 2));
    CHECK(there(0));
    CHECK(write(cache, 3));
    CHECK_FALSE(there(0));
    const std::vector<std::byte> more(4 * one);
    CHECK_FALSE(cache.write({8, 8}, Json::object(), {more}));
    CHECK_FALSE(write(cache, 4));
    CHECK_FALSE(write(cache, 5));
    CHECK(cache.figures().entries == 3);
    CHECK(cache.figures().bytes == 3 * one);
    CHECK(cache.uses({3, 3}));
    CHECK_FALSE(cache.uses({4, 4}));
  }
  used_at(1, 1001);
  used_at(2, 1003);
  used_at(3, 1002);
  CacheFolder cache(folder.path, 3 * one);
  CHECK(cache.read({1, 1}));  // so it is one of this run's
  CHECK(cache.figures().bytes == one);
  CHECK(write(cache, 6));
  CHECK(there(1));
  CHECK(there(2));
  CHECK_FALSE(there(3));
  CHECK(write(cache, 7));
  CHECK_FALSE(there(2));
  CHECK_FALSE(write(cache, 9));
  CHECK(there(1));
}

TEST_CASE("an entry that could not be written takes nothing of the budget") {
  TemporaryFolder folder;
  const std::vector<std::byte> bytes(1000);
  CacheFolder cache(folder.path, 2 * (64 + 64 + 1000));
  const auto write = [&](std::uint64_t i) { return cache.write({i, i}, Json::object(), {bytes}); };
  fs::remove(folder / "new");
  forget_warnings();
  for (std::uint64_t i = 0; i < 5; ++i) CHECK_FALSE(write(i));
  REQUIRE(warnings().size() == 1);
  CHECK(warnings().front() == folder.path.string() +
                                  ": entries cannot be written (No such file or directory), so "
                                  "their samples are computed each time");
  forget_warnings();
  fs::create_directory(folder / "new");
  CHECK_FALSE(cache.write({9, 9}, {{"name", "\xff"}}, {}));  // it would come back as another
  CHECK(write(0));
  CHECK(write(1));
  CHECK_FALSE(write(2));
  CHECK(cache.figures().entries == 2);
}

TEST_CASE("an entry comes back with its header, and its bytes lie where tensors may") {
  TemporaryFolder folder;
  CacheFolder cache(folder.path);
  std::mt19937 random(1);
  for (const std::size_t size : {0, 1, 64, 2000, 3 << 20})
    for (const std::size_t name : {1, 30, 51, 52, 53, 54, 200}) {
      const CacheKey key{size, name};
      std::vector<std::byte> bytes(size);
      for (auto& b : bytes) b = static_cast<std::byte>(random());
      const Json header = {{"name", std::string(name, 'x')}};
      REQUIRE(cache.write(key, header, {bytes, bytes}));
      const auto entry = cache.read(key);
      REQUIRE(entry);
      CHECK(entry->header == header);
      CHECK(entry->payload.size() == 2 * size);
      CHECK(std::equal(bytes.begin(), bytes.end(), entry->payload.begin()));
      CHECK(std::equal(bytes.begin(), bytes.end(), entry->payload.end() - std::ssize(bytes)));
      CHECK(reinterpret_cast<std::uintptr_t>(entry->payload.data()) % 64 == 0);
      CHECK(read_header(file_of(folder.path, key)) == header);
      CHECK_FALSE(read_entry(file_of(folder.path, key), {size, name + 1}));
    }
  CHECK_FALSE(read_header(folder.write_text("short", "sluiceC1")));
  CHECK_FALSE(read_header(folder.write_text("other", std::string(200, 'x'))));
  CHECK_FALSE(read_header(folder / "missing"));
  Bytes whole = bytes_of(file_of(folder.path, {0, 200}));
  whole.resize(100);  // within the header
  CHECK_FALSE(read_header(folder.write("cut", whole)));
  whole[8 + 7] = 1;  // a header of 2^56 bytes
  CHECK_FALSE(read_header(folder.write("huge", whole)));
}

TEST_CASE("an entry whose header is no object is damaged") {
  TemporaryFolder folder;
  CacheFolder cache(folder.path);
  for (const Json& header : {Json::array({1}), Json("name"), Json()}) {
    const CacheKey key{1, 1};
    REQUIRE(CacheFolder(folder.path).write(key, header, {}));
    CHECK_FALSE(read_header(file_of(folder.path, key)));
    CHECK_FALSE(cache.read(key));
    CHECK_FALSE(fs::exists(file_of(folder.path, key)));
  }
  CHECK(cache.figures().damaged == 3);
}

TEST_CASE("what has an entry's name and is no file is no entry") {
  TemporaryFolder folder;
  CacheFolder cache(folder.path, 4096);
  const CacheKey link{1, 1}, inner{2, 2};
  REQUIRE(cache.write({3, 3}, Json::object(), {}));
  fs::create_directories(file_of(folder.path, inner));
  fs::create_directories(file_of(folder.path, link).parent_path());
  fs::create_symlink(folder / "missing", file_of(folder.path, link));
  CHECK(cached_files(folder.path).size() == 1);
  CHECK(prune_cache(folder.path, 0, {}).left_entries == 0);
  CHECK(fs::is_directory(file_of(folder.path, inner)));
  CHECK_FALSE(cache.read(link));
}

TEST_CASE("a cache where no folder can be is said with its path") {
  TemporaryFolder folder;
  const fs::path in_file = folder.write_text("a", "text") / "cache";
  CHECK_THROWS_WITH_AS(CacheFolder{in_file},
                       doctest::Contains(("cannot make " + in_file.string()).c_str()), IoError);
}

TEST_CASE("caches are kept where the user's are") {
  const auto set = [](const char* name, const char* value) {
    value ? ::setenv(name, value, 1) : ::unsetenv(name);
  };
  const char *xdg = std::getenv("XDG_CACHE_HOME"), *home = std::getenv("HOME");
  const std::string old_xdg = xdg ? xdg : "", old_home = home ? home : "";
  set("HOME", "/home/x");
  for (const char* none : {static_cast<const char*>(nullptr), "", "relative"}) {
    set("XDG_CACHE_HOME", none);
    CHECK(default_cache_folder() == "/home/x/.cache/sluice");
  }
  set("XDG_CACHE_HOME", "/cache");
  CHECK(default_cache_folder() == "/cache/sluice");
  set("XDG_CACHE_HOME", nullptr);
  for (const char* none : {static_cast<const char*>(nullptr), "", "relative"}) {
    set("HOME", none);
    CHECK_THROWS_AS(default_cache_folder(), Error);
  }
  set("XDG_CACHE_HOME", xdg ? old_xdg.c_str() : nullptr);
  set("HOME", home ? old_home.c_str() : nullptr);
}

TEST_CASE("a file's digest follows its bytes whatever its times say") {
  TemporaryFolder folder;
  const fs::path file = folder.write_text("a", "one"), index = folder / "files.txt";
  FileDigests digests(index, false);
  const auto one = digests.of(file.string());
  REQUIRE(one);
  CHECK(*one == *digests.of(file.string()));
  const auto time = fs::last_write_time(file);
  folder.write_text("a", "two");
  fs::last_write_time(file, time);
  CHECK(*digests.of(file.string()) != *one);
  folder.write_text("a", "one");
  CHECK(*digests.of(file.string()) == *one);
  CHECK_FALSE(digests.of((folder / "missing").string()));
  CHECK_FALSE(fs::exists(index));  // nothing here is older than two seconds
}

TEST_CASE("a digest is remembered for a settled file, and no damaged line is believed") {
  TemporaryFolder folder;
  const std::string alone = "/etc/passwd";
  const fs::path index = folder / "files.txt";
  const auto digest = FileDigests(index, false).of(alone);
  REQUIRE(digest);
  const Bytes line = bytes_of(index);
  REQUIRE(line.size() > 50);
  struct stat status {};
  REQUIRE(::stat(alone.c_str(), &status) == 0);
  const auto ns = [](const timespec& t) {
    return std::to_string(t.tv_sec * 1'000'000'000LL + t.tv_nsec);
  };
  const std::string said = digest->hex() + ' ' + std::to_string(status.st_size) + ' ' +
                           std::to_string(status.st_ino) + ' ' + ns(status.st_mtim) + ' ' +
                           ns(status.st_ctim) + ' ' + alone + '\n';
  CHECK(std::string(line.begin(), line.end()).substr(16) == ' ' + said);
  // A line that says another digest, with its check right, is what would be believed ...
  CHECK(FileDigests(index, false).of(alone) == digest);
  CHECK(bytes_of(index) == line);  // ... and was: nothing was appended
  Bytes damaged = line;
  damaged[20] = damaged[20] == '0' ? '1' : '0';
  overwrite(index, damaged);
  CHECK(FileDigests(index, false).of(alone) == digest);
  CHECK(bytes_of(index).size() == 2 * line.size());
  CHECK(FileDigests(index, true).of(alone) == digest);
  CHECK(bytes_of(index).size() == 3 * line.size());
  for (int run = 0; run < 150; ++run) CHECK(FileDigests(index, true).of(alone) == digest);
  CHECK(bytes_of(index).size() < 110 * line.size());  // outdated lines go here too
}

TEST_CASE("a folder's digest is that of all files in it, by their names and bytes") {
  TemporaryFolder folder;
  folder.write_text("all/a", "one");
  folder.write_text("all/in/b", "two");
  FileDigests digests(folder / "files.txt", false);
  const auto of = [&] { return digests.of((folder / "all").string()); };
  const auto first = of();
  REQUIRE(first);
  fs::create_directory(folder / "all/empty");
  CHECK(of() == first);
  CHECK(digests.of((folder / "all/../all").string()) == first);
  CHECK(digests.of((folder / "all/").string()) == first);
  folder.write_text("all/in/b", "two!");
  CHECK(of() != first);
  folder.write_text("all/in/b", "two");
  CHECK(of() == first);
  fs::rename(folder / "all/in/b", folder / "all/in/c");
  CHECK(of() != first);
  fs::rename(folder / "all/in/c", folder / "all/b");
  CHECK(of() != first);
  fs::create_symlink(folder / "missing", folder / "all/c");
  CHECK_FALSE(of());
}

TEST_CASE("a folder's digest sees what links in it lead to, and a circle has none") {
  TemporaryFolder folder;
  folder.write_text("all/a", "one");
  folder.write_text("elsewhere/b", "two");
  folder.write_text("elsewhere/in/c", "three");
  fs::create_directory_symlink(folder / "elsewhere", folder / "all/link");
  FileDigests digests(folder / "files.txt", false);
  const auto of = [&] { return digests.of((folder / "all").string()); };
  const auto first = of();
  REQUIRE(first);
  folder.write_text("elsewhere/in/c", "four");
  CHECK(of());
  CHECK(of() != first);
  folder.write_text("elsewhere/in/c", "three");
  CHECK(of() == first);
  for (const char* above : {"all", "elsewhere", "elsewhere/in"}) {
    fs::create_directory_symlink(folder / above, folder / "elsewhere/in/back");
    CAPTURE(above);
    CHECK_FALSE(of());
    fs::remove(folder / "elsewhere/in/back");
  }
  CHECK(of() == first);
}

TEST_CASE("a digest that no index can keep is right all the same") {
  TemporaryFolder folder;
  const fs::path index = folder / "files.txt";
  const auto digest = FileDigests(index, false).of("/etc/passwd");
  REQUIRE(digest);
  const std::uintmax_t bytes = fs::file_size(index);
  CHECK(FileDigests(folder / "missing/files.txt", false).of("/etc/passwd") == digest);
  // A line of the index ends where the name does.
  const fs::path odd = folder / "a\nb";
  fs::copy_file("/etc/passwd", odd);
  const timespec times[2] = {{1000, 0}, {1000, 0}};
  ::utimensat(AT_FDCWD, odd.c_str(), times, 0);
  CHECK(FileDigests(index, false).of(odd.string()) == digest);
  CHECK(fs::file_size(index) == bytes);
}

TEST_CASE("an index of which most lines are outdated is written anew") {
  TemporaryFolder folder;
  const std::string alone = "/etc/passwd";
  const fs::path index = folder / "files.txt";
  const auto digest = FileDigests(index, false).of(alone);
  const Bytes line = bytes_of(index);
  const auto lines_after = [&](std::size_t lines) {
    Bytes all;
    for (std::size_t i = 0; i < lines; ++i) all.insert(all.end(), line.begin(), line.end());
    overwrite(index, all);
    CHECK(FileDigests(index, false).of(alone) == digest);
    return bytes_of(index).size() / line.size();
  };
  CHECK(lines_after(101) == 101);
  CHECK(lines_after(102) == 1);
  CHECK(folder.files() == 1);
}
