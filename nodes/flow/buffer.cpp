// buffer: a place where samples wait, so that what is in front may run ahead.
#include "engine/run/registry.h"

namespace sluice {
namespace {

struct BufferNode final : Node {
  struct Params {
    std::int64_t size = 2;
  } p;

  static Spec spec() {
    return Spec("buffer", "Lets what stands in front run up to `size` samples ahead.")
        .in("sample")
        .out("sample")
        .param("size", &Params::size, "How many samples may be in flight behind it: its credits.")
        .at_least(1)
        .gate("size")
        .passes()
        .any_device();
  }

  void process(Firing& f) override { f.emit_ptr(f.ptr()); }
};

const Register<BufferNode> registered;

}  // namespace
}  // namespace sluice
