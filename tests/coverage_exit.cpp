// _exit() of a build that counts lines, which the linker's --wrap puts in its place: the caller's
// counts are written first. Each program and each library has counts of its own.
extern "C" {
void __gcov_dump();
[[noreturn]] void __real__exit(int code);
[[noreturn]] void __wrap__exit(int code) {
  __gcov_dump();
  __real__exit(code);
}
}
