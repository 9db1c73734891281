#include <doctest/doctest.h>

#include "engine/graph/schema.h"
#include "toy_graph.h"

using namespace sluice;

TEST_CASE("The schema says of a node what its Spec says") {
  const Json schema = graph_schema(toys::catalogue());
  const Json& flip = schema["definitions"]["node.flip"];
  CHECK(flip["additionalProperties"] == false);
  CHECK(flip["properties"]["prob"]["default"] == 0.5);
  CHECK(flip["properties"]["prob"]["anyOf"][0].dump() ==
        R"({"type":"number","minimum":0.0,"maximum":1.0})");
  CHECK(flip["properties"]["in"]["anyOf"][1]["properties"].contains("sample"));
  CHECK_FALSE(flip["properties"].contains("after"));
  const Json& cases = schema["definitions"]["node.cases"];
  CHECK(cases["required"].dump() == R"(["type","root"])");
  CHECK(cases["properties"]["split"]["anyOf"][0]["enum"].dump() == R"(["training","validation"])");
  CHECK(cases["properties"].contains("after"));
  CHECK_FALSE(cases["properties"].contains("in"));
  CHECK(schema["definitions"].contains("network.unet"));
  CHECK_FALSE(schema["definitions"].contains("node.unet"));
}

TEST_CASE("Every reference of the schema leads to a definition") {
  const Json schema = graph_schema(toys::catalogue());
  int found = 0;
  const std::function<void(const Json&)> walk = [&](const Json& j) {
    if (j.is_object() && j.contains("$ref") && j["$ref"].is_string()) {
      const std::string to = j["$ref"].get<std::string>().substr(1);
      CHECK_MESSAGE(schema.contains(Json::json_pointer(to)), to);
      ++found;
    }
    if (j.is_structured())
      for (const auto& e : j) walk(e);
  };
  walk(schema);
  CHECK(found > 50);
}
