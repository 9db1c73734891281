#include "tools/runtime/nnunet/recipe.h"

#include <iostream>

#include "engine/base/error.h"
#include "engine/base/message.h"
#include "kernels/files/file_io.h"
#include "tools/nnunet/planner.h"
#include "tools/runtime/nnunet/measure.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;
using namespace nnunet;

void write_text(const fs::path& file, const std::string& text) {
  write_file(file, {{reinterpret_cast<const std::uint8_t*>(text.data()), text.size()}});
}

void must_be_new(const fs::path& file) {
  if (!file.empty() && fs::exists(file))
    throw Error(Exit::usage,
                file.string() + " is there already and stays as it is; name another file");
}

Fingerprint fingerprint_for(const Json& request, const Dataset& dataset) {
  const std::string given = request.at("fingerprint");
  if (!given.empty()) return read_fingerprint(given, dataset);
  const fs::path out = request.at("write_fingerprint").get<std::string>();
  must_be_new(out);
  const Fingerprint measured = measure(dataset);
  if (!out.empty()) write_text(out, fingerprint_json(measured).dump(2) + "\n");
  return measured;
}

}  // namespace

int new_nnunet(const Json& request) {
  const Dataset dataset = read_dataset(request.at("folder").get<std::string>());
  const Planner* planner = find_planner(request.at("planner"));
  const Plans plans =
      make_plans(dataset, fingerprint_for(request, dataset), *planner, request.at("gpu_memory"));
  if (request.at("plan_only").get<bool>()) {
    std::cout << (request.at("json").get<bool>() ? plans_json(plans).dump(2) + "\n"
                                                 : plans_text(plans))
              << std::flush;
    return static_cast<int>(Exit::done);
  }
  tell(plans_text(plans));
  return static_cast<int>(Exit::done);
}

}  // namespace sluice
