// The one exception type of the engine and the process's exit codes.
#pragma once

#include <stdexcept>
#include <string>

namespace sluice {

enum class Exit : int {
  done = 0,
  usage = 2,  // graph or command line
  data = 3,   // a sample that cannot be used
  io = 4,     // input/output, disk full
  memory = 5,
  gpu = 6,
  stalled = 7,
  non_finite = 8,  // the loss is NaN or infinite
  peer = 9,        // another process of the run failed
  interrupted = 130,
  terminated = 143,
};

// Thrown by nodes and kernels. The scheduler adds the node, the sample and the place in the file.
struct Error : std::runtime_error {
  Exit exit;
  Error(Exit e, const std::string& message) : std::runtime_error(message), exit(e) {}
};

// A sample is at fault: quarantined where the node says `"on_error": "quarantine"`.
struct DataError : Error {
  explicit DataError(const std::string& message) : Error(Exit::data, message) {}
};

// The file system is at fault; the message names the path.
struct IoError : Error {
  explicit IoError(const std::string& message) : Error(Exit::io, message) {}
};

}  // namespace sluice
