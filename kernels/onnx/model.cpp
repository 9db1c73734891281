#include "kernels/onnx/model.h"

#include <set>

#include "engine/base/error.h"
#include "engine/base/protobuf.h"
#include "engine/base/read_file.h"
#include "kernels/files/file_io.h"

namespace sluice::onnx {
namespace {

using protobuf::Field;
using protobuf::Reader;
using protobuf::Writer;

// ---- writing: the numbers are those of onnx.proto3's fields
// --------------------------------------

std::uint64_t whole(std::int64_t n) { return static_cast<std::uint64_t>(n); }

Writer pair(const std::string& key, const std::string& value) {
  return Writer{}.bytes(1, key).bytes(2, value);
}

struct AttributeWriter {
  Writer& to;
  enum Kind : std::uint8_t { real = 1, integer = 2, text = 3, integers = 7 };
  void operator()(std::int64_t n) const { to.number(3, whole(n)).number(20, integer); }
  void operator()(float f) const { to.fixed32(2, f).number(20, real); }
  void operator()(const std::string& s) const { to.bytes(4, s).number(20, text); }
  void operator()(const std::vector<std::int64_t>& all) const {
    for (const std::int64_t n : all) to.number(8, whole(n));
    to.number(20, integers);
  }
};

Writer written(const Node& node) {
  Writer w;
  for (const auto& name : node.inputs) w.bytes(1, name);
  for (const auto& name : node.outputs) w.bytes(2, name);
  w.bytes(3, node.name).bytes(4, node.op);
  for (const auto& [name, value] : node.attributes) {
    Writer a;
    a.bytes(1, name);
    std::visit(AttributeWriter{a}, value);
    w.message(5, a);
  }
  return w;
}

Writer written(const Port& port) {
  Writer shape;
  for (const Extent& e : port.extents) {
    Writer extent;
    if (e.symbol.empty())
      extent.number(1, whole(e.number));
    else
      extent.bytes(2, e.symbol);
    shape.message(1, extent);
  }
  Writer tensor;
  tensor.number(1, static_cast<std::uint64_t>(port.type)).message(2, shape);
  return Writer{}.bytes(1, port.name).message(2, Writer{}.message(1, tensor));
}

// Where the numbers of a tensor stand: in the message, or in a file beside it.
struct Beside {
  std::string file;  // "": in the message
  std::uint64_t offset = 0;
};

Writer written(const Tensor& t, const Beside& beside) {
  Writer w;
  for (const std::int64_t n : t.size) w.number(1, whole(n));
  w.number(2, static_cast<std::uint64_t>(t.type)).bytes(8, t.name);
  if (beside.file.empty()) return w.bytes(9, t.bytes);
  w.message(13, pair("location", beside.file));
  w.message(13, pair("offset", std::to_string(beside.offset)));
  w.message(13, pair("length", std::to_string(t.bytes.size())));
  return w.number(14, 1);
}

std::span<const std::uint8_t> view(const std::string& text) {
  return {reinterpret_cast<const std::uint8_t*>(text.data()), text.size()};
}

// ---- reading
// -------------------------------------------------------------------------------------

Port port_of(std::string_view text) {
  Port port;
  Field f, g, h, i;
  for (Reader all(text); all.next(f);) {
    if (f.number == 1) port.name = f.bytes;
    if (f.number != 2) continue;
    for (Reader type(f.bytes); type.next(g);)
      if (g.number == 1)
        for (Reader tensor(g.bytes); tensor.next(h);) {
          if (h.number == 1) port.type = static_cast<Type>(h.value);
          if (h.number != 2) continue;
          for (Reader shape(h.bytes); shape.next(i);) {
            Extent extent;
            Field d;
            for (Reader one(i.bytes); one.next(d);) {
              if (d.number == 1) extent.number = static_cast<std::int64_t>(d.value);
              if (d.number == 2) extent.symbol = d.bytes;
            }
            if (extent.number == 0 && extent.symbol.empty()) extent.symbol = "?";
            port.extents.push_back(extent);
          }
        }
  }
  return port;
}

std::string first_name(std::string_view text, int number) {
  Field f;
  for (Reader all(text); all.next(f);)
    if (f.number == number) return std::string(f.bytes);
  return "";
}

void read_graph(std::string_view text, Head& head) {
  std::set<std::string> operators, tensors;
  Field f;
  for (Reader all(text); all.next(f);) {
    if (f.number == 1) operators.insert(first_name(f.bytes, 4));
    if (f.number == 5) tensors.insert(first_name(f.bytes, 8));
    if (f.number == 11) head.inputs.push_back(port_of(f.bytes));
    if (f.number == 12) head.outputs.push_back(port_of(f.bytes));
  }
  std::erase_if(head.inputs, [&](const Port& p) { return tensors.contains(p.name); });
  head.operators.assign(operators.begin(), operators.end());
}

}  // namespace

void write_model(const std::filesystem::path& file, const Model& model, std::uint64_t limit) {
  std::uint64_t bytes = 0;
  for (const Tensor& t : model.tensors) bytes += t.bytes.size();
  const std::string beside = bytes > limit ? file.filename().string() + ".data" : "";

  Writer graph;
  for (const Node& node : model.nodes) graph.message(1, written(node));
  graph.bytes(2, "sluice");
  std::uint64_t offset = 0;
  for (const Tensor& t : model.tensors) {
    graph.message(5, written(t, {beside, offset}));
    offset += t.bytes.size();
  }
  for (const Port& port : model.inputs) graph.message(11, written(port));
  for (const Port& port : model.outputs) graph.message(12, written(port));

  Writer w;
  w.number(1, ir_version).bytes(2, "sluice").bytes(3, model.producer_version);
  w.message(7, graph).message(8, Writer{}.bytes(1, "").number(2, opset));
  for (const auto& [key, value] : model.metadata) w.message(14, pair(key, value));

  if (!beside.empty()) {
    std::string all;
    all.reserve(bytes);
    for (const Tensor& t : model.tensors) all += t.bytes;
    write_file((file.parent_path() / beside).string(), {view(all)});
  }
  write_file(file.string(), {view(w.text)});
}

Head read_head(const std::filesystem::path& file) {
  const std::string text = read_text(file);
  Head head;
  Reader all(text);
  Field f, g;
  std::uint64_t version = 0;
  bool graph = false;
  while (all.next(f)) {
    if (f.number == 1 && f.type == 0) version = f.value;
    if (f.number == 7 && f.type == 2) {
      read_graph(f.bytes, head);
      graph = true;
    }
    if (f.number == 8)
      for (Reader set(f.bytes); set.next(g);)
        if (g.number == 2) head.opset = static_cast<int>(g.value);
    if (f.number == 14) head.metadata[first_name(f.bytes, 1)] = first_name(f.bytes, 2);
  }
  if (all.position() != text.size())
    throw DataError(file.string() + " is no ONNX file (a field that begins at byte " +
                    std::to_string(all.position()) + " of " + std::to_string(text.size()) +
                    " does not end)");
  if (!graph || version == 0 || head.outputs.empty())
    throw DataError(file.string() + " is no ONNX file (" + std::to_string(text.size()) +
                    " bytes without a graph)");
  return head;
}

}  // namespace sluice::onnx
