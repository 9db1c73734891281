// `sluice schema` and `sluice check` agree: thousands of damaged graphs are judged by the check
// here, and by PyPI's jsonschema in referee.py. SLUICE_LONG=1 takes 10,000 instead of 500.
#include <doctest/doctest.h>

#include <set>

#include "engine/graph/schema.h"
#include "tests/campaign.h"
#include "tests/cli/mutate.h"
#include "tests/cli/types.h"

using namespace sluice;
namespace fs = std::filesystem;

namespace {

// Where a type is a variable, a schema does not know what else belongs there; a part may be the
// name of a file.
bool hides_meaning(const Json& value) {
  if (!value.is_structured()) return false;
  if (value.is_object() && value.contains("type") && value["type"].is_string() &&
      value["type"].get_ref<const std::string&>().starts_with("@"))
    return true;
  for (const auto& member : value)
    if (hides_meaning(member)) return true;
  return false;
}

bool names_a_file(const Json& graph) {
  if (!graph.contains("parts") || !graph["parts"].is_structured()) return false;
  for (const auto& part : graph["parts"])
    if (part.is_string()) return true;
  return false;
}

Json verdict(const Json& graph, std::set<std::string>& seen) {
  Json codes = Json::array();
  bool refused = false, through_variables = false;  // which a schema need not see
  const Diagnostics found = types::check("g.json", graph.dump());
  for (const auto& d : found.all()) {
    codes.push_back(d.code + " " + d.path + (d.indirect ? " (indirect)" : ""));
    if (!find_code(d.code)->by_schema) continue;
    (d.indirect ? through_variables : refused) = true;
    if (!d.indirect) seen.insert(d.code);
  }
  return {{"graph", graph},
          {"refused", refused},
          {"may_be_refused", refused || through_variables},
          {"codes", codes}};
}

}  // namespace

TEST_CASE("The schema refuses a graph exactly where check does, for the codes it answers for") {
  campaign::Cases mutants("mutants", 500, 10'000);
  std::vector<Json> shipped;
  for (const auto& e : fs::directory_iterator(SLUICE_SOURCE_DIR "/graphs"))
    if (e.path().extension() == ".json" && e.path().filename() != "graph.schema.json")
      shipped.push_back(Json::parse(std::ifstream(e.path()), nullptr, true, true));
  shell::Folder f;
  std::set<std::string> seen;
  std::size_t count = 0, hidden = 0;
  {
    std::ofstream cases(f.path / "graphs.jsonl");
    const Json right = {{"refused", false}, {"may_be_refused", false}, {"codes", Json::array()}};
    for (const Json& graph : shipped) {  // parts in files are not looked up here
      Json one = names_a_file(graph) ? right : verdict(graph, seen);
      one["graph"] = graph;
      cases << one.dump() << '\n';
    }
    for (auto seed = static_cast<unsigned>(10'000 * (campaign::seed() - 1)); mutants.next();
         ++seed) {
      mutate::Mutator change(seed);
      Json graph = shipped[seed % shipped.size()];
      change(graph);
      if (hides_meaning(graph) || names_a_file(graph)) {
        ++hidden;
        continue;
      }
      Json one = verdict(graph, seen);
      if (one["codes"].dump().find("SL0205") != std::string::npos) {  // nobody knows what it holds
        ++hidden;
        continue;
      }
      one["mutations"] = change.done;
      cases << one.dump() << '\n';
      ++count;
    }
  }
  f.write("schema.json", graph_schema(types::real()).dump());
  const auto r = shell::run("cd " + f.path.string() +
                            "; " SLUICE_PYTHON " " SLUICE_SOURCE_DIR
                            "/tests/cli/referee.py schema.json graphs.jsonl");
  if (r.code == 77) {
    MESSAGE("skipped: the virtual environment has no jsonschema");
    return;
  }
  std::string codes;
  for (const auto& code : seen) codes += " " + code;
  MESSAGE(r.out << r.err << hidden
                << " left out: types that are variables, parts in files, unknown variables\n"
                << seen.size() << " codes:" << codes);
  CHECK(r.code == 0);
  CHECK(seen.size() > 15);
}
