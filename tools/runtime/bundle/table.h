// What the importer knows of classes beside what the types' Specs say: as data.
//
// A class of MONAI's is the type that type_for_class() names, and a parameter is the Spec's of the
// same name; only what differs stands here, and a test holds each row against the Specs.
#pragma once

#include <span>
#include <string_view>

namespace sluice::bundle {

// A class whose type is not found by its name.
struct ClassRow {
  std::string_view name, type;
};
std::span<const ClassRow> class_rows();

// A parameter of a class, "*Trainer" of all whose names end so, "resnet*" of all that begin so, "*"
// of all: its name here; "" where
// it has no effect, or has none at the value that stands beside (JSON). Of engines, handlers,
// loaders and readers, which engines.cpp and chains.cpp read one by one, all that nothing asked for
// and no row calls harmless is reported.
struct ParamRow {
  std::string_view name, param, here, harmless;
};
std::span<const ParamRow> param_rows();

// What MONAI's class does where a parameter is not given, and the type here does otherwise (JSON).
struct DefaultRow {
  std::string_view type, param, value;
};
std::span<const DefaultRow> default_rows();

// Classes that do nothing to a graph, and why.
struct DroppedRow {
  std::string_view name, why;
};
std::span<const DroppedRow> dropped_rows();

// Learning rate schedules: their parameters are the optimizer's. `defaults` (JSON) is what torch or
// MONAI takes where one is not given; it is written always.
struct ScheduleRow {
  std::string_view name, schedule, params, defaults;  // params: "T_max=total_steps eta_min"
};
std::span<const ScheduleRow> schedule_rows();

// Lambdas by shape: `_A` stands for any literal; the node's parameters as JSON in which it stands
// too. `then`: a second node, of the same keys.
struct LambdaRow {
  std::string_view lambda, type, params, then, then_params;
};
std::span<const LambdaRow> lambda_rows();

// Classes of bundles' own scripts that are known by their script's text: by the SHA-256 of it
// without empty lines and blanks at lines' ends. "@name" is a parameter's value, "@@classes" 1 to
// the network's last channel. `type` "": it does nothing to a graph, and `params` says why.
struct ScriptRow {
  std::string_view name, sha256, type, params;
};
std::span<const ScriptRow> script_rows();

}  // namespace sluice::bundle
