#include "engine/run/at_work.h"

#include <algorithm>
#include <cstdio>
#include <memory>
#include <mutex>
#include <vector>

#include "engine/plan/plan.h"
#include "engine/run/node.h"
#include "engine/trace/trace.h"

namespace sluice {
namespace {

struct Body {
  const PlanNode* plan;
  const Firing* firing;
  std::int64_t since;
};

// A thread's own, so its mutex is free but for the moment of a report.
struct Bodies {
  std::mutex mutex;
  std::vector<Body> stack;
};

struct Threads {
  std::mutex mutex;
  std::vector<std::weak_ptr<Bodies>> all;
};

Threads& threads() {
  static Threads t;
  return t;
}

Bodies& here() {
  thread_local const std::shared_ptr<Bodies> own = [] {
    auto bodies = std::make_shared<Bodies>();
    Threads& t = threads();
    std::lock_guard lock(t.mutex);
    std::erase_if(t.all, [](const auto& other) { return other.expired(); });
    t.all.push_back(bodies);
    return bodies;
  }();
  return *own;
}

std::string text(const Body& body) {
  char seconds[32];
  std::snprintf(seconds, sizeof seconds, "%.1f s",
                1e-9 * static_cast<double>(now_ns() - body.since));
  if (!body.firing) return std::string(", ends an epoch for ") + seconds;
  const std::string names = names_of(*body.plan, *body.firing);
  return ", works on " + (names.empty() ? "" : names + " ") + "(" + body.firing->stamp().str() +
         ") for " + seconds;
}

}  // namespace

AtWork::AtWork(const PlanNode& plan, const Firing* firing, std::int64_t since_ns) {
  Bodies& bodies = here();
  std::lock_guard lock(bodies.mutex);
  bodies.stack.push_back({&plan, firing, since_ns});
}

AtWork::~AtWork() {
  Bodies& bodies = here();
  std::lock_guard lock(bodies.mutex);
  bodies.stack.pop_back();
}

std::string bodies_at_work(const PlanNode& plan) {
  std::vector<std::shared_ptr<Bodies>> all;
  {
    Threads& t = threads();
    std::lock_guard lock(t.mutex);
    for (const auto& other : t.all)
      if (auto bodies = other.lock()) all.push_back(std::move(bodies));
  }
  std::string out;
  for (const auto& bodies : all) {
    std::lock_guard lock(bodies->mutex);
    for (const Body& body : bodies->stack)
      if (body.plan == &plan) out += text(body);
  }
  return out;
}

std::string names_of(const PlanNode& plan, const Firing& firing) {
  std::string names;
  if (!plan.is_source())
    for (const SamplePtr& sample : firing.members(plan.inputs.front().port))
      if (sample) names += (names.empty() ? "" : ", ") + sample_name(*sample);
  return names;
}

}  // namespace sluice
