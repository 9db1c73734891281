// The page: HTML, style and scripts, which the build put into the library.
#pragma once

#include <string_view>
#include <vector>

namespace sluice::web {

struct PageFile {
  std::string_view name, type, text;  // "main.js"
};
const std::vector<PageFile>& page_files();

}  // namespace sluice::web
