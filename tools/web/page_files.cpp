#include "tools/web/page_files.h"

namespace sluice::web {

const std::vector<PageFile>& page_files() {
  static const std::vector<PageFile> all{
#include "web_page.inc"
  };
  return all;
}

}  // namespace sluice::web
