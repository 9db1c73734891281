// Opening files whose names come from outside: regular files only, so that a FIFO, a socket or a
// device neither blocks nor goes on for ever.
#pragma once

#include <filesystem>
#include <string>

namespace sluice {

// A descriptor to read from and to close. -1, and errno, where it cannot be opened: EISDIR for a
// folder, ENOTSUP for what is neither a folder nor a regular file.
int open_to_read(const char* path) noexcept;

// What errno says, in words: "is not a regular file" for ENOTSUP.
std::string why_not_opened(int cause);

// The whole file, or its first `most` bytes; an IoError names it and the cause.
std::string read_text(const std::filesystem::path& path, std::size_t most = ~std::size_t{0});

}  // namespace sluice
