// Damages graphs: first by structure (subtrees swapped, nodes doubled and renamed, cycles, parts in
// parts, deep nesting, huge numbers), then byte by byte. Every input is a function of its seed.
#pragma once

#include <random>
#include <string>
#include <vector>

#include "engine/graph/override.h"

namespace sluice::fuzz {

class Fuzzer {
 public:
  explicit Fuzzer(unsigned seed) : random_(seed) {}

  // One of the texts, damaged.
  std::string input(const std::vector<Json>& corpus);
  // Some values of --set: paths in the graph, often with something wrong.
  std::vector<std::string> overrides(const std::string& text);

 private:
  std::size_t below(std::size_t n) { return static_cast<std::size_t>(random_() % n); }
  bool chance(std::size_t n) { return below(n) == 0; }
  template <class T>
  const T& one_of(const std::vector<T>& all) {
    return all[below(all.size())];
  }
  Json& any_value(Json& graph);
  Json* any_object(Json& graph, const char* section);
  std::string any_name(const Json& graph);
  std::string odd_text();
  Json odd_value();
  void change(Json& graph);
  void structure(Json& graph);
  void nodes(Json& graph);
  void parts(Json& graph);
  void variables(Json& graph);
  void settings(Json& graph);
  void numbers(std::string& text);
  void bytes(std::string& text);

  std::mt19937 random_;
};

}  // namespace sluice::fuzz
