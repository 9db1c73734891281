// What a TorchScript module keeps beside its parameters and buffers: numbers, lists, tensors. No
// checkpoint holds them, so a forward pass that changes one has to be noticed.
#pragma once

#include <torch/script.h>

#include <string>
#include <vector>

namespace sluice {

class ScriptAttributes {
 public:
  void watch(const torch::jit::Module& module);
  // The name of one that is not as it was then; empty: none.
  std::string changed() const;

 private:
  using Object = c10::intrusive_ptr<c10::ivalue::Object>;
  struct Attribute {
    std::string name;
    Object owner;
    std::size_t slot;
    c10::IValue was;   // held, so that no other tensor can have its address
    std::string mark;  // of `was` then
  };
  void watch(const Object& module, const std::string& prefix);
  std::vector<Attribute> all_;
};

}  // namespace sluice
