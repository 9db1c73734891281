// Areas under curves, and the measures of a confusion matrix under MONAI's names: a function of one
// class's counts each; NaN where it is not defined.
#pragma once

#include <cmath>

#include "nodes/metric/classes.h"

namespace sluice {

inline double sensitivity(const Counts& c) { return ratio(c.tp, c.tp + c.fn); }
inline double specificity(const Counts& c) { return ratio(c.tn, c.tn + c.fp); }
inline double precision(const Counts& c) { return ratio(c.tp, c.tp + c.fp); }
inline double negative_value(const Counts& c) { return ratio(c.tn, c.tn + c.fn); }

inline double prevalence_threshold(const Counts& c) {
  const double tpr = sensitivity(c), tnr = specificity(c);
  return ratio(std::sqrt(tpr * (1 - tnr)) + tnr - 1, tpr + tnr - 1);
}

inline double matthews(const Counts& c) {
  return ratio(c.tp * c.tn - c.fp * c.fn,
               std::sqrt((c.tp + c.fp) * (c.tp + c.fn) * (c.tn + c.fp) * (c.tn + c.fn)));
}

struct Measure {
  const char* name;  // MONAI's
  double (*of)(const Counts&);
};

inline const Measure measures[] = {
    {"sensitivity", sensitivity},
    {"specificity", specificity},
    {"precision", precision},
    {"negative predictive value", negative_value},
    {"miss rate", [](const Counts& c) { return ratio(c.fn, c.fn + c.tp); }},
    {"fall out", [](const Counts& c) { return ratio(c.fp, c.fp + c.tn); }},
    {"false discovery rate", [](const Counts& c) { return ratio(c.fp, c.fp + c.tp); }},
    {"false omission rate", [](const Counts& c) { return ratio(c.fn, c.fn + c.tn); }},
    {"prevalence threshold", prevalence_threshold},
    {"threat score", [](const Counts& c) { return ratio(c.tp, c.tp + c.fn + c.fp); }},
    {"accuracy", [](const Counts& c) { return ratio(c.tp + c.tn, c.tp + c.tn + c.fp + c.fn); }},
    {"balanced accuracy", [](const Counts& c) { return (sensitivity(c) + specificity(c)) / 2; }},
    {"f1 score", [](const Counts& c) { return ratio(2 * c.tp, 2 * c.tp + c.fn + c.fp); }},
    {"matthews correlation coefficient", matthews},
    {"fowlkes mallows index",
     [](const Counts& c) { return std::sqrt(precision(c) * sensitivity(c)); }},
    {"informedness", [](const Counts& c) { return sensitivity(c) + specificity(c) - 1; }},
    {"markedness", [](const Counts& c) { return precision(c) + negative_value(c) - 1; }},
};

struct Scored {
  double score = 0;
  bool positive = false;
};

inline bool is_positive(const Scored& s) { return s.positive; }

// The probability that a positive has a higher score than a negative, equals counting half; NaN
// where either is missing.
inline double area_under_curve(std::vector<Scored> all) {
  std::sort(all.begin(), all.end(), [](auto& a, auto& b) { return a.score < b.score; });
  double below = 0, won = 0, positives = 0;  // negatives below, pairs won, positives so far
  for (std::size_t i = 0; i < all.size();) {
    double here[2] = {0, 0};
    const double score = all[i].score;
    for (; i < all.size() && all[i].score == score; ++i) here[all[i].positive] += 1;
    won += here[1] * (below + here[0] / 2);
    below += here[0];
    positives += here[1];
  }
  return ratio(won, below * positives);
}

}  // namespace sluice
