#include <doctest/doctest.h>

#include <cmath>

#include "tools/live/block.h"
#include "tools/live/text.h"

using namespace sluice::live;
using sluice::printable;

namespace {

View training() {
  View v;
  v.epoch = 12;
  v.epochs = 600;
  v.steps = 1840;
  v.share = 0.61;
  v.rate = 41.84;
  v.loss = 0.2141;
  v.metric = "val_dice.mean";
  v.metric_last = 0.8712;
  v.metric_best = 0.9;
  v.eta_s = 11520;
  v.bad = 2;
  v.rows = {{"load", 0.97, 42.0, 402, 16, 16, true}, {"crop", 0.11, 336, 1.9, 0, 32, false}};
  v.bottleneck = "load";
  v.advice = "io threads 8 → 16 would give about 79/s";
  return v;
}

std::string joined(const std::vector<std::string>& lines) {
  std::string out;
  for (const auto& l : lines) out += l + "\n";
  return out;
}

}  // namespace

TEST_CASE("the block at 120 columns") {
  CHECK(
      joined(block(training(), {.width = 120})) ==
      "epoch 12/600  ━━━━━━━━━━━━────────   61%   41.8 samples/s   eta 3 h 12 min   loss 0.2141\n"
      "  val_dice.mean 0.8712 (best 0.9000)   bad 2\n"
      "  load  97% ■■■■■■■■■■  42.0/s  p99  402 ms  q 16/16  ◀ io threads 8 → 16 would give about "
      "79/s\n"
      "  crop  11% ■            336/s  p99 1.90 ms  q  0/32\n");
}

TEST_CASE("at 80 columns the advice has a line of its own") {
  CHECK(joined(block(training(), {.width = 80})) ==
        "epoch 12/600  ━━━━━━━━━━━━────────   61%   41.8 samples/s   eta 3 h 12 min\n"
        "  loss 0.2141   val_dice.mean 0.8712 (best 0.9000)   bad 2\n"
        "  load  97% ■■■■■■■■■■  42.0/s  p99  402 ms  q 16/16  ◀ limits\n"
        "  crop  11% ■            336/s  p99 1.90 ms  q  0/32\n"
        "  load: io threads 8 → 16 would give about 79/s\n");
}

TEST_CASE("at 40 columns bars and latencies go, and what has no room is left out") {
  CHECK(joined(block(training(), {.width = 40})) ==
        "epoch 12/600   61%   41.8 samples/s\n"
        "  eta 3 h 12 min   loss 0.2141   bad 2\n"
        "  load  97%  42.0/s  q 16/16  ◀ limits\n"
        "  crop  11%   336/s  q  0/32\n"
        "  load: io threads 8 → 16 would give ab…\n");
}

TEST_CASE("without UTF-8 the block is ASCII") {
  const auto lines = block(training(), {.width = 80, .utf8 = false});
  for (const char c : joined(lines)) CHECK(static_cast<unsigned char>(c) < 0x80);
  CHECK(lines[2] == "  load  97% ##########  42.0/s  p99  402 ms  q 16/16  < limits");
  CHECK(lines[4] == "  load: io threads 8 -> 16 would give about 79/s");
}

TEST_CASE("colour adds codes and no columns") {
  View v = training();
  const auto plain = block(v, {.width = 100});
  const auto colored = block(v, {.width = 100, .color = true});
  REQUIRE(plain.size() == colored.size());
  for (std::size_t i = 0; i < plain.size(); ++i) {
    std::string stripped;
    for (std::size_t at = 0; at < colored[i].size(); ++at) {
      if (colored[i][at] == '\033')
        at = colored[i].find('m', at);
      else
        stripped += colored[i][at];
    }
    CHECK(stripped == plain[i]);
    CHECK(plain[i].find('\033') == std::string::npos);
  }
  CHECK(joined(colored).find("\033[31m") != std::string::npos);
}

TEST_CASE("no line is wider than asked for and no block higher, whatever the numbers are") {
  View v = training();
  v.metric = "a metric of\tmany words, \x1b[31mred\x1b[0m and 磁共振成像 and more";
  v.rows.clear();
  const double odd[] = {0, NAN, INFINITY, -1, 1e30, 1e-30, 97};
  for (int i = 0; i < 20; ++i) {
    const double x = odd[i % 7];
    v.rows.push_back(
        {"a part with a long name/磁共振成像 inside another/node number " + std::to_string(i), x, x,
         x, i % 2 ? ~0ull : 0ull, i % 3 ? ~0ull : 0ull, i == 3});
  }
  for (const double x : odd) {
    v.rate = v.loss = v.metric_last = v.eta_s = v.share = x;
    for (int width : {1, 8, 20, 40, 60, 80, 120, 300})
      for (int height : {1, 5, 24}) {
        const auto lines = block(v, {.width = width, .height = height});
        CHECK(lines.size() <= static_cast<std::size_t>(std::min(height, 12)));
        for (const auto& line : lines) {
          INFO(line);
          CHECK(columns(line) <= width);
          CHECK(line == printable(line));
        }
      }
    CHECK(plain_line(v, "t").find('\n') == std::string::npos);
    CHECK(plain_line(v, "t") == printable(plain_line(v, "t")));
  }
}

TEST_CASE("the first seconds say what is known and nothing else") {
  View v;
  v.epochs = 30;
  CHECK(joined(block(v, {.width = 80})) == "epoch 1/30\n");
  v.validating = true;
  v.share = 0;
  v.rows = {{"load", 0, 0, 0, 0, 0, false}};
  CHECK(joined(block(v, {.width = 80})) ==
        "validation 1/30  ────────────────────    0%\n"
        "  load   0%             0.00/s  p99 0.00 ms  q 0\n");
  CHECK(plain_line(View{}, "2026-11-21T09:18:04Z") == "2026-11-21T09:18:04Z epoch=1");
}

TEST_CASE("the plain line is keys and values") {
  CHECK(plain_line(training(), "2026-11-21T09:18:04Z") ==
        "2026-11-21T09:18:04Z epoch=12 step=1840 samples_per_s=41.8 loss=0.2141 "
        "val_dice.mean=0.8712 bottleneck=load eta_s=11520 bad=2");
  View v = training();
  v.validating = true;
  v.bottleneck = "my \"load\"";
  CHECK(plain_line(v, "t").find(" phase=validation ") != std::string::npos);
  CHECK(plain_line(v, "t").find(" bottleneck=\"my 'load'\" ") != std::string::npos);
}

TEST_CASE("columns counts what a terminal shows") {
  CHECK(columns("load") == 4);
  CHECK(columns("━╸─") == 3);
  CHECK(columns("磁共") == 4);
  CHECK(columns("e\u0301") == 1);
  CHECK(columns("🧠") == 2);
  CHECK(columns("\xff\xfe") == 2);
  CHECK(cut("磁共振", 4, true) == "磁…");
  CHECK(cut("abcdefghij", 7, true, true) == "abc…hij");
  CHECK(cut("abcdefghij", 7, false, true) == "abc~hij");
  CHECK(cut("abc", 3, true) == "abc");
  CHECK(cut("abc", 0, true).empty());
  CHECK(printable("a\x1b[31mb\nc\xff") == "a\\x1b[31mb\\x0ac\\xff");
  CHECK(printable("a\nb\x07", true) == "a\nb\\x07");
  CHECK(printable("\xc2\x9b") == "\\x9b");  // CSI in one character
}

TEST_CASE("times and figures are short") {
  CHECK(duration(41.6) == "42 s");
  CHECK(duration(187) == "3 min 07 s");
  CHECK(duration(11520) == "3 h 12 min");
  CHECK(duration(3600.0 * 24 * 9 + 7200) == "9 d 2 h");
  CHECK(duration(NAN) == "-");
  CHECK(duration(1e300).size() < 32);
  CHECK(milliseconds(0.0312) == "0.03 ms");
  CHECK(milliseconds(402) == "402 ms");
  CHECK(milliseconds(61000) == "61.0 s");
  CHECK(figure(0.834) == "0.83");
  CHECK(figure(99.96) == "100");
  CHECK(score(3.14e-5) == "3.1e-05");
  CHECK(score(NAN) == "nan");
}
