// Where `sluice new` is tried: data in a folder, the graph that is made of it, and its run.
#pragma once

#include <doctest/doctest.h>

#include <vector>

#include "tests/cli/shell.h"

struct NewWorkplace {
  shell::Folder folder;
  std::filesystem::path at(const std::string& name) const { return folder.path / name; }
  shell::Result run(const std::string& command) const {
    return shell::run("cd " + folder.path.string() + " && $SLUICE " + command);
  }
  // A graph for "data", which must be right and run for one epoch; the run's summary.
  nlohmann::json makes_and_runs(const std::string& kind) const {
    const auto made = run("new " + kind + " data -o graph.json");
    INFO(made.err);
    REQUIRE(made.code == 0);
    CHECK(made.out.empty());
    const auto checked = run("check graph.json");
    INFO(checked.err);
    CHECK(checked.code == 0);
    CHECK(checked.err.empty());  // no warning either
    CHECK(run("fmt --check graph.json").out.empty());
    const auto ran = run("run graph.json --quiet --out run --set run.epochs=1");
    INFO(ran.err);
    REQUIRE(ran.code == 0);
    return folder.summary("run");
  }
  nlohmann::json graph() const {
    return nlohmann::json::parse(folder.read("graph.json"), nullptr, true,
                                 /*ignore_comments=*/true);
  }
  struct Refused {
    const char* line;
    int code;
    const char* why;
  };
  void refuses(const std::vector<Refused>& cases) const {
    for (const auto& [line, code, why] : cases) {
      CAPTURE(line);
      const auto r = run(std::string("new ") + line);
      CHECK(r.code == code);
      CAPTURE(r.err);
      CHECK(r.err.find(why) != std::string::npos);
      CHECK(r.out.empty());
    }
  }
};
