// Who hears what tell() says, where it is not a terminal.
#pragma once

#include <functional>
#include <string>

namespace sluice {

// From here on messages go to `listener`, on any thread; none: to stderr again.
void tell_to(std::function<void(const std::string&)> listener);

}  // namespace sluice
