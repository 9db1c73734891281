// Areas under curves, and the measures of a confusion matrix under MONAI's names: a function of one
// class's counts each; NaN where it is not defined.
#pragma once

#include <algorithm>
#include <cmath>
#include <sstream>

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
  const char *name, *others;  // MONAI's
  double (*of)(const Counts&);
};

inline const Measure measures[] = {
    {"sensitivity", "recall|hit rate|true positive rate|tpr", sensitivity},
    {"specificity", "selectivity|true negative rate|tnr", specificity},
    {"precision", "positive predictive value|ppv", precision},
    {"negative predictive value", "npv", negative_value},
    {"miss rate", "false negative rate|fnr",
     [](const Counts& c) { return ratio(c.fn, c.fn + c.tp); }},
    {"fall out", "false positive rate|fpr",
     [](const Counts& c) { return ratio(c.fp, c.fp + c.tn); }},
    {"false discovery rate", "fdr", [](const Counts& c) { return ratio(c.fp, c.fp + c.tp); }},
    {"false omission rate", "for", [](const Counts& c) { return ratio(c.fn, c.fn + c.tn); }},
    {"prevalence threshold", "pt", prevalence_threshold},
    {"threat score", "critical success index|ts|csi",
     [](const Counts& c) { return ratio(c.tp, c.tp + c.fn + c.fp); }},
    {"accuracy", "acc",
     [](const Counts& c) { return ratio(c.tp + c.tn, c.tp + c.tn + c.fp + c.fn); }},
    {"balanced accuracy", "ba",
     [](const Counts& c) { return (sensitivity(c) + specificity(c)) / 2; }},
    {"f1 score", "f1", [](const Counts& c) { return ratio(2 * c.tp, 2 * c.tp + c.fn + c.fp); }},
    {"matthews correlation coefficient", "mcc", matthews},
    {"fowlkes mallows index", "fm",
     [](const Counts& c) { return std::sqrt(precision(c) * sensitivity(c)); }},
    {"informedness", "bookmaker informedness|bm|youden index|youden",
     [](const Counts& c) { return sensitivity(c) + specificity(c) - 1; }},
    {"markedness", "deltap|mk",
     [](const Counts& c) { return precision(c) + negative_value(c) - 1; }},
};

// All names, with spaces and with underscores.
inline std::vector<std::string> measure_names() {
  std::vector<std::string> names;
  for (const Measure& m : measures) {
    std::stringstream all(std::string(m.name) + "|" + m.others);
    for (std::string name; std::getline(all, name, '|');) {
      names.push_back(name);
      std::replace(name.begin(), name.end(), ' ', '_');
      if (name != names.back()) names.push_back(name);
    }
  }
  return names;
}

// `name` is one of measure_names().
inline const Measure* find_measure(std::string name) {
  std::replace(name.begin(), name.end(), '_', ' ');
  return std::find_if(std::begin(measures), std::end(measures), [&](const Measure& m) {
    return name == m.name ||
           ("|" + std::string(m.others) + "|").find("|" + name + "|") != std::string::npos;
  });
}

struct Scored {
  double score = 0;
  bool positive = false;
};

inline bool is_positive(const Scored& s) { return s.positive; }

// The precision at each distinct score from which on a positive is found, the mean over positives;
// NaN where all or none are positive.
inline double average_precision(std::vector<Scored> all) {
  std::sort(all.begin(), all.end(), [](auto& a, auto& b) { return a.score > b.score; });
  double found = 0, sum = 0;
  for (std::size_t i = 0; i < all.size();) {
    double here = 0;
    const double score = all[i].score;
    for (; i < all.size() && all[i].score == score; ++i) here += all[i].positive;
    found += here;
    sum += here * found / static_cast<double>(i);
  }
  return found == static_cast<double>(all.size()) ? NAN : ratio(sum, found);
}

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
