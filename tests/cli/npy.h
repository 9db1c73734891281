// float32 .npy files for the tests of `apply`, which link no LibTorch.
#pragma once

#include <doctest/doctest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace npy {

struct Array {
  std::vector<std::int64_t> shape;
  std::vector<float> values;
};

// Bytes of any number type, by numpy's name of it.
inline void write_as(const std::string& type, const std::filesystem::path& path,
                     const std::vector<std::int64_t>& shape, const std::string& bytes) {
  std::string text = "{'descr': '" + type + "', 'fortran_order': False, 'shape': (";
  for (const auto n : shape) text += std::to_string(n) + ", ";
  text += "), }\n";
  std::ofstream out(path, std::ios::binary);
  const char front[] = {'\x93', 'N', 'U', 'M', 'P', 'Y', 1, 0, static_cast<char>(text.size()), 0};
  out.write(front, sizeof front) << text << bytes;
}

inline void write(const std::filesystem::path& path, const Array& a) {
  write_as("<f4", path, a.shape,
           {reinterpret_cast<const char*>(a.values.data()), 4 * a.values.size()});
}

// Of the files that the binary writes: version 1.0, little-endian, C order.
template <class T = float>
std::vector<T> read(const std::filesystem::path& path, std::vector<std::int64_t>* shape = nullptr) {
  std::ifstream in(path, std::ios::binary);
  const std::string bytes(std::istreambuf_iterator<char>(in), {});
  INFO(path.string());
  REQUIRE(bytes.size() > 10);
  const std::size_t begin = 10 + static_cast<unsigned char>(bytes[8]);
  std::vector<T> values((bytes.size() - begin) / sizeof(T));
  std::memcpy(values.data(), bytes.data() + begin, values.size() * sizeof(T));
  if (shape) {
    std::string text = bytes.substr(bytes.find('('), begin);
    text = text.substr(0, text.find(')')) + "]";
    text[0] = '[';
    if (const auto comma = text.rfind(','); comma != std::string::npos) text[comma] = ' ';
    *shape = nlohmann::json::parse(text).get<std::vector<std::int64_t>>();
  }
  return values;
}

}  // namespace npy
