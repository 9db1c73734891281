// Folders that a process writes into beside its own run folder: that another process does the same
// at the same time is told, since of files with one name the last one written would stay.
//
// Invariant: nothing is left in the folder and nothing outlives the process. What is locked (flock,
// shared) is the folder itself, once a process, however many of its nodes write there.
#pragma once

#include <filesystem>
#include <memory>

namespace sluice {

// In use as long as what is returned. Null where the folder is not there.
std::shared_ptr<const void> use_folder(const std::filesystem::path& folder);

}  // namespace sluice
