#include "tests/engine/toy.h"

namespace sluice {

std::string sample_name(const Sample& s) { return "v" + std::to_string(s.value); }
std::size_t sample_bytes(const Sample&) { return 8; }
std::string sample_file(const Sample& s) { return sample_name(s) + ".nii"; }

namespace toy {

Spec batch_spec() {
  return plain("batch")
      .param("size", &P::size, "")
      .param("drop_last", &P::drop_last, "")
      .param("n", &P::n, "")
      .gathers("size", "drop_last")
      .gate("n");
}
Spec expand_spec() { return plain("expand").param("n", &P::n, "").expands("n"); }
Spec buffer_spec() { return plain("buffer").param("n", &P::n, "").gate("n"); }
Spec shuffle_spec() { return plain("shuffle").param("n", &P::n, "").shuffles("n"); }
Spec reader_spec(LaneKind lane) {
  return plain("reader").param("net", &P::net, "").reads("net").lane(lane);
}
Spec updater_spec(LaneKind lane) {
  return Spec("updater", "")
      .in("sample")
      .out("sample")
      .param("net", &P::net, "")
      .updates("net")
      .lane(lane);
}

void join_members(Firing& f) {
  std::vector<std::uint64_t> m;
  std::uint64_t h = 0;
  for (const auto& s : f.members()) {
    m.push_back(s->value);
    h = mix(h ^ s->value);
  }
  f.emit(Sample(h, m));
}

}  // namespace toy
}  // namespace sluice
