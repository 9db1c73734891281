// What `sluice advise` prints.
#include <fmt/format.h>

#include <algorithm>

#include "tools/runtime/advise/advise.h"

namespace sluice {

// Nothing where no sample of it was looked at.
static std::string size_of(const Advice::Source& s) {
  if (s.mb < 0.005) return "";
  return fmt::format(" of up to {:.2f} MB on their way, {:.0f} MB in all", s.mb,
                     s.mb * static_cast<double>(s.items));
}

static void print_sources(const Advice& a) {
  fmt::print("{}", a.folder);
  for (const Advice::Source& s : a.sources)
    if (s.items > 0) fmt::print("  {:<9} {} samples{}\n", s.name, s.items, size_of(s));
  fmt::print("\n");
}

static void print_rows(const Advice& a) {
  int number = 0;
  for (const Advice::Row& row : a.rows) {
    const Change& c = row.change;
    fmt::print("{}. {}\n   {}\n", ++number, c.title, c.why);
    if (!c.cost.empty()) fmt::print("   takes {}\n", c.cost);
    fmt::print("   {} {:.1f}/s ({:+.0f} % of {:.1f}/s){}; {}\n", row.tried ? "measured" : "about",
               row.rate, 100 * (row.rate / std::max(row.before, 1e-9) - 1) + 0.0, row.before,
               row.freed > 0.01 ? fmt::format(", frees {:.2f} cores", row.freed) : "",
               text_of(c.effect));
  }
  for (const auto& [title, rate] : a.refused)
    fmt::print("-  {}: {:.1f}/s when tried, so not worth it\n", title, rate);
}

void print_advice(const Advice& a, const std::string& written) {
  print_sources(a);
  for (const auto& path : a.misplaced)
    fmt::print("no cache can stand where `{}` does: the graph does not run; measured without it\n",
               path);
  fmt::print("as it is   {:>9.1f}/s   {}\n\n", a.before.rate, a.before.verdict);
  print_rows(a);
  print_whole_data(a.kept);
  print_patches(a.patches);
  if (a.rows.empty()) {
    fmt::print("nothing to change: no cache, thread or queue would lift it by 2 %{}\n",
               written.empty() ? "" : "; " + written + " is not written");
    return;
  }
  fmt::print("\nmeasured   {:>9.1f}/s   {}\n{:.2f} times as it was; {}\n", a.after.rate,
             a.after.verdict, a.after.rate / std::max(a.before.rate, 1e-9),
             written.empty() ? "--write FILE keeps the changed graph" : "written to " + written);
  if (a.after.rate < a.before.rate)
    fmt::print("that is slower: where nothing else ran beside, keep the graph as it was\n");
}

Json to_json(const Advice& a) {
  Json sources = Json::array(), changes = Json::array();
  for (const Advice::Source& s : a.sources)
    sources.push_back({{"source", s.name}, {"items", s.items}, {"mb_each", s.mb}});
  for (const Advice::Row& row : a.rows)
    changes.push_back({{"change", row.change.title},
                       {"why", row.change.why},
                       {"cost", row.change.cost},
                       {"effect", text_of(row.change.effect)},
                       {"frees_cores", row.freed},
                       {"before", row.before},
                       {row.tried ? "measured" : "predicted", row.rate}});
  Json patches = Json::object();
  for (const LargestPatch& p : a.patches)
    patches[p.network] = {{"budget", p.budget},
                          {"keep", p.kept},
                          {"light", p.light},
                          {"recompute", p.recomputed},
                          {"offload", p.offloaded ? Json(*p.offloaded) : Json()},
                          {"axes", p.axes}};
  return {{"folder", a.folder},
          {"largest_patches", patches},
          {"whole_data", to_json(a.kept)},
          {"sources", sources},
          {"misplaced", a.misplaced},
          {"before", {{"rate", a.before.rate}, {"verdict", a.before.verdict}}},
          {"changes", changes},
          {"not_worth_it", a.refused},
          {"after", {{"rate", a.after.rate}, {"verdict", a.after.verdict}}}};
}

}  // namespace sluice
