// The files of a run folder, read as far as they go: a run may be under way, or have been killed.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/json.h"

namespace sluice::runs {

// "" where there is none.
std::string text_of(const std::filesystem::path& file);
// Null where the file is not there or no JSON object.
Json read_json(const std::filesystem::path& file);
// The objects of a .jsonl file; what a kill left of the last line is passed over.
std::vector<Json> read_lines(const std::filesystem::path& file);

// Members of an object; what is not there or of another kind is "", or `otherwise`.
std::string text(const Json& object, const char* key);
double number(const Json& object, const char* key, double otherwise = 0);

// One row a process that worked on the run: "time", "steps_before", "resumed_from", and where it
// said how it ended, "status", "steps" and "wall_s".
Json sessions_of(const std::filesystem::path& folder);

// A file that is whole or not there, with the permissions of the one that it replaces; a device or
// a pipe is written to as it is. An IoError names it and the cause.
void write_whole(const std::filesystem::path& file, const std::string& text);
// The same of a text that comes in pieces, so that it is never held as a whole.
using Put = std::function<void(std::string_view)>;
void write_whole(const std::filesystem::path& file, const std::function<void(const Put&)>& pieces);

}  // namespace sluice::runs
