// Files and `sluice apply`, all in one folder.
#pragma once

#include "tests/cli/shell.h"

struct ApplyWorkplace {
  shell::Folder folder;
  std::string in(const std::string& name) const { return (folder.path / name).string(); }
  shell::Result apply(const std::string& arguments) const {
    return shell::run("cd " + folder.path.string() + " && $SLUICE apply " + arguments);
  }
};
