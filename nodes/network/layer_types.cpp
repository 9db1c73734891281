#include "nodes/network/layer_types.h"

#include "kernels/net/up.h"

namespace sluice {
namespace {

constexpr std::size_t any_number = 64;

Adn adn_of(const LayerParams& p) {
  Adn adn{.ordering = p.adn_ordering, .norm = {}, .act = {}, .dropout = p.dropout};
  if (!p.norm.is_null()) adn.norm = norm_of(p.norm);
  if (!p.act.is_null()) adn.act = act_of(p.act);
  return adn;
}
std::optional<PerAxis> per_axis(const std::optional<std::vector<std::int64_t>>& numbers) {
  return numbers ? std::optional<PerAxis>(*numbers) : std::nullopt;
}

using P = LayerParams;

// Lists of a number, or of one for each of x's axes.
void check_sizes(const Value& x, const P& p) {
  const auto check = [&](const char* name, const Step::Size& given) {
    require_one_or(name, given.size(), static_cast<std::size_t>(x.axes));
  };
  check("kernel_size", p.kernel_size);
  check("strides", p.strides);
  check("dilation", p.dilation);
  check("pool_size", p.pool_size);
  check("strides", p.pool_strides.value_or(Step::Size{1}));
  check("padding", p.padding.value_or(Step::Size{0}));
  check("output_padding", p.output_padding.value_or(Step::Size{0}));
}
// What PyTorch takes of a pool ...
void check_pool(const Value& x, const P& p) {
  check_sizes(x, p);
  const Step::Size size = PerAxis(p.pool_size).over(x.axes),
                   padding = PerAxis(p.padding.value_or(Step::Size{0})).over(x.axes);
  for (std::size_t a = 0; a < size.size(); ++a)
    if (2 * padding[a] > size[a])
      throw Error(Exit::usage, "padding is at most half of pool_size, " + std::to_string(size[a]) +
                                   ", found " + std::to_string(padding[a]));
}
// ... and of a transposed convolution.
void check_output_padding(const Value& x, const P& p) {
  check_sizes(x, p);
  const Step::Size more = PerAxis(p.output_padding.value_or(Step::Size{0})).over(x.axes),
                   stride = PerAxis(p.strides).over(x.axes);
  for (std::size_t a = 0; a < more.size(); ++a)
    if (more[a] > 0 && (!p.is_transposed || more[a] >= stride[a]))
      throw Error(Exit::usage,
                  "output_padding is of a transposed convolution and below its "
                  "stride, found " +
                      std::to_string(more[a]));
}

Spec& with_channels(Spec& s) {
  return s.param("out_channels", &P::out_channels, "Channels of what it makes.")
      .at_least(1)
      .required();
}
Spec& with_kernel(Spec& s) {
  return s.param("kernel_size", &P::kernel_size, "A number, or one a spatial axis.").at_least(1);
}
Spec& with_strides(Spec& s) {
  return s.param("strides", &P::strides, "A number, or one a spatial axis.").at_least(1);
}
Spec& with_bias(Spec& s) { return s.param("bias", &P::bias, "The convolution has a bias."); }
Spec& with_adn(Spec& s) {
  return s.param("act", &P::act, "MONAI's name, or [name, {arguments}]; null: none.")
      .choices(act_names())
      .param("norm", &P::norm, "MONAI's name, or [name, {arguments}]; null: none.")
      .choices(norm_names())
      .param("dropout", &P::dropout, dropout_doc)
      .range(0, 0.99)
      .param("adn_ordering", &P::adn_ordering, "Order of Activation, Dropout, Normalisation.");
}

LayerType convolution_type() {
  Spec s("convolution", "MONAI's Convolution: a convolution, then norm, dropout, activation.");
  with_adn(with_bias(with_strides(with_kernel(with_channels(s)))))
      .param("is_transposed", &P::is_transposed, "A transposed convolution.")
      .param("conv_only", &P::conv_only, "Nothing after the convolution.")
      .param("padding", &P::padding, "null: (kernel_size - 1) / 2.")
      .at_least(0)
      .param("output_padding", &P::output_padding, "Transposed; null: strides - 1.")
      .at_least(0);
  return {s, 1, 1, [](const Scope& at, const Values& x, const P& p) {
            check_output_padding(x[0], p);
            ConvolutionOptions o{.strides = p.strides,
                                 .kernel_size = p.kernel_size,
                                 .adn = adn_of(p),
                                 .bias = p.bias,
                                 .conv_only = p.conv_only,
                                 .is_transposed = p.is_transposed};
            o.padding = per_axis(p.padding);
            o.output_padding = per_axis(p.output_padding);
            return convolution(at, x[0], p.out_channels, o);
          }};
}

LayerType residual_unit_type() {
  Spec s("residual_unit", "MONAI's ResidualUnit: convolutions beside a shortcut.");
  with_adn(with_bias(with_strides(with_kernel(with_channels(s)))))
      .param("subunits", &P::subunits, "Convolutions.")
      .at_least(1)
      .param("last_conv_only", &P::last_conv_only, "Nothing after the last convolution.");
  return {s, 1, 1, [](const Scope& at, const Values& x, const P& p) {
            check_sizes(x[0], p);
            return residual_unit(
                at, x[0], p.out_channels,
                {p.strides, p.kernel_size, p.subunits, adn_of(p), p.bias, p.last_conv_only});
          }};
}

UnetBlockOptions unet_options(const P& p) {
  return {.kernel_size = p.kernel_size,
          .stride = p.strides,
          .norm = norm_of(p.norm),
          .act = act_of(p.act),
          .dropout = p.dropout,
          .residual = p.residual};
}
Spec unet_block_spec(const char* name, const char* doc) {
  Spec s(name, doc);
  with_strides(with_kernel(with_channels(s)))
      .param("act", &P::act, "MONAI's name, or [name, {arguments}].")
      .choices(act_names())
      .param("norm", &P::norm, "MONAI's name, or [name, {arguments}].")
      .choices(norm_names())
      .param("residual", &P::residual, "With a shortcut: UnetResBlock.");
  return s;
}

LayerType conv_type() {
  Spec s("conv", "torch.nn.Conv: a convolution alone, but for the padding where none is given.");
  with_bias(with_strides(with_kernel(with_channels(s))))
      .param("is_transposed", &P::is_transposed, "A transposed convolution.")
      .param(
          "padding", &P::padding,
          "null: (kernel_size - 1) / 2, times the dilation, as MONAI's Convolution; torch's is 0.")
      .at_least(0)
      .param("output_padding", &P::output_padding, "Of a transposed one; null: 0.")
      .at_least(0)
      .param("groups", &P::groups, "Groups of channels that do not mix.")
      .at_least(1)
      .param("dilation", &P::dilation,
             "Distance between the kernel's voxels; 1 of a transposed convolution.")
      .at_least(1);
  return {s, 1, 1, [](const Scope& at, const Values& x, const P& p) {
            check_output_padding(x[0], p);
            ConvOptions o{.kernel = p.kernel_size, .stride = p.strides};
            o.padding = per_axis(p.padding);
            if (p.output_padding) o.output_padding = *p.output_padding;
            o.groups = p.groups;
            o.dilation = p.dilation;
            o.transposed = p.is_transposed;
            o.bias = p.bias;
            return conv(at, x[0], p.out_channels, o);
          }};
}

LayerType up_sample_type() {
  Spec s("up_sample", "MONAI's UpSample: extents times a factor, trained or not.");
  with_bias(with_channels(s))
      .param("scale_factor", &P::scale_factor, "A number, or one a spatial axis.")
      .at_least(1)
      .param("mode", &P::up_mode,
             "deconv: a transposed convolution; nontrainable: interpolation; pixelshuffle: a "
             "convolution, whose groups of channels become cubes of voxels.")
      .choices(upsample_modes())
      .param("pre_conv", &P::pre_conv,
             "nontrainable, where channels change, and pixelshuffle: a convolution before.")
      .param("interp_mode", &P::interp_mode, "nontrainable: between voxels, or the nearest.")
      .choices({"linear", "nearest"})
      .param("align_corners", &P::align_corners, "linear: the outer voxels' centres stay.")
      .param("apply_pad_pool", &P::apply_pad_pool, "pixelshuffle: smoothed over a cube.");
  return {s, 1, 1, [](const Scope& at, const Values& x, const P& p) {
            if (x[0].axes == 0) at.refuse("up_sample takes an image, not vectors");
            require_one_or("scale_factor", p.scale_factor.size(),
                           static_cast<std::size_t>(x[0].axes));
            UpSampleOptions o{.scale_factor = p.scale_factor};
            o.mode = p.up_mode;
            o.pre_conv = p.pre_conv;
            o.interp_mode = p.interp_mode;
            o.align_corners = p.align_corners;
            o.bias = p.bias;
            o.apply_pad_pool = p.apply_pad_pool;
            const Value y = upsample(at, x[0], p.out_channels, o);
            if (y.channels != p.out_channels)
              at.refuse("without pre_conv it makes " + std::to_string(y.channels) +
                        " channels, and out_channels is " + std::to_string(p.out_channels));
            return y;
          }};
}

// Those of a few words.
std::vector<LayerType> small_types() {
  const auto spec = [](const char* name, const char* doc) { return Spec(name, doc); };
  const auto one = [](Value (*f)(const Value&)) {
    return [f](const Scope&, const Values& x, const P&) { return f(x[0]); };
  };
  std::vector<LayerType> all;
  all.push_back({spec("norm", "A norm.")
                     .param("norm", &P::norm, "MONAI's name or [name, {...}].")
                     .choices(norm_names()),
                 1, 1, [](const Scope& s, const Values& x, const P& p) {
                   return norm(s, x[0], norm_of(p.norm));
                 }});
  all.push_back(
      {spec("act", "An activation.").param("act", &P::act, "Likewise.").choices(act_names()), 1, 1,
       [](const Scope& s, const Values& x, const P& p) { return act(s, x[0], act_of(p.act)); }});
  all.push_back(
      {spec("dropout", "Numbers become 0 in training.")
           .param("dropout", &P::dropout, "How probably.")
           .range(0, 0.99),
       1, 1, [](const Scope&, const Values& x, const P& p) { return dropout(x[0], p.dropout); }});
  const auto pool = [&](const char* name, const char* doc, const char* padding,
                        Value (*pooled)(const Value&, const PoolOptions&)) {
    all.push_back({spec(name, doc)
                       .param("pool_size", &P::pool_size, "A number, or one a spatial axis.")
                       .at_least(1)
                       .param("strides", &P::pool_strides, "The same; null: pool_size.")
                       .at_least(1)
                       .param("padding", &P::padding, padding)
                       .at_least(0),
                   1, 1, [pooled](const Scope&, const Values& x, const P& p) {
                     check_pool(x[0], p);
                     PoolOptions o{.kernel = p.pool_size};
                     o.stride = per_axis(p.pool_strides);
                     if (p.padding) o.padding = *p.padding;
                     return pooled(x[0], o);
                   }});
  };
  pool("max_pool", "The largest of each block.",
       "Voxels around the image that are no maxima, at most half of pool_size; null: 0.", max_pool);
  pool("avg_pool", "The mean of each block.",
       "Zeros around the image, which count; at most half of pool_size; null: 0.", avg_pool);
  all.push_back({spec("global_avg_pool", "The mean of each channel, [N, C], without spatial axes."),
                 1, 1, one(global_avg_pool)});
  all.push_back(
      {spec("flatten", "All axes but the first in one.")
           .param("voxels", &P::voxels, "The product of the spatial extents there.")
           .at_least(1)
           .required(),
       1, 1, [](const Scope&, const Values& x, const P& p) { return flatten(x[0], p.voxels); }});
  Spec matrix("linear", "A matrix, of [N, C].");
  all.push_back(
      {with_bias(with_channels(matrix)), 1, 1, [](const Scope& s, const Values& x, const P& p) {
         return linear(s, x[0], p.out_channels, {.bias = p.bias});
       }});
  all.push_back(
      {spec("upsample", "Every extent twice, by linear interpolation."), 1, 1, one(doubled)});
  all.push_back({spec("resize", "To the second one's extents, by the nearest voxel."), 2, 2,
                 [](const Scope&, const Values& x, const P&) { return resized(x[0], x[1]); }});
  all.push_back(
      {spec("add", "The sum."), 2, any_number, [](const Scope&, const Values& x, const P&) {
         Value sum = x[0];
         for (std::size_t i = 1; i < x.size(); ++i) sum = add(sum, x[i]);
         return sum;
       }});
  all.push_back({spec("multiply", "The product; numbers of [N, C] count for whole channels."), 2, 2,
                 [](const Scope&, const Values& x, const P&) { return product(x[0], x[1]); }});
  all.push_back({spec("concat", "One after the other, along the channels."), 2, any_number,
                 [](const Scope&, const Values& x, const P&) { return concat(x); }});
  all.push_back({spec("sigmoid", "The logistic function."), 1, 1, one(sigmoid)});
  all.push_back({unet_block_spec("unet_block", "MONAI's UnetBasicBlock."), 1, 1,
                 [](const Scope& s, const Values& x, const P& p) {
                   check_sizes(x[0], p);
                   return unet_block(s, x[0], p.out_channels, unet_options(p));
                 }});
  return all;
}

}  // namespace

const std::vector<LayerType>& layer_types() {
  static const std::vector<LayerType> types = [] {
    std::vector<LayerType> all{convolution_type(), residual_unit_type(), conv_type(),
                               up_sample_type()};
    for (LayerType& t : small_types()) all.push_back(std::move(t));
    for (LayerType& t : filter_types()) all.push_back(std::move(t));
    return all;
  }();
  return types;
}

}  // namespace sluice
