// A page as a browser draws it, where there is one.
#pragma once

#include "tests/cli/shell.h"

namespace shell {

// The name of a program; "" where there is none.
inline std::string browser() {
  for (const char* name : {"chromium-headless-shell", "chromium", "google-chrome"})
    if (run(std::string("command -v ") + name).code == 0) return name;
  return "";
}

// The page after its script ran, and what the browser's console said.
inline Result rendered(const std::string& program, const std::filesystem::path& page) {
  return run("HOME=" + page.parent_path().string() + " timeout 120 " + program +
             " --headless --no-sandbox --disable-gpu --enable-logging=stderr --v=0"
             " --virtual-time-budget=3000 --window-size=1280,2400 --dump-dom file://" +
             page.string());
}

}  // namespace shell
