// `sluice trace DIR`: a sample's life, the time between two nodes, Chrome's JSON, or all processes'
// traces as one, from what `run --trace` wrote.
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <iostream>
#include <map>

#include "engine/base/message.h"
#include "engine/trace/trace_reader.h"
#include "tools/cli/chrome.h"
#include "tools/cli/cli.h"

namespace sluice::cli {
namespace {

double ms(std::uint64_t ns) { return static_cast<double>(ns) * 1e-6; }

bool begins(const TraceSlice& s) { return !s.sample.empty(); }

// ---- one sample
// -----------------------------------------------------------------------------------

Json life_json(const TraceData& data, const std::vector<std::size_t>& life) {
  const TraceSlice& first = data.slices[life.front()];
  Json rows = Json::array();
  std::uint64_t last = first.begin;
  for (const std::size_t i : life) {
    const TraceSlice& s = data.slices[i];
    if (s.is_instant) continue;
    rows.push_back({{"node", s.name},
                    {"child", s.child},
                    {"at_ms", ms(s.begin - first.begin)},
                    {"waited_ms", ms(s.begin - ready_at(data, life, s))},
                    {"took_ms", ms(s.took)},
                    {"thread", data.thread(s.track)}});
    if (!s.in.empty()) rows.back()["in"] = s.in;
    last = std::max(last, s.end);
  }
  return {{"sample", first.sample},
          {"epoch", first.epoch},
          {"total_ms", ms(last - first.begin)},
          {"life", std::move(rows)}};
}

void print_life(const Json& life) {
  std::printf("%s, epoch %llu: %.1f ms from its source to its last node\n\n",
              printable(life["sample"].get<std::string>()).c_str(),
              static_cast<unsigned long long>(life["epoch"].get<std::uint64_t>()),
              life["total_ms"].get<double>());
  std::size_t width = 4;
  for (const auto& row : life["life"])
    width = std::max(width, row["node"].get<std::string>().size());
  std::printf("  %-*s  child     at ms  waited ms    took ms  thread\n", static_cast<int>(width),
              "node");
  for (const auto& row : life["life"])
    std::printf("  %-*s  %5llu %9.2f  %9.2f  %9.3f  %s%s\n", static_cast<int>(width),
                printable(row["node"].get<std::string>()).c_str(),
                static_cast<unsigned long long>(row["child"].get<std::uint64_t>()),
                row["at_ms"].get<double>(), row["waited_ms"].get<double>(),
                row["took_ms"].get<double>(), row["thread"].get<std::string>().c_str(),
                row.contains("in") ? (", in " + row["in"].get<std::string>()).c_str() : "");
}

int one_sample(const TraceData& data, const Options& o) {
  Json lives = Json::array();
  std::vector<std::string> known;
  for (std::size_t i = 0; i < data.slices.size(); ++i) {
    const TraceSlice& s = data.slices[i];
    if (!begins(s)) continue;
    known.push_back(s.sample);
    if (s.sample != o.sample || (o.epoch >= 0 && s.epoch != static_cast<std::uint64_t>(o.epoch)))
      continue;
    lives.push_back(life_json(data, life_of(data, i)));
    if (!o.json) break;
  }
  if (lives.empty()) {
    const std::string hint = did_you_mean(o.sample, known);
    print_error("the trace holds no sample \"" + o.sample + "\"" +
                (o.epoch >= 0 ? " in epoch " + std::to_string(o.epoch) : "") +
                (hint.empty() ? "" : "; " + hint));
    return code(Exit::usage);
  }
  if (o.json)
    std::cout << dump(lives);
  else
    print_life(lives.front());
  return code(Exit::done);
}

// ---- the time between two nodes
// -------------------------------------------------------------------

struct Latency {
  double ms = 0;
  std::string sample;
  std::uint64_t epoch = 0;
};

// From the begin of `from` to the end of the last `to`, for each sample that met both.
std::vector<Latency> latencies(const TraceData& data, const std::string& from,
                               const std::string& to) {
  std::vector<Latency> all;
  for (std::size_t i = 0; i < data.slices.size(); ++i) {
    if (!begins(data.slices[i])) continue;
    std::uint64_t start = 0, end = 0;
    for (const std::size_t k : life_of(data, i)) {
      const TraceSlice& s = data.slices[k];
      if (s.name == from && start == 0) start = s.begin;
      if (s.name == to) end = std::max(end, s.end);
    }
    if (start && end > start)
      all.push_back({ms(end - start), data.slices[i].sample, data.slices[i].epoch});
  }
  std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.ms < b.ms; });
  return all;
}

int between(const TraceData& data, const Options& o) {
  std::vector<std::string> known;
  for (const TraceSlice& s : data.slices) known.push_back(s.name);
  std::sort(known.begin(), known.end());
  known.erase(std::unique(known.begin(), known.end()), known.end());
  for (const std::string& name : {o.from, o.to})
    if (!std::binary_search(known.begin(), known.end(), name)) {
      const std::string hint = did_you_mean(name, known);
      print_error("the trace holds no node \"" + name + "\"" + (hint.empty() ? "" : "; " + hint));
      return code(Exit::usage);
    }
  const auto all = latencies(data, o.from, o.to);
  if (all.empty()) {
    print_error("no sample went from " + o.from + " to " + o.to);
    return code(Exit::usage);
  }
  const auto at = [&](double q) { return all[static_cast<std::size_t>(q * (all.size() - 1))].ms; };
  const Latency& worst = all.back();
  if (o.json)
    std::cout << dump({{"from", o.from},
                       {"to", o.to},
                       {"samples", all.size()},
                       {"p50_ms", at(0.5)},
                       {"p95_ms", at(0.95)},
                       {"p99_ms", at(0.99)},
                       {"max_ms", worst.ms},
                       {"worst", worst.sample},
                       {"worst_epoch", worst.epoch}});
  else
    std::printf(
        "%s -> %s: %zu samples, p50 %.1f, p95 %.1f, p99 %.1f, max %.1f ms (%s, epoch %llu)\n",
        o.from.c_str(), o.to.c_str(), all.size(), at(0.5), at(0.95), at(0.99), worst.ms,
        printable(worst.sample).c_str(), static_cast<unsigned long long>(worst.epoch));
  return code(Exit::done);
}

// ---- everything
// -----------------------------------------------------------------------------------

void write_chrome(const TraceData& data, const std::string& file) {
  write_whole(file, [&](const runs::Put& put) {
    put("{\"traceEvents\":[");
    const char* comma = "\n";
    chrome_events(data, {}, [&](const Json& event) {
      put(comma + event.dump(-1, ' ', false, Json::error_handler_t::replace));
      comma = ",\n";
    });
    put("\n]}\n");
  });
}

int summary(const TraceData& data, bool json) {
  std::map<std::string, std::pair<std::size_t, std::uint64_t>> nodes;
  std::size_t samples = 0, passes = 0;
  for (const TraceSlice& s : data.slices) {
    samples += begins(s);
    if (s.is_instant) continue;
    auto& [count, took] = nodes[s.name];
    count += s.in.empty();  // a pass of another node's body is none of its own
    took += s.took;
    passes += !s.in.empty();
  }
  if (json) {
    Json all = Json::object();
    for (const auto& [name, n] : nodes) all[name] = {{"bodies", n.first}, {"ms", ms(n.second)}};
    std::cout << dump({{"bodies", data.slices.size() - passes},
                       {"samples", samples},
                       {"threads", data.threads.size()},
                       {"nodes", std::move(all)}});
    return code(Exit::done);
  }
  std::printf("%zu bodies of %zu samples on %zu threads\n\n", data.slices.size() - passes, samples,
              data.threads.size());
  for (const auto& [name, n] : nodes)
    std::printf("  %-24s %8zu  %10.1f ms\n", printable(name).c_str(), n.first, ms(n.second));
  return code(Exit::done);
}

}  // namespace

int trace(const Options& o) {
  try {
    if (o.from.empty() != o.to.empty()) throw Error(Exit::usage, "--from and --to go together");
    const std::vector<std::string> files = trace_files(o.name);
    if (!o.merged.empty()) {
      write_whole(o.merged, whole_trace(files));
      return code(Exit::done);
    }
    const TraceData data = read_trace(files);
    if (!o.chrome.empty()) write_chrome(data, o.chrome);
    if (!o.sample.empty()) return one_sample(data, o);
    if (!o.from.empty() || !o.to.empty()) return between(data, o);
    return o.chrome.empty() || o.json ? summary(data, o.json) : code(Exit::done);
  } catch (const Error& e) {
    print_error(e.what());
    return code(e.exit);
  }
}

}  // namespace sluice::cli
