// Writes damaged files and how Sluice's readers answered, for damaged.py, which asks others.
//
// usage: bench_damaged FOLDER COUNT SEED
//
// FOLDER/base_N.EXT are the good files; list.txt has a line a mutant: its file, its base's, format,
// damage, fate.
#include <cstdio>
#include <cstdlib>
#include <fstream>

#include "engine/base/random.h"
#include "tests/kernels/damage.h"

namespace {

void write(const std::filesystem::path& file, const sluice::Bytes& bytes) {
  std::ofstream(file, std::ios::binary)
      .write(reinterpret_cast<const char*>(bytes.data()), std::streamsize(bytes.size()));
}

}  // namespace

int main(int argc, char** argv) {
  using namespace sluice;
  if (argc != 4) return 2;
  const std::filesystem::path folder = argv[1];
  const std::uint64_t count = std::strtoull(argv[2], nullptr, 10);
  const std::uint64_t seed = std::strtoull(argv[3], nullptr, 10);
  std::filesystem::create_directories(folder);
  auto bases = volume_bases();
  for (auto& other : other_bases()) bases.push_back(std::move(other));
  const auto name = [](const char* kind, std::uint64_t i, const Base& base) {
    return kind + std::to_string(i) + base.extension;
  };
  for (std::size_t b = 0; b < bases.size(); ++b)
    write(folder / name("base_", b, bases[b]), bases[b].bytes);
  std::ofstream list(folder / "list.txt");
  for (std::uint64_t i = 0; i < count; ++i) {
    const std::uint64_t draw = mix(seed ^ mix(i));
    const std::size_t b = draw % bases.size();
    const Damage damage = damages[draw / 64 % damages.size()];
    const Bytes bytes = damaged(bases[b], damage, mix(draw));
    const std::string file = name("m_", i, bases[b]);
    write(folder / file, bytes);
    const Fate fate = read_mutant(bases[b], bytes, folder / ("scratch" + bases[b].extension));
    list << file << '\t' << name("base_", b, bases[b]) << '\t' << bases[b].format << '\t'
         << name_of(damage) << '\t' << name_of(fate) << '\n';
  }
}
