// Writes the registry's specs as a C++ raw string, which the binary includes: so `check`, `dot`
// and `inspect` know every node type and load neither the nodes nor LibTorch.
#include <fstream>

#include "engine/run/registry.h"

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  std::ofstream out(argv[1]);
  const std::string json = sluice::Registry::global().catalogue().to_json().dump();
  // A string literal has a length limit in some compilers; pieces are joined by the compiler.
  for (std::size_t i = 0; i < json.size(); i += 8000)
    out << "R\"~~(" << json.substr(i, 8000) << ")~~\"\n";
  return out.good() ? 0 : 4;
}
