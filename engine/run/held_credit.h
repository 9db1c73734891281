// What a gate that is a sink may keep of its firing: while a copy lives, the firing's credit is out
// and the run goes on. Null outside of such a node's body, and on other threads.
#pragma once

#include <memory>

namespace sluice {

extern thread_local std::shared_ptr<const void> held_credit;

}  // namespace sluice
