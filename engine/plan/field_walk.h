// The walk behind find_flows; private to fields*.cpp. One Walk applies the rules of one node to the
// flow that enters it.
//
//   fields.cpp         the walk itself, and rules that change what flows
//   field_checks.cpp   rules that must hold
#pragma once

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "engine/plan/plan.h"

namespace sluice {

class Walk {
 public:
  Walk(const Plan& plan, int index, Flow flow, Diagnostics& diagnostics)
      : Walk(plan, index, plan.nodes[static_cast<std::size_t>(index)], std::move(flow),
             diagnostics) {}
  Flow leave();
  std::vector<std::string> read_on_host() const;

 private:
  // `node`: the plan's at `index`, or one of its step.
  Walk(const Plan& plan, int index, const PlanNode& node, Flow flow, Diagnostics& diagnostics)
      : plan_(plan),
        index_(index),
        node_(node),
        spec_(*node_.spec),
        params_(node_.graph->params),
        diagnostics_(diagnostics),
        flow_(std::move(flow)) {}

  // The nodes of a step, one after the other. What they make is gone after it.
  void step() const;
  static PlanNode node_of_step(const GraphNode& node);

  // ---- what rules refer to ----
  bool holds(const FieldRule& rule) const;
  const Json& param(const std::string& name) const;
  std::vector<std::string> names(const std::string& text) const;
  const GraphModel* model(const std::string& name) const;
  // "2", "@count" or "@net.out_channels"; 0 where it is not known.
  std::int64_t number(const std::string& text) const;
  bool classifies(const std::string& channels) const;
  bool reads_a_learner() const;

  // ---- rules that change what flows ----
  // A node that declares nothing may do anything.
  Flow unknown();
  void apply(const FieldRule& rule);
  void gather();
  void prefixes(const FieldRule& rule);
  // Whether gradients go on to a field that this node gives or changes.
  void differentiate(FieldInfo& f) const;
  void varies(const FieldInfo& f);
  static std::string said_by(const FieldInfo& f);
  static void learn(FieldInfo& f, int axes, std::string from);
  std::vector<std::string> dtypes_of(const FieldRule& rule) const;
  void gives(const FieldRule& rule);
  void changes(const FieldRule& rule);
  // One number stands for all axes; a null, or 0 or less, for what is unknown.
  static std::vector<std::int64_t> extents_of(const Json& value, int spatial);
  void resizes(const FieldRule& rule);
  void chooses_extents(const FieldRule& rule);
  bool exchanges_equal(std::vector<std::int64_t> extents) const;
  void keeps(const FieldRule& rule);

  // ---- rules that must hold ----
  void device();
  void takes(const FieldRule& rule);
  void missing(const std::string& name, const std::string& by);
  bool form_fits(const FieldRule& rule, FieldInfo& f, const std::string& by);
  void spatial_fits(const FieldRule& rule, FieldInfo& f);
  // How many axes a parameter speaks of; 0 where it does not say. "RAS" and [1, 1, 2] are of three.
  static int axes_of(const Json& value);
  void per_axis(const FieldRule& rule);
  void axes(const FieldRule& rule);
  void network(const FieldRule& rule);
  void multiples(const GraphModel& m, const FieldInfo& f, const std::string& by);

  // ---- what is said ----
  const std::string& path(int n) const;
  std::string quoted(const std::string& name) const;
  std::string parameter(const std::string& name) const;
  // Points at the parameter where the file names it, else at `in`; in a step, at `type`.
  // Once for each code and place: of several fields the first is named.
  void error(const char* code, const std::string& name, std::string message, std::string hint = "",
             const std::string& field = "");
  // The parameter that a rule's fields are named by.
  static std::string source_of(const std::string& text);
  std::string since_batch() const;

  const Plan& plan_;
  const int index_;
  const PlanNode& node_;
  const Spec& spec_;
  const Json& params_;
  Diagnostics& diagnostics_;
  Flow flow_;
  std::set<std::string> said_;  // code and place
  bool takes_gradient_ = false;
  std::string takes_ended_;  // where the gradient of a field that it takes ended
};

}  // namespace sluice
