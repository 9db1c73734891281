// What a network is made of, while it is described: operations append steps, finish() fuses them
// and chooses layout and frames.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "kernels/net/net.h"
#include "kernels/net/value.h"

namespace sluice {

class Builder {
 public:
  // In the order in which Net::forward takes them; before all else.
  Value input(std::int64_t channels, int axes);
  Scope scope() { return {this, ""}; }
  // The result is like `like` and may be changed.
  Value append(std::unique_ptr<Step> step, const Values& inputs, const std::vector<bool>& keeps,
               const Value& like);
  // A parameter that was there by its name is that one: its uses share it.
  int parameter(const std::string& name, std::vector<std::int64_t> shape, const Init& init,
                std::int64_t fan);
  int buffer(const std::string& name, at::Tensor tensor, const std::string& drawn_as = {});
  const Net::Parameter& parameter(int number) const { return net_.parameters[number]; }

  struct Options {
    at::ScalarType compute = at::kFloat;
    bool channels_last = true;  // false: never
  };
  Net finish(const Values& outputs, const Options& options);

 private:
  Net net_;
};

}  // namespace sluice
