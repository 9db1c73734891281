// Which bodies run now, on any thread: a stall's report names them.
#pragma once

#include <cstdint>
#include <string>

namespace sluice {

class Firing;
struct PlanNode;

// Stands for a body for as long as it lives. A thread may be in several at a time: a body that
// waits for others helps them.
class AtWork {
 public:
  AtWork(const PlanNode& plan, const Firing* firing, std::int64_t since_ns);  // null: a flush
  ~AtWork();
  AtWork(const AtWork&) = delete;
};

// ", works on case_07 (epoch 0, sample 3) for 12.3 s" for each body of the node.
std::string bodies_at_work(const PlanNode& plan);

// The names of the samples that a firing is about.
std::string names_of(const PlanNode& plan, const Firing& firing);

}  // namespace sluice
