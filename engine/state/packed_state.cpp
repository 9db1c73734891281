#include "engine/state/packed_state.h"

#include <ATen/Functions.h>

#include <cstring>

#include "engine/base/error.h"
#include "engine/state/dtype.h"

namespace sluice {

namespace {

// What `bytes` bytes can be; axes of extent 0 do not hide an overflow of the others.
bool is_shape_of(std::size_t bytes, const std::vector<std::int64_t>& shape, at::ScalarType type) {
  auto all = static_cast<std::int64_t>(at::elementSize(type));
  bool empty = false;
  for (const std::int64_t extent : shape) {
    empty = empty || extent == 0;
    if (extent < 0 || (extent > 0 && __builtin_mul_overflow(all, extent, &all))) return false;
  }
  return bytes == (empty ? 0 : static_cast<std::size_t>(all));
}

}  // namespace

std::string packed_state(const State& state) {
  Json all = {{"values", state.values}, {"tensors", Json::object()}};
  for (const auto& [name, tensor] : state.tensors) {
    const at::Tensor t = tensor.cpu().contiguous();
    const auto* bytes = static_cast<const std::uint8_t*>(t.const_data_ptr());
    all["tensors"][name] = {{"dtype", find_dtype(t.scalar_type())->safetensors},
                            {"shape", t.sizes().vec()},
                            {"data", Json::binary({bytes, bytes + t.nbytes()})}};
  }
  std::string text;
  Json::to_msgpack(all, text);
  return text;
}

State unpacked_state(const std::string& text) try {
  const Json all = Json::from_msgpack(text);
  State state;
  state.values = all.at("values");
  for (const auto& [name, one] : all.at("tensors").items()) {
    const std::string dtype = one.at("dtype");
    const auto& data = one.at("data").get_binary();
    const Dtype* known = find_dtype(&Dtype::safetensors, dtype);
    if (!known) throw DataError("not a state: unknown dtype " + dtype);
    const auto shape = one.at("shape").get<std::vector<std::int64_t>>();
    if (!is_shape_of(data.size(), shape, known->type))
      throw DataError("not a state: \"" + name + "\" has other bytes than its shape");
    at::Tensor t = at::empty(shape, known->type);
    std::memcpy(t.mutable_data_ptr(), data.data(), data.size());
    state.tensors[name] = std::move(t);
  }
  return state;
} catch (const Json::exception& e) {
  throw DataError(std::string("not a state: ") + e.what());
}

at::Tensor packed_json(const Json& values) { return at::tensor(Json::to_cbor(values), at::kByte); }

Json unpacked_json(const at::Tensor& packed) {
  const at::Tensor bytes = packed.contiguous();
  const auto* const first = bytes.const_data_ptr<std::uint8_t>();
  return Json::from_cbor(first, first + bytes.numel());
}

}  // namespace sluice
