#include "tools/edge/engine.h"

#include <dlfcn.h>

#include <cstdlib>

#include "engine/base/error.h"
#include "kernels/onnx/model.h"
#include "kernels/onnx/ort_api.h"

namespace sluice::edge {

using namespace onnx;
namespace fs = std::filesystem;

namespace {

std::string library() {
  if (const char* given = std::getenv("SLUICE_ONNXRUNTIME"); given && *given) return given;
  const fs::path here = fs::read_symlink("/proc/self/exe").parent_path();
  for (const fs::path& folder : {here, here / "lib"})
    if (const std::string found = library_in(folder); !found.empty()) return found;
  const char* const name = "libonnxruntime.so.1";
  void* opened = ::dlopen(name, RTLD_LAZY | RTLD_LOCAL);
  if (!opened)
    throw Error(Exit::usage,
                "sluice-edge needs ONNX Runtime's library, which is neither named by "
                "SLUICE_ONNXRUNTIME, nor beside this program, nor where the loader looks: it is in "
                "the wheel onnxruntime, capi/libonnxruntime.so.*");
  ::dlclose(opened);
  return name;
}

const Table& table() {
  static const Table t = load_table(library());
  return t;
}

Held hold(void* made, int place) { return Held(made, {&table(), place}); }

}  // namespace

Engine::Engine(const fs::path& file, int threads) : file_(file.string()) {
  const Head head = read_head(file);
  if (head.inputs.size() != 1 || head.outputs.size() != 1)
    throw Error(Exit::usage, file_ + ": has " + std::to_string(head.inputs.size()) +
                                 " inputs and " + std::to_string(head.outputs.size()) +
                                 " outputs; sluice-edge takes one of each");
  input_ = head.inputs[0].name;
  output_ = head.outputs[0].name;
  if (head.inputs[0].extents.size() != 5)
    throw Error(Exit::usage, file_ + ": is no network of volumes: its input has " +
                                 std::to_string(head.inputs[0].extents.size()) + " axes, not 5");
  channels_ = head.inputs[0].extents[1].number;
  const Table& t = table();
  void* made = nullptr;
  t.call<CreateSessionOptions>(file_, &made);
  const Held options = hold(made, release_session_options);
  t.call<SetIntraOpNumThreads>(file_, options.get(), threads);
  t.call<CreateSession>(file_, t.environment, file_.c_str(), options.get(), &session_);
}

Engine::~Engine() { table().release(release_session, session_); }

std::vector<float> Engine::run(const std::vector<float>& windows,
                               std::vector<std::int64_t>& size) const {
  const Table& t = table();
  void *in = nullptr, *out = nullptr, *made = nullptr, *data = nullptr;
  t.call<CreateTensorWithDataAsOrtValue>(file_, t.memory, const_cast<float*>(windows.data()),
                                         windows.size() * sizeof(float), size.data(), size.size(),
                                         element_float, &in);
  const Held input = hold(in, release_value);
  const char *input_name = input_.c_str(), *output_name = output_.c_str();
  t.call<Run>(file_, session_, nullptr, &input_name, &in, std::size_t{1}, &output_name,
              std::size_t{1}, &out);
  const Held output = hold(out, release_value);
  t.call<GetTensorTypeAndShape>(file_, out, &made);
  const Held shape = hold(made, release_shape);
  int element = 0;
  std::size_t axes = 0;
  t.call<GetTensorElementType>(file_, made, &element);
  t.call<GetDimensionsCount>(file_, made, &axes);
  if (element != element_float || axes != size.size())
    throw Error(Exit::usage, file_ + ": its output is no volume of float32");
  t.call<GetDimensions>(file_, made, size.data(), axes);
  std::size_t count = 1;
  for (const std::int64_t n : size) count *= static_cast<std::size_t>(n);
  t.call<GetTensorMutableData>(file_, out, &data);
  const auto* first = static_cast<const float*>(data);
  return {first, first + count};
}

}  // namespace sluice::edge
