// What is shown of a run while it goes on, as text: on a terminal a block of lines that is drawn
// again and again, elsewhere one plain line now and then.
//
//   epoch 12/600  ━━━━━━━━━━━━╸───────  61%   41.8 samples/s   loss 0.214   eta 3 h 12 min   bad 2
//     load   97% ■■■■■■■■■■   42.0/s  p99  402 ms  q 16/16  ◀ io threads 2 → 4 would give 79/s
//     crop   11% ■             336/s  p99 1.90 ms  q  0/32
//
// Invariant: a pure function of the view; no line has more columns than asked for, none has a
// control character but for colours, and those only where asked for.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

namespace sluice::live {

struct NodeRow {
  std::string path;
  double busy = 0;  // share of its slots' time, recently
  double rate = 0;  // packets a second
  double p99_ms = 0;
  std::uint64_t queue = 0, room = 0;  // before it; room 0: nobody knows
  bool limits = false;
};

struct View {
  std::uint64_t epoch = 1, epochs = 1;  // counted from 1
  bool validating = false;
  std::uint64_t steps = 0, bad = 0;
  std::optional<double> share;  // of this epoch's training or validation
  std::optional<double> rate;   // samples a second, recently
  std::optional<double> loss;
  std::string metric, metric_mode;
  std::optional<double> metric_last, metric_best;
  std::optional<double> eta_s;
  std::string state;          // "starting", "stopping", or nothing
  std::vector<NodeRow> rows;  // as they are to be shown
  std::string bottleneck;     // a node's path
  std::string advice;         // what would lift it
};

struct Style {
  int width = 80, height = 24;
  bool color = false, utf8 = true;
};

// At most style.height lines of at most style.width columns.
std::vector<std::string> block(const View& view, const Style& style);

// "2026-11-21T09:18:04Z epoch=12 step=1840 samples_per_s=41.8 loss=0.214 bottleneck=load bad=2"
std::string plain_line(const View& view, const std::string& time);

}  // namespace sluice::live
