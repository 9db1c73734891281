// A graph from several files: graph files merged left to right, and parts that stand in files of
// their own. The result is one document that remembers where every value came from.
//
//   sluice run base.json mine.json        mine.json says only what differs
//   "parts": { "prepare": "parts/prepare.json" }
//
// Merging: objects are merged key by key; any other value, and an object of another "type" or
// "part", replaces what was there. Nothing is removed: `disabled` and --set ~path do that.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "engine/base/document.h"

namespace sluice {

// Texts that stand for what files hold: those that an editor has open. By path, lexically normal.
using OpenFiles = std::map<std::string, std::string>;
const std::string* open_text(const OpenFiles* open, const std::string& file);  // null: not open

// What stands at `pointer`, all of it, came from `place`: nothing is known any more of single
// values below.
void set_origin(Document& document, const std::string& pointer, const Place& place);

// Reads, merges and pulls the parts in. Null and diagnostics where a file cannot be read. Paths of
// parts are relative to the file that names them.
// `text`, where given, stands for what the first file holds.
DocumentPtr read_graph_files(const std::vector<std::string>& files, Diagnostics& diagnostics,
                             const std::string* text = nullptr, const OpenFiles* open = nullptr);

}  // namespace sluice
