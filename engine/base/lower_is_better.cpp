#include "engine/base/lower_is_better.h"

#include <algorithm>
#include <cctype>

namespace sluice {

bool lower_is_better(const std::string& name) {
  constexpr const char* words[] = {
      "loss",     "error", "distance", "hausdorff", "hd",
      "hd95",     "mse",   "mae",      "mape",      "rmse",
      "tre",      "fid",   "mmd",      "variance",  "volume_difference",
      "grad_norm"};
  const auto is_letter = [&](std::size_t i) {
    return i < name.size() && std::isalpha(static_cast<unsigned char>(name[i]));
  };
  return std::any_of(std::begin(words), std::end(words), [&](const std::string& word) {
    for (auto at = name.find(word); at != name.npos; at = name.find(word, at + 1))
      if ((at == 0 || !is_letter(at - 1)) && !is_letter(at + word.size())) return true;
    return false;
  });
}

}  // namespace sluice
