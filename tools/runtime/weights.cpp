#include "tools/runtime/weights.h"

#include <ATen/Functions.h>

#include <iostream>

#include "engine/base/error.h"
#include "engine/base/message.h"
#include "engine/session/weights.h"
#include "engine/state/checkpoint.h"
#include "engine/state/dtype.h"
#include "tools/runtime/nnunet/checkpoint.h"

namespace sluice {

using Named = std::map<std::string, at::Tensor>;

// Of the numbers, in float64: with the shape enough to tell two files apart at a glance.
static double sum_of(const at::Tensor& t) { return t.to(at::kDouble).sum().item<double>(); }

// A run's tensors are called by their network first, "net.model.0.conv.weight". Of one network
// those of a file of their own are not, so that PyTorch's module of that kind loads them as they
// are.
static Named without_network(const std::filesystem::path& from, const Named& all) {
  const bool is_run = std::filesystem::is_directory(from / "checkpoints") ||
                      std::filesystem::is_regular_file(from / "state.json");
  if (!is_run || all.empty()) return all;
  const std::string& first = all.begin()->first;
  const std::string network = first.substr(0, first.find('.') + 1);
  Named stripped;
  for (const auto& [name, tensor] : all) {
    if (!name.starts_with(network)) return all;
    stripped.emplace(name.substr(network.size()), tensor);
  }
  return stripped;
}

int weights_command(const Json& request) {
  const std::string file = request.at("file"), out = request.at("out"),
                    strip_prefix = request.at("strip_prefix");
  const Named all =
      read_weights(file, {request.at("key").get<std::string>(), "--key"}, strip_prefix);
  const bool as_json = request.at("json"), brief = request.value("brief", false);
  Json tensors = Json::array();
  std::int64_t numbers = 0;
  for (const auto& [name, t] : all) {
    const Dtype* known = find_dtype(t.scalar_type());
    const std::string type(known ? known->name : at::toString(t.scalar_type()));
    numbers += t.numel();
    if (as_json)
      tensors.push_back(
          {{"name", name}, {"dtype", type}, {"shape", t.sizes().vec()}, {"sum", sum_of(t)}});
    else if (!brief)
      std::cout << printable(name) << "  " << type << ' ' << t.sizes() << "  sum " << sum_of(t)
                << '\n';
  }
  if (out.ends_with(".pth"))
    nnunet::write_checkpoint(all, file, out);
  else if (!out.empty())
    write_safetensors(out, strip_prefix.empty() ? without_network(file, all) : all);
  const std::string digest = weights_sha256(all);
  if (as_json)
    std::cout << Json{{"tensors", tensors}, {"numbers", numbers}, {"weights_sha256", digest}}.dump(
                     2, ' ', false, Json::error_handler_t::replace)
              << '\n';
  else
    std::cout << all.size() << " tensors, " << numbers << " numbers, sha256 " << digest << '\n';
  return static_cast<int>(Exit::done);
}

}  // namespace sluice
