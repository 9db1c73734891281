// For LD_PRELOAD: the k-th allocation of the process, and the next ones, find no memory.
//   NO_MEMORY_AT=k     from 1; 0: none
//   NO_MEMORY_FOR=n    how many in a row fail; 1 unless told
//   NO_MEMORY_LEAST=b  only those of so many bytes count
//   NO_MEMORY_COUNT=f  a file that the number of allocations is written to at the end
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>

extern "C" {
void* __libc_malloc(size_t);
void* __libc_calloc(size_t, size_t);
void* __libc_realloc(void*, size_t);
void* __libc_memalign(size_t, size_t);
}

namespace {

std::atomic<bool> begun{false};
std::atomic<unsigned long> count{0};
unsigned long at = 0, for_how_many = 1, least = 0;

unsigned long number(const char* name, unsigned long otherwise) {
  const char* text = getenv(name);
  return text ? strtoul(text, nullptr, 10) : otherwise;
}

__attribute__((constructor)) void begin() {
  at = number("NO_MEMORY_AT", 0);
  for_how_many = number("NO_MEMORY_FOR", 1);
  least = number("NO_MEMORY_LEAST", 0);
  begun = true;
}

__attribute__((destructor)) void end() {
  const char* file = getenv("NO_MEMORY_COUNT");
  const int fd = file ? open(file, O_WRONLY | O_CREAT | O_TRUNC, 0644) : -1;
  if (fd < 0) return;
  char text[32];
  const int n = snprintf(text, sizeof text, "%lu\n", count.load());
  if (write(fd, text, static_cast<size_t>(n)) < 0) abort();
  close(fd);
}

bool fails(size_t bytes) {
  if (!begun || bytes < least) return false;
  const unsigned long n = ++count;
  return at > 0 && n >= at && n < at + for_how_many;
}

}  // namespace

extern "C" {

void* malloc(size_t bytes) {
  if (!fails(bytes)) return __libc_malloc(bytes);
  errno = ENOMEM;
  return nullptr;
}
void* calloc(size_t n, size_t bytes) {
  if (!fails(n * bytes)) return __libc_calloc(n, bytes);
  errno = ENOMEM;
  return nullptr;
}
void* realloc(void* p, size_t bytes) {
  if (!fails(bytes)) return __libc_realloc(p, bytes);
  errno = ENOMEM;
  return nullptr;
}
void* memalign(size_t alignment, size_t bytes) {
  if (!fails(bytes)) return __libc_memalign(alignment, bytes);
  errno = ENOMEM;
  return nullptr;
}
void* aligned_alloc(size_t alignment, size_t bytes) { return memalign(alignment, bytes); }
int posix_memalign(void** out, size_t alignment, size_t bytes) {
  void* p = memalign(alignment, bytes);
  if (!p) return ENOMEM;
  *out = p;
  return 0;
}

}  // extern "C"
