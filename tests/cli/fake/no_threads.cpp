// For LD_PRELOAD: a thread that a function whose name holds NO_THREADS_OF would make is refused, as
// where `ulimit -u` is reached.
#include <dlfcn.h>
#include <execinfo.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include <cerrno>

namespace {

bool is_called_by(const char* name) {
  void* frames[64];
  const int n = backtrace(frames, 64);
  for (int i = 0; i < n; ++i)
    if (Dl_info of{}; dladdr(frames[i], &of) && of.dli_sname && strstr(of.dli_sname, name))
      return true;
  return false;
}

}  // namespace

extern "C" int pthread_create(pthread_t* thread, const pthread_attr_t* attributes,
                              void* (*begin)(void*), void* argument) {
  using Create = int (*)(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*);
  static const auto create = reinterpret_cast<Create>(dlsym(RTLD_NEXT, "pthread_create"));
  const char* name = getenv("NO_THREADS_OF");
  if (name && is_called_by(name)) return EAGAIN;
  return create(thread, attributes, begin, argument);
}
