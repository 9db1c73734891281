// What a node does to the fields of its samples, declared in its Spec:
//
//   .takes("@keys", Form::image)                     must be there, [C, X, Y(, Z)]
//   .takes("@label_key", Form::image)
//   .resizes("@keys", "spatial_size")                [C, spatial_size]
//   .gives("@output_key", Form::any).like("@key").channels("@net.out_channels").dtype("float32")
//
// Invariant: plain data, like the rest of a Spec. fields.h says what `check` makes of it.
//
// Names of fields are written "pred", "@keys" (what the parameter `keys` holds: a string or a list
// of them), "@files{}" (the keys of the object, or of the list of objects, that it holds), and with
// more behind each: "@keys@postfix" (what `postfix` holds), "@keys@=_map" (that text),
// "@key#numbers" (_ and each of the numbers: pred_5). Numbers are written "1", "@param", "@param+2"
// or "@net.param" (of the network that the parameter `net` names).
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

namespace sluice {

enum class Form : std::uint8_t {
  any,     // a tensor: one sample's or a batch
  record,  // a path that nothing has loaded yet
  image,   // [C, X, Y(, Z)]
  batch,   // [N, C, X, Y(, Z)]
  scalar,  // []
  value,   // any of these: what a node hands on without looking into it
};

struct FieldRule {
  enum class Act : std::uint8_t {
    passes,      // every field goes on as it came
    takes,       // `fields` must be there in `form`, with `least`..`most` spatial axes
    gives,       // `fields` are there afterwards
    changes,     // their dtype and channels become others
    resizes,     // their spatial extents become what `param` says; without one: nobody knows
    pads,        // ... at least what `param` says
    crops,       // ... at most what `param` says
    per_axis,    // `param` has one entry for all spatial axes, or one for each
    axis_count,  // `param` is their number, 0: any
    axes,        // `param` holds spatial axes, negative ones counted from the last
    network,     // they enter the network that `param` names, by windows of `window` if that is set
    keeps,       // no other field goes on
    moves,       // the samples go to the device that `param` names
    prefixes,    // every field goes on once for each name of `param`, with that in front of its own
    decollates,  // batches become single samples
    couples,     // what becomes of a sample depends on the others of its batch
    stays,       // ... but `fields` do not: this node reads them on the host, wherever it works
  };
  Act act = Act::passes;
  std::string fields, param;
  Form form = Form::any;
  int least = 1, most = 3;
  std::string like, channels, dtype;  // of gives and changes
  bool each = false;                  // field i is like the one at i, modulo their number
  std::string window;                 // of network
  std::string when;                   // a parameter: the rule holds only if it is `value`,
  nlohmann::ordered_json value;       // or, where `value` is null, if it is set at all
  bool unless = false;                // the other way round
};

}  // namespace sluice
