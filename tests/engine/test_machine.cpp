// What is asked of the machine, and said to whoever sits at it.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <sstream>

#include "engine/base/cpu.h"
#include "engine/base/folder_use.h"
#include "engine/base/machine.h"
#include "engine/base/message.h"
#include "engine/base/message_listener.h"
#include "engine/base/read_file.h"
#include "engine/base/warnings.h"
#include "tests/temporary_folder.h"

using namespace sluice;

namespace {

// What is told while `f` runs.
std::string told(const std::function<void()>& f) {
  std::string all;
  tell_to([&](const std::string& text) { all += text; });
  f();
  tell_to(nullptr);
  return all;
}

std::string first_line(const char* path) {
  std::ifstream in(path);
  std::string line;
  std::getline(in, line);
  return line;
}

}  // namespace

TEST_CASE("the processor's level is what the kernel says that it has") {
  std::ifstream in("/proc/cpuinfo");
  std::string flags;
  for (std::string line; flags.empty() && std::getline(in, line);)
    if (line.starts_with("flags")) flags = line + " ";
  const auto has = [&](std::initializer_list<const char*> words) {
    for (const std::string word : words)
      if (!contains(flags, " " + word + " ")) return false;
    return true;
  };
  CpuLevel level = CpuLevel::avx2;  // which the build asks for
  if (has({"avx512f", "avx512bw", "avx512vl", "avx512dq"})) {
    level = CpuLevel::avx512;
    if (has({"avx512_bf16"})) level = CpuLevel::avx512_bf16;
    if (has({"avx512_bf16", "amx_tile", "amx_bf16"})) level = CpuLevel::amx;
  }
  if (const char* wanted = std::getenv("SLUICE_CPU"))
    level = std::min(level, cpu_level_of(wanted, level));
  CHECK(name_of(cpu_level()) == name_of(level));
}

TEST_CASE("levels of processors have names, from the least to the most") {
  const std::vector<std::string> names{"none", "avx2", "avx512", "avx512_bf16", "amx"};
  for (std::size_t i = 0; i < names.size(); ++i) {
    const auto level = static_cast<CpuLevel>(i);
    CHECK(name_of(level) == names[i]);
    CHECK(cpu_level_of(names[i], CpuLevel::avx2) == level);
  }
  CHECK(cpu_level_of("avx1024", CpuLevel::amx) == CpuLevel::amx);
  CHECK(cpu_level_of("", CpuLevel::none) == CpuLevel::none);
}

TEST_CASE("a machine is known by its name and by when it was started") {
  CHECK(host_name() == first_line("/proc/sys/kernel/hostname"));
  CHECK(boot_id() == first_line("/proc/sys/kernel/random/boot_id"));
  CHECK(boot_id().size() == 36);
}

TEST_CASE("a message ends its line, once, and shows what would control the terminal") {
  CHECK(told([] { tell("a\tb\nc"); }) == "a\tb\nc\n");
  CHECK(told([] { tell("a\n"); }) == "a\n");
  CHECK(told([] { tell("\x1b[31m\x1f\x7f\xc2\x80\xc2\x9f\xc2\xa0 "); }) ==
        "\\x1b[31m\\x1f\\x7f\\x80\\x9f\xc2\xa0 \n");
}

TEST_CASE("a warning is said once and kept until the next run") {
  forget_warnings();
  CHECK(told([] {
          warn("first");
          warn("second");
          warn("first");
        }) == "warning: first\nwarning: second\n");
  CHECK(warnings() == std::vector<std::string>{"first", "second"});
  forget_warnings();
  CHECK(warnings().empty());
  CHECK(told([] { warn("first"); }) == "warning: first\n");
  forget_warnings();
}

TEST_CASE("a file is read as it is, or no more of it than is asked for") {
  const TemporaryFolder folder;
  std::string text;
  for (int i = 0; i < 300'000; ++i) text += static_cast<char>('a' + i % 26);
  const auto file = folder.write_text("long", text);
  CHECK(read_text(file, text.size() + 9) == text);
  CHECK(read_text(file, text.size()) == text);
  CHECK(read_text(file, 200'000) == text.substr(0, 200'000));
  CHECK(read_text(file, 0).empty());
  CHECK(read_text(folder.write_text("empty", "")).empty());
  const auto missing = (folder / "missing").string();
  CHECK(message_of([&] { read_text(missing); }) ==
        "cannot read " + missing + ": No such file or directory");
}

TEST_CASE("who writes into a folder beside another process is told so, and which") {
  const TemporaryFolder folder;
  forget_warnings();
  CHECK(use_folder(folder / "missing") == nullptr);
  std::shared_ptr<const void> mine;
  const auto use = [&] { mine = use_folder(folder.path); };
  CHECK(told(use).empty());
  REQUIRE(mine);
  CHECK(use_folder(folder.path / ".") == mine);  // once a process
  CHECK(warnings().empty());
  mine.reset();

  int ready[2], over[2];
  REQUIRE(::pipe(ready) == 0);
  REQUIRE(::pipe(over) == 0);
  const pid_t other = ::fork();
  if (other == 0) {
    const int fd = ::open(folder.path.c_str(), O_RDONLY | O_DIRECTORY);
    char byte = ::flock(fd, LOCK_SH) == 0;
    ::close(over[1]);
    if (::write(ready[1], &byte, 1) == 1) (void)!::read(over[0], &byte, 1);
    ::_exit(0);
  }
  char locked = 0;
  REQUIRE(::read(ready[0], &locked, 1) == 1);
  CHECK(locked == 1);
  const std::string said = told(use);
  CHECK(mine);
  CHECK(said.starts_with("warning: " + folder.path.string() + ": "));
  CHECK(said.ends_with(" writes there too; of files with one name the last one written stays\n"));
  // Some file systems have other numbers in /proc/locks.
  const bool named = contains(said, ": process " + std::to_string(other) + " writes") ||
                     contains(said, ": another process writes");
  CHECK(named);
  for (const int fd : {ready[0], ready[1], over[0], over[1]}) ::close(fd);
  ::waitpid(other, nullptr, 0);
  mine.reset();
  forget_warnings();
  CHECK(told(use).empty());
  forget_warnings();
}
