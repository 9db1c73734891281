// hover_net_nuclear_type_post_processing: MONAI's HoVerNetNuclearTypePostProcessingd.
#include <algorithm>
#include <map>

#include "engine/state/list_field.h"
#include "nodes/transform/hover.h"

namespace sluice {
namespace {

struct HoverNetNuclearType final : Node {
  struct Params {
    std::string type_prediction_key = "type_prediction", instance_map_key = "instance_map",
                instance_info_key = "instance_info", type_map_key = "type_map";
    std::string activation = "softmax";
    std::optional<double> threshold;
    bool return_type_map = true;
  } p;

  static Spec spec() {
    Spec s("hover_net_nuclear_type_post_processing",
           "The type of each instance: that of most of its pixels, the background last.");
    s.in("sample")
        .out("sample")
        .param("type_prediction_key", &Params::type_prediction_key, "Logits, [C, X, Y].")
        .param("instance_map_key", &Params::instance_map_key, "The instances' numbers, [1, X, Y].")
        .param(
            "instance_info_key", &Params::instance_info_key,
            "Field for a table, float32 [instances, 9]: the number, the first row, the row after "
            "the last, the first column, the column after the last, the centroid's row and "
            "column, the type, the share of pixels that have it. A line of pixels is left out.")
        .param("return_type_map", &Params::return_type_map, "Also makes type_map_key.")
        .param("type_map_key", &Params::type_map_key,
               "Field for the instances' types, int32 [1, X, Y].")
        .takes("@type_prediction_key", Form::image, 2, 2)
        .takes("@instance_map_key", Form::image, 2, 2)
        .gives("@instance_info_key", Form::any)
        .dtype("float32")
        .gives("@type_map_key", Form::image)
        .dtype("int32")
        .when("return_type_map");
    return add_activation<Params>(s);
  }

  void process(Firing& f) override {
    Sample out = f.in();
    const at::Tensor& logits = logits_of(out, p.type_prediction_key, p.activation);
    const at::Tensor& map = map_of(out, p.instance_map_key);
    require_extents(logits, p.type_prediction_key, map, p.instance_map_key);
    const at::Tensor types =
        (p.activation == "softmax"
             ? logits.argmax(0)
             : logits[0].to(at::kFloat).sigmoid().ge(p.threshold.value_or(0.5)))
            .to(at::kLong)
            .contiguous();
    const at::Tensor numbers = map.to(at::kInt).contiguous();
    const auto found = instances(numbers, types);
    const auto meta = out.at(p.instance_map_key).meta;
    at::Tensor table = at::empty({std::ssize(found), 9}, at::kFloat);
    float* row = table.mutable_data_ptr<float>();
    std::map<std::int32_t, std::int32_t> type_of;
    for (const auto& [number, one] : found) {
      const auto [type, share] = one.type();
      const auto n = static_cast<double>(one.pixels);
      for (const double v : {static_cast<double>(number), static_cast<double>(one.from[0]),
                             static_cast<double>(one.to[0]), static_cast<double>(one.from[1]),
                             static_cast<double>(one.to[1]), one.sum[0] / n, one.sum[1] / n,
                             static_cast<double>(type), share})
        *row++ = static_cast<float>(v);
      type_of[number] = type;
    }
    out.set(p.instance_info_key, list_field(table));
    if (p.return_type_map) {
      at::Tensor type_map = at::zeros_like(numbers);
      auto* to = type_map.mutable_data_ptr<std::int32_t>();
      const auto* from = numbers.const_data_ptr<std::int32_t>();
      for (std::int64_t i = 0; i < numbers.numel(); ++i)
        if (const auto it = type_of.find(from[i]); it != type_of.end()) to[i] = it->second;
      out.set(p.type_map_key, Field(type_map, meta));
    }
    f.emit(std::move(out));
  }

 private:
  struct Instance {
    std::int64_t from[2]{1LL << 40, 1LL << 40}, to[2]{0, 0}, pixels = 0;
    double sum[2]{0, 0};
    bool has_neighbours = false;                  // a pixel beside, or below, another of its own
    std::map<std::int64_t, std::int64_t> counts;  // by type

    void add(std::int64_t row, std::int64_t column, std::int64_t type) {
      const std::int64_t at[2]{row, column};
      for (int d = 0; d < 2; ++d) {
        from[d] = std::min(from[d], at[d]);
        to[d] = std::max(to[d], at[d] + 1);
        sum[d] += static_cast<double>(at[d]);
      }
      ++pixels;
      ++counts[type];
    }
    // The most frequent, of equals the lower; not 0 where there is another.
    std::pair<std::int32_t, double> type() const {
      std::int64_t best = 0, most = 0;
      for (const auto& [of, n] : counts)
        if (of != 0 && n > most) best = of, most = n;
      if (most == 0) most = counts.at(0);
      return {static_cast<std::int32_t>(best),
              static_cast<double>(most) / (static_cast<double>(pixels) + 1e-6)};
    }
    // MONAI makes no contour of a line, straight or of corners that touch, and leaves it out.
    bool is_line() const { return !has_neighbours || to[0] - from[0] == 1 || to[1] - from[1] == 1; }
  };

  static std::map<std::int32_t, Instance> instances(const at::Tensor& numbers,
                                                    const at::Tensor& types) {
    std::map<std::int32_t, Instance> found;
    const auto* number = numbers.const_data_ptr<std::int32_t>();
    const auto* type = types.const_data_ptr<std::int64_t>();
    const std::int64_t columns = numbers.size(2);
    for (std::int64_t i = 0; i < numbers.numel(); ++i) {
      if (number[i] == 0) continue;
      Instance& one = found[number[i]];
      one.add(i / columns, i % columns, type[i]);
      one.has_neighbours |= (i % columns > 0 && number[i - 1] == number[i]) ||
                            (i >= columns && number[i - columns] == number[i]);
    }
    std::erase_if(found, [](const auto& one) { return one.second.is_line(); });
    return found;
  }
};

const Register<HoverNetNuclearType> registered;

}  // namespace
}  // namespace sluice
