// A model in the ONNX format (https://onnx.ai/onnx/repo-docs/IR.html): operators, their tensors,
// the model's inputs and outputs. Debian's libonnx and libprotobuf would bring 3 MB and a compiler
// step for what is a page here.
//
// Invariant: equal models give equal bytes.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace sluice::onnx {

// TensorProto.DataType.
enum class Type : std::uint8_t {
  float32 = 1,
  uint8 = 2,
  int8 = 3,
  int64 = 7,
  boolean = 9,
  float16 = 10
};

using Attribute = std::variant<std::int64_t, float, std::string, std::vector<std::int64_t>>;
using Attributes = std::vector<std::pair<std::string, Attribute>>;

struct Node {
  std::string op, name;
  std::vector<std::string> inputs, outputs;  // values by name; "": an optional one is not given
  Attributes attributes;
};

// An initializer: numbers that the file holds, in order, as the machine has them.
struct Tensor {
  std::string name;
  Type type = Type::float32;
  std::vector<std::int64_t> size;
  std::string bytes;
};

struct Extent {
  std::int64_t number = 0;
  std::string symbol;  // an extent that callers choose has a name instead
};

struct Port {
  std::string name;
  Type type = Type::float32;
  std::vector<Extent> extents;
};

struct Model {
  std::string producer_version;
  std::vector<Node> nodes;
  std::vector<Tensor> tensors;
  std::vector<Port> inputs, outputs;
  std::map<std::string, std::string> metadata;
};

constexpr int ir_version = 8, opset = 17;

// Writes a file that is whole or not there. Beyond `limit` bytes of tensors, which no message of
// protocol buffers can hold, they go to FILE.data beside it. An IoError names the file.
void write_model(const std::filesystem::path& file, const Model& model,
                 std::uint64_t limit = 1900ULL << 20);

// What stands in a file beside its tensors: inputs that are no tensors of the file, outputs, the
// names of its operators, its opset and its metadata. A DataError says where the file stops being
// a model.
struct Head {
  std::vector<Port> inputs, outputs;
  std::vector<std::string> operators;  // each once, sorted
  int opset = 0;
  std::map<std::string, std::string> metadata;
};
Head read_head(const std::filesystem::path& file);

}  // namespace sluice::onnx
