#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>

#include "engine/base/openmp.h"

int main(int argc, char** argv) {
  sluice::start_again_with_sleeping_openmp(argv);
  return doctest::Context(argc, argv).run();
}
