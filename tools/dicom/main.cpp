// sluice_dicom: reads one DICOM series, or makes a segmentation object of one, in a process of its
// own. GDCM and DCMTK parse what strangers wrote and are known for faults in it; here a file can at
// worst end this process, which has little memory, little time and nothing to write to.
//
//   sluice_dicom MEMORY_BYTES SECONDS FOLDER_OR_FILE [seg]
//
// stdout: one line of JSON, {"error": why} or {"type", "dim", "affine"}, and after that line the
// voxels, X fastest. The affine is RAS. With seg, stdin has a line of JSON and labels
// (segmentation.cpp), and stdout {"bytes", "frames"} and that many bytes of a DICOM file. Nothing
// is guessed: what does not fit together is an error that names the file.
#include <signal.h>
#include <sys/resource.h>

#include <cstdlib>
#include <cstring>
#include <nlohmann/json.hpp>
#include <string>

#include "tools/dicom/series.h"

namespace {

void limit(rlim_t memory, rlim_t seconds) {
  const auto set = [](int what, rlim_t most) {
    const rlimit r{most, most};
    ::setrlimit(static_cast<__rlimit_resource>(what), &r);
  };
  set(RLIMIT_AS, memory);
  set(RLIMIT_CPU, seconds);
  set(RLIMIT_CORE, 0);
  set(RLIMIT_FSIZE, 0);
  set(RLIMIT_NOFILE, 32);
}

std::string file_now, last_words;  // what is said where a signal ends the process

std::string error_line(const std::string& why) {
  using nlohmann::json;
  return json{{"error", why}}.dump(-1, ' ', false, json::error_handler_t::replace) + "\n";
}

extern "C" void on_fault(int) {
  sluice::write_all(last_words.data(), last_words.size());
  std::_Exit(3);
}

}  // namespace

void sluice::reading(const std::string& file) {
  file_now = file;
  last_words = error_line(file + ": is damaged or cut short");
}

int main(int argc, char** argv) {
  const bool seg = argc == 5 && std::strcmp(argv[4], "seg") == 0;
  if (argc != 4 && !seg) return 2;
  limit(std::stoull(argv[1]), std::stoull(argv[2]));
  sluice::reading(argv[3]);
  for (const int number : {SIGABRT, SIGSEGV, SIGBUS, SIGFPE}) ::signal(number, on_fault);
  std::string why;
  try {
    seg ? sluice::write_segmentation(argv[3]) : sluice::read_series(argv[3]);
    return 0;
  } catch (const std::bad_alloc&) {
    why = file_now + ": asks for more memory than its size bears out";
  } catch (const std::exception& e) {
    why = e.what();
  }
  const std::string line = error_line(why);
  sluice::write_all(line.data(), line.size());
  return 3;
}
