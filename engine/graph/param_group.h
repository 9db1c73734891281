// Parameters that lie in a group of their own, which a kernel takes as it is.
#pragma once

#include "engine/graph/spec.h"

namespace sluice {

// Declares member `member` of the group of parameters that Params has at `group`.
template <class P, class G, class Base, class T>
Spec& param_of(Spec& s, std::string key, G P::*group, T Base::*member, std::string text) {
  ParamSpec param;
  param.name = std::move(key);
  param.type = ParamType<T>::name();
  param.doc = std::move(text);
  param.fallback = ParamType<T>::write((P{}.*group).*member);
  param.set = [group, member](void* params, const Json& value) {
    (static_cast<P*>(params)->*group).*member = ParamType<T>::parse(value);
  };
  param.read = [group, member](const void* params) {
    return ParamType<T>::write((static_cast<const P*>(params)->*group).*member);
  };
  s.params.push_back(std::move(param));
  return s;
}

}  // namespace sluice
