// NumPy's .npy files of plain numbers, format versions 1.0 and 2.0: for trying nodes out on arrays
// of other software.
//
// Invariant: what is returned is the whole file and nothing but the file, in C order and this
// machine's byte order; whatever does not fit is a DataError that names the file. Nothing is
// allocated for a shape that the file's length does not bear out, and pickled objects are never
// read.
//
// bool, int8, int16, int32, int64, uint8, float16, float32 and float64 keep their type. LibTorch
// hardly computes with other unsigned types, so uint16 is read as int32 and uint32 as int64.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

namespace sluice {

at::Tensor read_npy(const std::filesystem::path& path);
// The same for bytes; `name` is the file's, for messages.
at::Tensor parse_npy(std::span<const std::uint8_t> file, const std::string& name);

// [channels, ...] of an array whose axis `channel_dim` (negative: from the end) is the channels.
// Axes in front of `first` stay where they are. `name` is the array's.
at::Tensor channels_first(const at::Tensor& t, std::int64_t channel_dim, std::int64_t first,
                          const std::string& name);

// Version 1.0 in C order, of any type that keeps its own when it is read. See write_file().
void write_npy(const std::filesystem::path& path, const at::Tensor& data);

}  // namespace sluice
