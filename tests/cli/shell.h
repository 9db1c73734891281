// Runs the built binary as a user would and keeps what it printed.
#pragma once

#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>

namespace shell {

namespace fs = std::filesystem;

// A folder of the test's own, removed at its end.
struct Folder {
  fs::path path;
  Folder() {
    std::string name = (fs::temp_directory_path() / "sluice-test-XXXXXX").string();
    path = mkdtemp(name.data());
  }
  ~Folder() {
    std::error_code ignored;
    fs::remove_all(path, ignored);
  }
  fs::path write(const std::string& name, const std::string& text) const {
    fs::create_directories((path / name).parent_path());
    std::ofstream(path / name) << text;
    return path / name;
  }
  std::string read(const std::string& name) const {
    std::ifstream in(path / name);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  // {} where there is no such file.
  nlohmann::json json_of(const std::string& name) const {
    const std::string text = read(name);
    return nlohmann::json::parse(text.empty() ? "{}" : text);
  }
  nlohmann::json summary(const std::string& run) const { return json_of(run + "/summary.json"); }
  std::string weights(const std::string& run) const {
    return summary(run).value("weights_sha256", "none");
  }
};

struct Result {
  int code = -1;
  std::string out, err;
};

// A shell command line in which $SLUICE is the binary.
inline Result run(const std::string& command) {
  Folder folder;
  const std::string line = "SLUICE=" SLUICE_BINARY_DIR "/sluice; " + command;
  const fs::path script = folder.write("script", line);
  const std::string call = "/bin/bash " + script.string() + " >" + (folder.path / "out").string() +
                           " 2>" + (folder.path / "err").string() + " </dev/null";
  const int status = std::system(call.c_str());
  return {WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status), folder.read("out"),
          folder.read("err")};
}

// The real data's folder, or "" and a message.
inline std::string test_data() {
  const char* folder = std::getenv("SLUICE_TEST_DATA");
  return folder && fs::is_directory(folder) ? folder : "";
}

}  // namespace shell
