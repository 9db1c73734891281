// Writes what torch.load() reads: dictionaries of plain values and tensors, as torch.save() since
// 1.6 packs them (pickle protocol 2 in a zip archive).
//
//   TorchWriter w;
//   w.begin();
//   w.key("state").begin();
//   w.key("weight").tensor(t);
//   w.end();
//   w.key("epoch").value(3);
//   w.end();
//   write(file, w.archive("net"));
//
// Invariant: a tensor that was written before is not written again, but shared, as in memory.
#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "engine/base/json.h"

namespace sluice {

class TorchWriter {
 public:
  TorchWriter& begin();  // a dictionary
  TorchWriter& end();
  TorchWriter& key(const std::string& text) { return value(text); }
  TorchWriter& key(std::int64_t number) { return value(number); }
  TorchWriter& value(const Json& json);
  TorchWriter& tensor(const at::Tensor& tensor);
  std::string archive(const std::string& name) const;  // the file's bytes

 private:
  void number(std::uint64_t n, int bytes);
  void text(const std::string& text);
  void integer(std::int64_t n);
  void numbers(at::IntArrayRef all);

  std::string pickle_ = "\x80\x02";
  std::vector<std::pair<std::string, std::string>> storages_;
  // By memory and type. The tensors are kept: else others might take their memory.
  std::map<std::pair<const void*, std::string>, std::pair<std::string, at::Tensor>> written_;
};

}  // namespace sluice
