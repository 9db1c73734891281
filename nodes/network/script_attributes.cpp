#include "nodes/network/script_attributes.h"

#include <c10/util/StringUtil.h>

namespace sluice {
namespace {

// Another text for another value; a tensor's is which one it is, and how often it was changed.
std::string mark_of(const c10::IValue& v) {
  std::string all = v.tagKind() + "(";
  if (v.isTensor()) {
    const at::Tensor& t = v.toTensor();
    if (t.defined()) all += c10::str(t.unsafeGetTensorImpl(), ":", t._version());
  } else if (v.isList()) {
    for (const auto& one : v.toListRef()) all += mark_of(one);
  } else if (v.isTuple()) {
    for (const auto& one : v.toTupleRef().elements()) all += mark_of(one);
  } else if (v.isGenericDict()) {
    for (const auto& one : v.toGenericDict()) all += mark_of(one.key()) + mark_of(one.value());
  } else if (v.isObject()) {
    for (const auto& one : v.toObjectRef().slots()) all += mark_of(one);
  } else {
    all += c10::str(v);
  }
  return all + ")";
}

}  // namespace

void ScriptAttributes::watch(const torch::jit::Module& module) { watch(module._ivalue(), ""); }

void ScriptAttributes::watch(const Object& module, const std::string& prefix) {
  const auto type = module->type();
  for (std::size_t i = 0; i < type->numAttributes(); ++i) {
    const std::string& name = type->getAttributeName(i);
    const c10::IValue value = module->getSlot(i);
    if (type->getAttribute(i)->is_module())
      watch(value.toObject(), prefix + name + ".");
    else if (!type->is_parameter(i) && !type->is_buffer(i) && name != "training")
      all_.push_back({prefix + name, module, i, value, mark_of(value)});
  }
}

std::string ScriptAttributes::changed() const {
  for (const Attribute& a : all_)
    if (mark_of(a.owner->getSlot(a.slot)) != a.mark) return a.name;
  return "";
}

}  // namespace sluice
