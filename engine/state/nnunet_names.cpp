#include "engine/state/nnunet_names.h"

#include <ATen/Functions.h>

#include <algorithm>

#include "engine/base/error.h"
#include "engine/base/message.h"

namespace sluice {
namespace {

constexpr std::string_view list = ".all_modules.", decoder = "decoder.";

}  // namespace

std::string nnunet_name(std::string name) {
  if (name.starts_with("decoder.encoder.")) name.erase(0, decoder.size());
  const auto at = name.find(list);
  if (at == std::string::npos) return name;
  const auto digit = at + list.size(), leaf = name.find('.', digit);
  if (leaf == std::string::npos) return name;
  const bool first = name.substr(digit, leaf - digit) == "0";
  return name.substr(0, at) + (first ? ".conv" : ".norm") + name.substr(leaf);
}

std::vector<std::string> nnunet_names(const std::string& name, int norm) {
  std::vector<std::string> all{name};
  const auto leaf = name.rfind('.');
  const std::string block = leaf == std::string::npos ? "" : name.substr(0, leaf);
  for (const auto& [part, place] : {std::pair{".conv", 0}, {".norm", norm}})
    if (block.ends_with(part))
      all.push_back(block.substr(0, block.size() - 5) + std::string(list) + std::to_string(place) +
                    name.substr(leaf));
  if (name.starts_with("encoder."))
    for (std::size_t i = 0, n = all.size(); i < n; ++i)
      all.push_back(std::string(decoder) + all[i]);
  return all;
}

void leave_out_repeats(std::map<std::string, at::Tensor>& tensors, const std::string& file) {
  const bool repeats = std::any_of(tensors.begin(), tensors.end(), [](const auto& t) {
    return t.first.find(list) != std::string::npos;
  });
  if (!repeats) return;
  std::map<std::string, std::pair<std::string, at::Tensor>> kept;  // by the one name: as written
  for (const auto& [name, tensor] : tensors) {
    const auto [it, fresh] = kept.try_emplace(nnunet_name(name), name, tensor);
    const auto& [first, other] = it->second;
    if (fresh || (other.sizes() == tensor.sizes() && other.scalar_type() == tensor.scalar_type() &&
                  (other.const_data_ptr() == tensor.const_data_ptr() || at::equal(other, tensor))))
      continue;
    throw DataError(file + ": \"" + printable(first) + "\" and \"" + printable(name) +
                    "\" are one parameter of nnU-Net's, but hold other numbers");
  }
  tensors.clear();
  for (auto& [name, found] : kept) tensors.emplace(name, std::move(found.second));
}

}  // namespace sluice
