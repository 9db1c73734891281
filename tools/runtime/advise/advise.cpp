#include "tools/runtime/advise/advise.h"

#include <fmt/format.h>

#include <exception>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <sstream>

#include "engine/base/counted.h"
#include "engine/base/error.h"
#include "engine/cache/cache_folder.h"
#include "engine/graph/graph_text.h"
#include "engine/graph/merge.h"
#include "engine/graph/override.h"
#include "engine/judge/forecast.h"
#include "engine/judge/verdict.h"
#include "engine/session/ranks.h"
#include "engine/state/tensor_device.h"
#include "tools/runtime/new/survey.h"
#include "tools/runtime/run/supervise.h"
#include "tools/runtime/write_text.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;

constexpr double longer = 8;          // times --seconds, at most, to see a sample
constexpr double worth_while = 1.02;  // of the rate, by forecast
constexpr double worth_cores = 0.02;  // ... or this share of the machine is free for other things
constexpr double seen = 1.03;         // ... by a run, which is never twice the same
constexpr int most_rounds = 3;
constexpr int most_changes = 64;  // a graph that never settles would be a fault of ours

// Bytes that /proc/meminfo calls available.
double free_memory() {
  std::ifstream in("/proc/meminfo");
  for (std::string line; std::getline(in, line);)
    if (line.starts_with("MemAvailable:")) return 1024 * std::strtod(line.c_str() + 13, nullptr);
  return 0;
}

Room room_for(const AdviceOptions& options) {
  Room room;
  room.memory = options.memory > 0 ? options.memory : static_cast<std::uint64_t>(free_memory() / 2);
  std::error_code problem;
  fs::path folder = default_cache_folder();
  while (!fs::exists(folder, problem) && folder.has_relative_path()) folder = folder.parent_path();
  if (const auto space = fs::space(folder, problem); !problem) room.disk = space.available / 2;
  return room;
}

std::optional<Graph> read_graph(const Options& options, Diagnostics& diagnostics) {
  const auto overrides = parse_overrides(options.set, diagnostics);
  const DocumentPtr document =
      read_graph_files(options.graphs, diagnostics, options.text ? &*options.text : nullptr);
  return load_graph(document, Registry::global().catalogue(), overrides, diagnostics);
}

// A graph's text as it is right in another file: the files of parts are named from its folder.
std::string moved(const std::string& text, const std::string& graph, const fs::path& file) {
  const fs::path from = fs::absolute(graph).lexically_normal().parent_path(),
                 to = fs::absolute(file).lexically_normal().parent_path();
  Diagnostics known;
  const DocumentPtr document = parse_document(graph, text, known);
  if (from == to || !document->root.contains("parts")) return text;
  GraphText out(document);
  for (const auto& [name, part] : document->root["parts"].items())
    if (part.is_string() && !fs::path(part.get<std::string>()).is_absolute())
      out.set(Place{document, "/parts"}.child(name).pointer,
              (from / part.get<std::string>()).lexically_normal().lexically_proximate(to).string());
  return out.text();
}

// What a graph would give: samples a second, and cores that it would leave free.
struct Outlook {
  double rate = 0, freed = 0;
};

struct Planned {
  std::optional<Graph> graph;
  std::optional<Plan> plan;  // points into graph
};

// False, and nothing said, where the graph is not right.
bool plan_of(const Options& options, Planned& to) {
  Diagnostics known;
  to.graph = read_graph(options, known);
  if (!to.graph) return false;
  const int threads = data_threads(options, *to.graph);
  to.plan = make_plan(*to.graph, {.threads = threads, .device = !!find_device()}, known);
  return to.plan.has_value();
}

// A graph with the changes made so far, and the rate that it would have.
struct Draft {
  Options options;
  Outlook outlook;
  std::vector<Advice::Row> rows;

  std::optional<Graph> graph() const {
    Diagnostics known;
    return read_graph(options, known);
  }
  void take(Change change, const Outlook& then, bool tried = false) {
    options.text = change.text;
    rows.push_back({std::move(change), outlook.rate, then.rate, then.freed - outlook.freed, tried});
    outlook = then;
  }
};

class Adviser {
 public:
  explicit Adviser(const AdviceOptions& options) : options_(options) {
    draft_.options = options.run;
    draft_.options.warnings = false;
  }

  int run() {
    if (!begin()) return static_cast<int>(Exit::usage);
    if (ended()) return exit_code();
    // What only a run can tell depends on what limits, and the other way round.
    for (int round = 0; round < most_rounds && !ended(); ++round) {
      const std::size_t known = draft_.rows.size();
      if (round > 0 || advice_.misplaced.empty()) trials();
      if (ended()) break;
      const std::size_t tried = draft_.rows.size();
      structure();
      widths();
      if (draft_.rows.size() > tried) rebase();
      if (draft_.rows.size() == known) break;
    }
    if (ended()) return exit_code();
    const std::exception_ptr failed = write();
    advice_.rows = draft_.rows;
    advice_.after = measured_;
    survey();
    advice_.kept = whole_data(*now_.plan, measured_.figures, measured_.kept, room_for(options_));
    advice_.patches =
        largest_patches(*first_.graph, static_cast<std::int64_t>(room_for(options_).memory));
    if (options_.run.json)
      std::cout << to_json(advice_).dump(2, ' ', false, Json::error_handler_t::replace) << "\n";
    else
      print_advice(advice_, failed ? "" : options_.write);
    if (failed) std::rethrow_exception(failed);
    return 0;
  }

 private:
  bool ended() const { return code_ != 0 || stopping(); }
  // What went wrong, which is said after what was found.
  std::exception_ptr write() const {
    if (options_.write.empty() || !draft_.options.text) return nullptr;
    try {
      const std::string& graph = options_.run.graphs.front();
      write_text(options_.write, moved(*draft_.options.text, graph, options_.write));
    } catch (...) {
      return std::current_exception();
    }
    return nullptr;
  }
  // A signal may also come between two runs.
  int exit_code() const { return code_ != 0 ? code_ : 128 + signal_received(); }

  // ---- runs -------------------------------------------------------------------------------------

  // The graph as it is; a cache that cannot stand where it stands is left out of that run.
  bool begin() {
    Options first = options_.run;
    Diagnostics diagnostics;
    const auto graph = read_graph(first, diagnostics);
    if (graph)
      for (int i : misplaced_caches(*graph)) {
        advice_.misplaced.push_back(graph->nodes[static_cast<std::size_t>(i)].path);
        first.set.push_back("nodes." + advice_.misplaced.back() + ".disabled=true");
      }
    if (!load_plan(first, first_.graph, first_.plan)) return false;
    first.warnings = false;
    // Files come into the page cache and threads are there: so it is for all runs that follow.
    // Each node's work is done in a pass of its own, so that all say what they emit.
    Options warm_up = first;
    warm_up.seconds = std::min(2.0, first.seconds);
    warm_up.set.push_back("run.fuse=false");
    const Measured alone = measure_once(warm_up);
    if (ended()) return true;
    advice_.before = measure(first);
    if (ended()) return true;
    fill_in_sizes(advice_.before.figures, alone.figures);
    measured_ = advice_.before;
    if (measured_.rate <= 0)
      throw Error(Exit::usage,
                  fmt::format("no sample came to its end in the second half of {:g} s: "
                              "--seconds gives the runs more time",
                              longer * first.seconds));
    draft_.outlook = {measured_.rate, 0};
    return load_plan(first, now_.graph, now_.plan);
  }

  // Where a node left its work to the next, nothing was emitted but what that one made of it.
  static void fill_in_sizes(Figures& figures, const Figures& alone) {
    for (std::size_t i = 0; i < std::min(figures.nodes.size(), alone.nodes.size()); ++i)
      if (figures.nodes[i].mb <= 0) figures.nodes[i].mb = alone.nodes[i].mb;
  }

  // The draft as it is becomes what forecasts go by.
  void rebase() {
    measured_ = measure(draft_.options);
    draft_.outlook = {measured_.rate, 0};
    load_plan(draft_.options, now_.graph, now_.plan);
  }

  // For longer where the time was too short for a single sample: a machine may be busy.
  Measured measure(Options options) {
    const double most = longer * options.seconds;
    Measured m = measure_once(options);
    while (m.rate <= 0 && !ended() && options.seconds < most) {
      options.seconds *= 2;
      m = measure_once(options);
    }
    return m;
  }

  Measured measure_once(const Options& options) {
    Measured m;
    auto session = Session::open(options);
    if (!session) throw std::logic_error("the changed graph is not right: please report it");
    const Outcome outcome = run_for(*session, options, &m.figures);
    code_ = finish(*session, outcome);
    const auto sizes = session->epoch_sizes(), items = session->item_counts();
    for (std::size_t s = 0; s < sizes.size(); ++s) {  // known before the first epoch ends
      NodeFigures& source =
          m.figures.nodes[static_cast<std::size_t>(session->plan().streams[s].source)];
      if (sizes[s]) source.epoch_size = static_cast<std::int64_t>(*sizes[s]);
      if (items[s]) source.items = static_cast<std::int64_t>(*items[s]);
    }
    m.kept = session->bytes_kept();
    m.rate = pace(session->plan(), m.figures);
    m.verdict = judge(session->plan(), m.figures).text;
    return m;
  }

  // With `text` for the graph, by the measured costs; a rate of 0 where it is not right.
  Outlook outlook_of(const Draft& draft, const std::string& text) const {
    Options options = draft.options;
    options.text = text;
    Planned then;
    if (!plan_of(options, then)) return {};
    const Figures& f = measured_.figures;
    PlanCosts costs = PlanCosts::of(*then.plan, *now_.plan, f);
    Outlook outlook;
    // What a cache of this graph, but not of the measured one, will hold is done in one epoch, and
    // what it has no room for in every one.
    for (std::size_t i = 0; i < then.plan->nodes.size(); ++i) {
      const PlanNode& n = then.plan->nodes[i];
      const int at = now_.graph->find(n.path());
      if (n.prefix_of.empty() || n.spec->is_cache || at < 0) continue;
      const auto was = static_cast<std::size_t>(at);
      if (!now_.plan->nodes[was].prefix_of.empty()) continue;
      const auto& stream = then.plan->streams[static_cast<std::size_t>(n.stream)];
      double held = 0;
      for (const int cache : n.prefix_of)
        held = std::max(held, share_held(*then.plan, cache, *first_.plan, advice_.before.figures));
      costs.nodes[i].fires =
          1 - held + held / static_cast<double>(std::max<std::int64_t>(1, stream.epochs));
      outlook.freed += (1 - costs.nodes[i].fires) * f.nodes[was].busy_s * f.nodes[was].cpu /
                       std::max(f.wall_s, 1e-9);
    }
    const double as_it_is =
        forecast(*now_.plan, f.threads, PlanCosts::of(*now_.plan, *now_.plan, f));
    const double changed = forecast(*then.plan, thread_counts(options, *then.plan), costs);
    if (as_it_is > 0) outlook.rate = measured_.rate * changed / as_it_is;
    return outlook;
  }

  bool better(const Outlook& then, const Outlook& now) const {
    const double share = (then.freed - now.freed) / measured_.figures.threads.cores;
    return then.rate >= worth_while * now.rate ||
           (share >= worth_cores && then.rate * worth_while >= now.rate);
  }

  // ---- changes ----------------------------------------------------------------------------------

  bool allowed(const Change& change) const {
    if (change.effect == Change::Effect::precision) return options_.precision;
    return !options_.exact || change.effect == Change::Effect::none;
  }

  // Caches where things stand or, if that is better, after what does not change has been moved in
  // front of what does.
  void structure() {
    Draft moved = draft_;
    caches(draft_);
    for (int turn = 0; turn < most_changes; ++turn) {
      const auto graph = moved.graph();
      auto changes = graph ? reorder(*graph) : std::vector<Change>();
      if (changes.empty() || !allowed(changes.front())) break;
      moved.take(std::move(changes.front()), moved.outlook);
    }
    if (!moved.rows.empty()) {
      caches(moved);
      const bool needed = !runs(draft_) && runs(moved);
      if (needed || better(moved.outlook, draft_.outlook)) draft_ = std::move(moved);
    }
    for (int turn = 0; turn < most_changes && !runs(draft_); ++turn) {
      auto changes = leave_out_caches(*draft_.graph());
      if (changes.empty()) return;
      draft_.take(std::move(changes.front()), draft_.outlook);
    }
  }

  static bool runs(const Draft& draft) {
    Planned planned;
    return plan_of(draft.options, planned);
  }

  void caches(Draft& draft) {
    for (int turn = 0; turn < most_changes; ++turn)
      if (!another_cache(draft)) return;
  }

  bool another_cache(Draft& draft) {
    const auto graph = draft.graph();
    if (!graph) return false;
    const bool must = !misplaced_caches(*graph).empty();
    for (Change& change :
         place_caches(*graph, *first_.plan, advice_.before.figures, room_for(options_))) {
      const Outlook then = outlook_of(draft, change.text);
      if (must ? then.rate <= 0 : !better(then, draft.outlook)) continue;
      draft.take(std::move(change), then);
      return true;
    }
    return false;
  }

  // One at a time, the best first.
  void widths() {
    for (int turn = 0; turn < most_changes; ++turn) {
      Planned as_it_is;
      if (!plan_of(draft_.options, as_it_is)) return;
      Change best;
      Outlook outlook{worth_while * draft_.outlook.rate, draft_.outlook.freed};
      for (Change& change : widen(*as_it_is.plan, thread_counts(draft_.options, *as_it_is.plan)))
        if (const Outlook then = outlook_of(draft_, change.text); then.rate > outlook.rate) {
          best = std::move(change);
          outlook = then;
        }
      if (best.text.empty()) return;
      draft_.take(std::move(best), outlook);
    }
  }

  void trials() {
    std::set<std::string> tried;
    while (true) {
      const auto graph = draft_.graph();
      if (!graph) return;
      auto changes = try_out(*graph, measured_.figures.threads);
      std::erase_if(changes,
                    [&](const Change& c) { return !allowed(c) || tried.count(c.title) > 0; });
      if (changes.empty()) return;
      Change& change = changes.front();
      tried.insert(change.title);
      advice_.refused.erase(change.title);
      Options options = draft_.options;
      options.text = change.text;
      Measured m = measure(options);
      if (ended()) return;
      if (m.rate < seen * measured_.rate) {
        advice_.refused[change.title] = m.rate;
        continue;
      }
      draft_.take(std::move(change), {m.rate, 0}, true);
      measured_ = std::move(m);
      load_plan(draft_.options, now_.graph, now_.plan);
    }
  }

  // ---- data -------------------------------------------------------------------------------------

  void survey() {
    for (const PlanStream& s : first_.plan->streams) {
      Advice::Source source;
      source.name = first_.plan->nodes[static_cast<std::size_t>(s.source)].path();
      source.items = advice_.before.figures.nodes[static_cast<std::size_t>(s.source)].chosen_from();
      for (std::size_t i = 0; i < first_.plan->nodes.size(); ++i)
        if (first_.plan->nodes[i].domain == s.source)
          source.mb = std::max(source.mb, advice_.before.figures.nodes[i].mb);
      advice_.sources.push_back(std::move(source));
    }
    const PlanStream& first =
        first_.plan->streams[static_cast<std::size_t>(pace_stream(*first_.plan))];
    // Of a source that says which cases it has, those; else images with labels where it trains.
    const Json& params = first_.plan->nodes[static_cast<std::size_t>(first.source)].graph->params;
    if (!params.contains("root") || !params["root"].is_string()) return;
    const bool labels = params.contains("split") ? params["split"] != Json("test") : first.trains;
    try {
      std::ostringstream lines;
      print_survey(survey_folder(params["root"].get<std::string>(), labels), lines);
      advice_.folder = lines.str();
    } catch (const std::exception&) {  // another layout: what the runs saw has to do
    }
  }

  const AdviceOptions options_;
  Planned first_;      // as measured first: without misplaced caches
  Planned now_;        // as measured last ...
  Measured measured_;  // ... and what came out
  Draft draft_;
  Advice advice_;
  int code_ = 0;
};

}  // namespace

int advise_command(const AdviceOptions& options) {
  if (!this_world().alone())
    throw Error(Exit::usage, "advise measures one process after the other by itself, but " +
                                 this_world().launcher + " has started " +
                                 counted(this_world().size, "process", "processes"));
  if (!options.write.empty() && fs::exists(options.write))
    throw Error(Exit::usage,
                options.write + " is there already and stays as it is; name another file");
  return Adviser(options).run();
}

}  // namespace sluice
