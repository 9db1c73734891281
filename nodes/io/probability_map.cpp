// probability_map: a slide's patches become one map; MONAI's ProbMapProducer.
#include <ATen/Functions.h>

#include <map>

#include "engine/base/error.h"
#include "engine/run/registry.h"
#include "engine/state/checkpoint.h"
#include "engine/state/sample.h"
#include "kernels/files/npy.h"
#include "kernels/lists/data_list.h"
#include "nodes/fields.h"
#include "nodes/written_files.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;

struct ProbabilityMap final : Node {
  struct Params {
    std::string key = "pred", output_key = "prob_map", slide_key = "image", output_dir,
                output_postfix;
  } p;
  fs::path folder;

  static Spec spec() {
    return Spec(
               "probability_map",
               "Puts the probability of each patch of a slide in its place on a map, and emits the "
               "map when the slide's patches have all come.")
        .in("sample",
            "A patch that slide_grid gave a place, with its probability: decollate a "
            "batch before.")
        .out("sample",
             "[1, rows, columns] float64, 0 where no patch is; other fields as the last patch had "
             "them")
        .param("key", &Params::key, "The probability, one number.")
        .param("output_key", &Params::output_key, "Field for the map.")
        .param(
            "output_dir", &Params::output_dir,
            "Folder for NAME.npy, [rows, columns] float64; a relative one stands under the run's "
            "folder where there is one. Empty: none is written.")
        .param("output_postfix", &Params::output_postfix, "Put behind the name and an underscore.")
        .ordered()
        .takes("@key", Form::any, 0)
        .takes("mask_location", Form::any, 0)
        .takes("mask_size", Form::any, 0)
        .takes("num_patches", Form::any, 0)
        .gives("@output_key", Form::image)
        .channels("1")
        .dtype("float64")
        .gives("@slide_key", Form::record);
  }

  void open(const OpenContext& context) override {
    if (p.output_dir.empty()) return;
    folder = context.out_dir / p.output_dir;
    written_.open(context, folder);
  }

  void process(Firing& f) override {
    const Sample& in = f.in();
    const std::string path = in.at("mask_location").geometry().path;
    const auto numbers = [&](const char* key, std::int64_t n) {
      const at::Tensor t = in.tensor(key).to(at::kCPU, at::kLong).flatten().contiguous();
      if (t.numel() != n)
        throw DataError(std::string("field \"") + key + "\" has " + std::to_string(t.numel()) +
                        " numbers for one patch; decollate a batch before probability_map");
      return std::vector<std::int64_t>(t.const_data_ptr<std::int64_t>(),
                                       t.const_data_ptr<std::int64_t>() + n);
    };
    const auto at = numbers("mask_location", 2), size = numbers("mask_size", 2);
    const at::Tensor& probability = in.tensor(p.key);
    if (probability.numel() != 1)
      throw shape_error(p.key, probability, "; a map takes one number a patch");
    Unfinished& map = maps_[path];
    if (!map.values.defined()) {
      map.values = at::zeros({1, size[0], size[1]}, at::kDouble);
      map.missing = numbers("num_patches", 1)[0];
    }
    for (std::size_t d = 0; d < 2; ++d)
      if (at[d] < 0 || at[d] >= map.values.size(static_cast<std::int64_t>(d) + 1))
        throw DataError(path + ": place " + list_text(at) + " lies outside of a map of " +
                        list_text(size));
    map.values[0][at[0]][at[1]].fill_(probability.to(at::kCPU).item<double>());
    if (--map.missing > 0) return f.skip("not the slide's last patch");
    f.emit(finished(in, path, map.values, f.stamp()));
    maps_.erase(path);
  }

  void flush(Flush&) override {
    if (maps_.empty()) return;
    const auto [path, map] = *maps_.begin();
    maps_.clear();
    throw DataError(path + ": " + std::to_string(map.missing) +
                    " of its patches did not come, so its map is not whole");
  }

  // Maps by number, since a path need not be UTF-8, as names of tensors are.
  void save(State& state) const override {
    Json all = Json::array();
    for (const auto& [path, map] : maps_) {
      state.tensors[map_name(all.size())] = map.values;
      all.push_back({path, map.missing});
    }
    if (!all.empty()) state.tensors[saved_as] = packed_json(all);
    written_.save(state);
  }
  void load(const State& state) override {
    maps_.clear();
    if (const auto found = state.tensors.find(saved_as); found != state.tensors.end()) {
      const Json all = unpacked_json(found->second);
      for (std::size_t i = 0; i < all.size(); ++i)
        maps_[all[i].at(0).get<std::string>()] = {state.tensors.at(map_name(i)).clone(),
                                                  all[i].at(1).get<std::int64_t>()};
    }
    written_.load(state);
  }

 private:
  struct Unfinished {
    at::Tensor values;
    std::int64_t missing = 0;
  };
  static constexpr const char* saved_as = "unfinished";
  static std::string map_name(std::size_t number) { return "map_" + std::to_string(number); }

  Sample finished(const Sample& last, const std::string& path, const at::Tensor& values,
                  const Stamp& stamp) {
    Sample out = last;
    out.name = file_stem(path);
    auto meta = std::make_shared<Meta>();
    meta->path = path;
    out.set(p.output_key, Field(values, meta));
    out.set(p.slide_key, Field(at::Tensor(), meta));
    if (folder.empty()) return out;
    const std::string postfix = p.output_postfix.empty() ? "" : "_" + p.output_postfix;
    const fs::path file = folder / (out.name + postfix + ".npy");
    written_.claim(file, stamp, out.name, path);
    write_npy(file, values[0]);
    return out;
  }

  std::map<std::string, Unfinished> maps_;  // by the slide's path
  WrittenFiles written_;
};

const Register<ProbabilityMap> registered;

}  // namespace
}  // namespace sluice
