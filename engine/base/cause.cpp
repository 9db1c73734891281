#include "engine/base/cause.h"

#include <unistd.h>

#include <cstdlib>
#include <exception>
#include <filesystem>
#include <new>
#include <string_view>
#include <system_error>

#include "engine/base/system_call.h"

namespace sluice {
namespace {

// LibTorch appends its C++ stack; what stands before it says what happened.
std::string_view without_stack(std::string_view what) {
  for (const char* stack : {"\nException raised from", "\nframe #"})
    if (const auto end = what.find(stack); end != what.npos) what = what.substr(0, end);
  return what;
}

// LibTorch's allocators throw no std::bad_alloc; the engine does not see their type.
bool says_no_memory(std::string_view what) {
  for (const char* words : {"out of memory", "can't allocate memory", "not enough memory"})
    if (what.find(words) != what.npos) return true;
  return false;
}

Cause of_message(const char* what, Exit otherwise) {
  const std::string_view text = without_stack(what);
  const bool no_memory = says_no_memory(text);
  return {no_memory ? Exit::memory : otherwise, std::string(text), no_memory};
}

// The library's own text of a path names the function that it called.
std::string text_of(const std::system_error& e) {
  const auto* of_path = dynamic_cast<const std::filesystem::filesystem_error*>(&e);
  if (!of_path || of_path->path1().empty()) return e.what();
  const std::string to = of_path->path2().string();
  return of_path->path1().string() + (to.empty() ? "" : " to " + to) + ": " + e.code().message();
}

Cause of_current(Exit otherwise) {
  try {
    throw;
  } catch (const MachineError& e) {
    return {e.exit, e.what(), true};
  } catch (const Error& e) {
    return {e.exit, e.what(), e.exit == Exit::memory};
  } catch (const std::bad_alloc&) {
    return {Exit::memory, "out of memory", true};
  } catch (const std::system_error& e) {
    const auto code = e.code().default_error_condition();
    const bool by_errno = code.category() == std::generic_category();
    return {by_errno && code.value() == ENOMEM ? Exit::memory : Exit::io, text_of(e),
            by_errno && is_of_machine(code.value())};
  } catch (const std::exception& e) {
    return of_message(e.what(), otherwise);
  } catch (...) {
    return {otherwise, "unknown exception", false};
  }
}

std::terminate_handler handler_before = nullptr;

[[noreturn]] void at_terminate() {
  if (std::current_exception() && cause(Exit::usage).exit == Exit::memory) {
    constexpr std::string_view line = "error: out of memory\n";
    [[maybe_unused]] const ssize_t n = ::write(STDERR_FILENO, line.data(), line.size());
    ::_exit(static_cast<int>(Exit::memory));
  }
  if (handler_before) handler_before();
  std::abort();
}

}  // namespace

Cause cause(Exit otherwise) noexcept {
  try {
    return of_current(otherwise);
  } catch (...) {  // no room for its text
    return {Exit::memory, "out of memory", true};
  }
}

void rethrow_with(const std::string& where, Exit otherwise) {
  const Cause c = cause(otherwise);
  const std::string text = where + ": " + c.text;
  if (c.of_machine) throw MachineError(c.exit, text);
  throw Error(c.exit, text);
}

void exit_when_memory_is_out() {
  const auto before = std::set_terminate(at_terminate);
  if (before != at_terminate) handler_before = before;
}

}  // namespace sluice
