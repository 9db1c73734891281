// Who started the ranks of this machine, where no variable says which job they are.
#pragma once

#include <string>

namespace sluice {

// The number of the first process above this one whose environment lacks the variable `of_rank`: a
// rank's wrapper scripts have it, their launcher has not. So ranks of one launcher find the same
// process, whatever stands between. "" where there is none.
std::string launcher_process(const std::string& of_rank);

}  // namespace sluice
