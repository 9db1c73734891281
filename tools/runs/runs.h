// Run folders: which there are, what each came to, and where they differ.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "engine/base/json.h"

namespace sluice::runs {

constexpr std::size_t most_runs = 100'000;

// The runs in a folder and in those below it, by name; itself where it is a run. Hidden folders and
// links are passed over.
std::vector<std::filesystem::path> find(const std::filesystem::path& root);
bool is_run(const std::filesystem::path& folder);

// What became of it, from its small files alone: {"name", "title", "status", "started", "epochs",
// "steps", "wall_s", "metrics": {NAME: {"last", "best", "mode", "best_epoch"}}, "set": {PATH:
// TEXT}, "tags", "note", "archived"} and "live" while it runs. "wall_s" is the time of all
// processes that worked on it. Status: "done", "stopped" (by its rule), "cut" (interrupted),
// "failed", "stalled", "running", or "open": it was killed.
Json row(const std::filesystem::path& folder, const std::string& name);

// Rows in the order of a column: "name", "started", "steps", "epochs", "wall_s", "status", or a
// metric, by its best value, the best one first. Throws Error(usage) where no run has it.
void sort(Json& rows, const std::string& column);

// {"runs": rows, "settings": [{"path", "values", "in"}], "figures": [{"name", "values"}]}: settings
// are those of the resolved graphs that are not the same in all; "in" says which runs have one.
// Figures: see metrics.h.
Json compare(const std::vector<std::filesystem::path>& folders,
             const std::vector<std::string>& names);

// notes.json: {"name", "note", "tags", "archived"}, of which a change names some. Throws
// Error(usage) where it is not such an object.
Json notes(const std::filesystem::path& folder);
void change_notes(const std::filesystem::path& folder, const Json& change);

}  // namespace sluice::runs
