#include "engine/state/torch_writer.h"

#include <bit>

#include "engine/base/error.h"
#include "engine/state/dtype.h"
#include "engine/state/zip_file.h"

namespace sluice {

TorchWriter& TorchWriter::begin() {
  pickle_ += "}(";
  return *this;
}
TorchWriter& TorchWriter::end() {
  pickle_ += 'u';
  return *this;
}

void TorchWriter::number(std::uint64_t n, int bytes) {
  for (int i = 0; i < bytes; ++i) pickle_ += static_cast<char>(n >> 8 * i);
}
void TorchWriter::text(const std::string& text) {
  pickle_ += 'X';
  number(text.size(), 4);
  pickle_ += text;
}
void TorchWriter::integer(std::int64_t n) {
  const bool is_short = n == static_cast<std::int32_t>(n);
  pickle_ += is_short ? "J" : "\x8a\x08";
  number(static_cast<std::uint64_t>(n), is_short ? 4 : 8);
}
void TorchWriter::numbers(at::IntArrayRef all) {
  pickle_ += '(';
  for (const auto n : all) integer(n);
  pickle_ += 't';
}

TorchWriter& TorchWriter::value(const Json& json) {
  switch (json.type()) {
    case Json::value_t::boolean:
      pickle_ += json.get<bool>() ? '\x88' : '\x89';
      break;
    case Json::value_t::number_integer:
    case Json::value_t::number_unsigned:
      integer(json.get<std::int64_t>());
      break;
    case Json::value_t::number_float: {
      const auto bits = std::bit_cast<std::uint64_t>(json.get<double>());
      pickle_ += 'G';
      for (int i = 8; i-- > 0;) pickle_ += static_cast<char>(bits >> 8 * i);
      break;
    }
    case Json::value_t::string:
      text(json.get_ref<const std::string&>());
      break;
    case Json::value_t::array:
      pickle_ += "](";
      for (const Json& element : json) value(element);
      pickle_ += 'e';
      break;
    case Json::value_t::object:
      begin();
      for (const auto& [name, member] : json.items()) key(name).value(member);
      end();
      break;
    default:
      pickle_ += 'N';
  }
  return *this;
}

TorchWriter& TorchWriter::tensor(const at::Tensor& tensor) {
  const Dtype* type = find_dtype(tensor.scalar_type());
  if (!type)
    throw Error(Exit::usage, "a tensor of this type has no place in a file of torch.save()");
  auto& [name, given] = written_[{tensor.const_data_ptr(), std::string(type->name)}];
  if (!given.defined() || given.sizes() != tensor.sizes() || given.strides() != tensor.strides()) {
    name = std::to_string(storages_.size());
    given = tensor;
    const at::Tensor whole = tensor.cpu().contiguous();
    storages_.emplace_back(
        name, std::string(static_cast<const char*>(whole.const_data_ptr()), whole.nbytes()));
  }
  pickle_ += "ctorch._utils\n_rebuild_tensor_v2\n((";
  text("storage");
  pickle_ += "ctorch\n" + std::string(type->storage) + '\n';
  text(name);
  text("cpu");
  integer(tensor.numel());
  pickle_ += "tQ";
  integer(0);
  numbers(tensor.sizes());
  numbers(c10::contiguous_strides(tensor.sizes()));
  pickle_ +=
      "\x89"
      "ccollections\nOrderedDict\n)RtR";
  return *this;
}

std::string TorchWriter::archive(const std::string& name) const {
  std::vector<std::pair<std::string, std::string>> entries{{name + "/data.pkl", pickle_ + '.'},
                                                           {name + "/byteorder", "little"}};
  for (const auto& [key, bytes] : storages_) entries.emplace_back(name + "/data/" + key, bytes);
  entries.emplace_back(name + "/version", "3\n");
  return zip_of(entries);
}

}  // namespace sluice
