// How a parameter begins. Draws depend on the seed and the parameter's name alone.
#pragma once

#include <cstdint>

namespace sluice {

struct Init {
  enum class Rule {
    uniform,  // within 1 / sqrt(fan): PyTorch's default for convolutions and linear layers
    xavier,   // uniform within sqrt(6 / (inputs + outputs)), of a matrix (Glorot, Bengio 2010)
    kaiming,  // normal with variance 2 / ((1 + value^2) fan), for leaky ReLU (He et al. 2015)
    kaiming_uniform,  // uniform with that variance
    icnr,    // kaiming's for ReLU, each filter `value` times one after the other: what a pixel
             // shuffle makes of it begins as the nearest voxel's (Aitken et al. 2017)
    normal,  // with the standard deviation `value`, around `mean`
    fill,    // `value` everywhere
    eye,     // the identity, [I, 0], of `value` rows written one after the other
  } rule = Rule::uniform;
  double value = 0;
  bool fan_out =
      false;  // the fan counts what a number of the input adds to, and not the sum's terms
  double mean = 0;

  static Init xavier() { return {Rule::xavier}; }
  static Init kaiming(double slope = 0) { return {Rule::kaiming, slope}; }
  static Init kaiming_uniform(double slope) { return {Rule::kaiming_uniform, slope}; }
  static Init icnr(std::int64_t repeats) { return {Rule::icnr, static_cast<double>(repeats)}; }
  static Init kaiming_out() { return {Rule::kaiming, 0, true}; }
  static Init uniform_out() { return {Rule::uniform, 0, true}; }
  static Init normal(double deviation, double mean = 0) {
    return {Rule::normal, deviation, false, mean};
  }
  static Init fill(double value) { return {Rule::fill, value}; }
  static Init eye(double rows) { return {Rule::eye, rows}; }
};

}  // namespace sluice
