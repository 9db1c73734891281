#include "tests/kernels/damage.h"

#include <fcntl.h>
#include <libdeflate.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <new>
#include <numeric>

#include "engine/base/error.h"
#include "engine/base/random.h"
#include "kernels/files/gzip.h"
#include "kernels/files/npy.h"
#include "kernels/lists/manifest.h"
#include "tests/campaign.h"

namespace sluice {

const char* name_of(Damage damage) {
  constexpr const char* names[] = {"cut",     "bits",    "bytes", "header",
                                   "extreme", "swapped", "zeros", "longer"};
  return names[static_cast<int>(damage)];
}

const char* name_of(Fate fate) {
  constexpr const char* names[] = {"refused", "same", "geometry", "other", "crash"};
  return names[static_cast<int>(fate)];
}

Volume read_any(const std::string& extension, const Bytes& bytes, const fs::path& scratch) {
  const auto given = [&](const fs::path&) {
    FileBytes b(bytes.size());
    std::copy(bytes.begin(), bytes.end(), b.data());
    if (bytes.empty()) throw DataError("empty file");
    return b;
  };
  if (extension == ".npy") {
    Volume v;
    v.data = parse_npy(bytes, "base.npy");
    return v;
  }
  return read_volume(scratch, at::kFloat, given);
}

namespace {

struct Dice {
  std::uint64_t state;
  std::uint64_t next() { return mix(state += 0x9e3779b97f4a7c15ull); }
  std::size_t below(std::size_t n) { return n == 0 ? 0 : next() % n; }
  template <class T, std::size_t n>
  T pick(const T (&of)[n]) {
    return of[below(n)];
  }
};

// ---- headers ------------------------------------------------------------------------------------

struct NiftiField {
  std::size_t at, size;
};
constexpr NiftiField fields1[] = {
    {0, 4},   {38, 1},  {39, 1},  {40, 2},  {42, 2},  {44, 2},  {46, 2},  {48, 2},
    {50, 2},  {70, 2},  {72, 2},  {76, 4},  {80, 4},  {84, 4},  {88, 4},  {108, 4},
    {112, 4}, {116, 4}, {123, 1}, {252, 2}, {254, 2}, {256, 4}, {260, 4}, {264, 4},
    {268, 4}, {280, 4}, {284, 4}, {300, 4}, {320, 4}, {344, 4}, {348, 4}};
constexpr NiftiField fields2[] = {{0, 4},   {4, 8},   {12, 2},  {14, 2},  {16, 8},  {24, 8},
                                  {32, 8},  {40, 8},  {48, 8},  {104, 8}, {112, 8}, {120, 8},
                                  {128, 8}, {168, 8}, {176, 8}, {184, 8}, {344, 4}, {348, 4},
                                  {352, 8}, {376, 8}, {400, 8}, {440, 8}, {540, 4}};

constexpr std::int64_t far_out[] = {
    0,         -1,        1,        2,          127,           32767,
    -32768,    65535,     1 << 20,  2147483647, -2147483648ll, 4294967295ll,
    1ll << 40, INT64_MAX, INT64_MIN};

void change_nifti(Bytes& b, Dice& dice, bool extreme) {
  const bool two = b.size() > 544 && (b[0] == 0x1c ? b[1] == 2 : b[3] == 0x1c && b[2] == 2);
  const NiftiField f = two ? dice.pick(fields2) : dice.pick(fields1);
  const bool real = f.size >= 4 && dice.below(2) == 0;
  std::uint64_t value = extreme ? static_cast<std::uint64_t>(dice.pick(far_out)) : dice.next();
  if (!extreme && dice.below(2) == 0) value %= 300;
  if (real) {
    constexpr double reals[] = {0,
                                -1,
                                1e30,
                                -1e30,
                                1e-30,
                                352,
                                353,
                                544,
                                1e9,
                                1.5,
                                -0.5,
                                std::numeric_limits<double>::infinity(),
                                std::numeric_limits<double>::quiet_NaN()};
    const double v = dice.pick(reals);
    const float narrow = static_cast<float>(v);
    value = 0;
    if (f.size == 8)
      std::memcpy(&value, &v, 8);
    else
      std::memcpy(&value, &narrow, 4);
  }
  if (f.at + f.size > b.size()) return;
  std::memcpy(&b[f.at], &value, f.size);
  if (dice.below(2) == 0) std::reverse(b.begin() + long(f.at), b.begin() + long(f.at + f.size));
}

Bytes unpacked(const Base& base) {
  std::uint32_t length = 0;
  std::memcpy(&length, &base.bytes[base.bytes.size() - 4], 4);
  const FileBytes b = gunzip(base.bytes, length, "base");
  return Bytes(b.data(), b.data() + b.size());
}

void change_text(Bytes& b, std::size_t header, Dice& dice, bool extreme) {
  std::vector<std::size_t> digits;
  for (std::size_t i = 0; i < header; ++i)
    if (b[i] >= '0' && b[i] <= '9') digits.push_back(i);
  if (extreme && !digits.empty()) {
    static const std::string values[] = {
        "0",   "-1",  "99999999999999999999", "4294967296", "1e308",
        "nan", "inf", "-9223372036854775808", "",           "0x10"};
    const std::string value = values[dice.below(std::size(values))];
    const auto at = b.begin() + long(digits[dice.below(digits.size())]);
    b.insert(b.erase(at), value.begin(), value.end());
    return;
  }
  const std::size_t at = dice.below(header);
  const auto line = std::find(b.begin() + long(at), b.begin() + long(header), '\n');
  switch (dice.below(4)) {
    case 0:
      b[at] = std::uint8_t(' ' + dice.below(95));
      break;
    case 1:  // the rest of a line is gone
      b.erase(b.begin() + long(at), line);
      break;
    case 2: {  // or stands twice
      const Bytes rest(b.begin() + long(at), line + (line < b.end()));
      b.insert(b.begin() + long(at), rest.begin(), rest.end());
      break;
    }
    default:
      if (!digits.empty())
        b[digits[dice.below(digits.size())]] = std::uint8_t('0' + dice.below(10));
  }
}

void change_bytes(Bytes& b, std::size_t header, Dice& dice, bool extreme) {
  const std::size_t size = std::size_t{1} << dice.below(3);
  const std::size_t at = dice.below(std::min(b.size(), header) - size);
  const auto value = extreme ? static_cast<std::uint64_t>(dice.pick(far_out)) : dice.next();
  std::memcpy(&b[at], &value, size);
}

// IHDR with a checksum that holds.
void change_png(Bytes& b, Dice& dice, bool extreme) {
  const std::size_t at = 16 + dice.below(13);
  const auto value = extreme ? static_cast<std::uint64_t>(dice.pick(far_out)) : dice.next();
  std::memcpy(&b[at], &value, std::min<std::size_t>(1 + dice.below(4), 29 - at));
  const std::uint32_t crc = libdeflate_crc32(0, &b[12], 17);
  for (std::size_t i = 0; i < 4; ++i) b[29 + i] = std::uint8_t(crc >> (24 - 8 * i));
}

void change_header(const Base& base, Bytes& b, Dice& dice, bool extreme) {
  if (base.nifti && base.header == 0) {
    b = unpacked(base);
    change_nifti(b, dice, extreme);
    const FileBytes packed = gzip(b, 1);
    b.assign(packed.data(), packed.data() + packed.size());
  } else if (base.nifti) {
    change_nifti(b, dice, extreme);
  } else if (base.extension == ".nrrd" || base.extension == ".mha" || base.extension == ".npy") {
    change_text(b, base.header, dice, extreme);
  } else if (base.extension == ".png") {
    change_png(b, dice, extreme);
  } else {
    change_bytes(b, base.header ? base.header : 160, dice, extreme);
  }
}

// ---- the rest -----------------------------------------------------------------------------------

// After a plain header where a checksum covers the rest, else anywhere.
void change_data(const Base& base, Bytes& b, Damage damage, Dice& dice) {
  const std::size_t first = base.checksum ? base.header : 0, n = b.size() - first;
  const auto place = [&](std::size_t run) { return first + dice.below(n - run + 1); };
  if (damage == Damage::bits)
    for (std::size_t k = 1 + dice.below(3); k > 0; --k)
      b[place(1)] ^= std::uint8_t(1u << dice.below(8));
  if (damage == Damage::bytes)
    for (std::size_t k = 1 + dice.below(4); k > 0; --k) b[place(1)] = std::uint8_t(dice.next());
  const std::size_t run = std::min<std::size_t>(n / 3, std::size_t{1} << dice.below(9));
  if (damage == Damage::zeros) std::fill_n(b.begin() + long(place(run)), run, 0);
  if (damage == Damage::swapped) {
    std::size_t one = 0, two = 0;
    const auto sum = [&](std::size_t at) {
      return std::accumulate(b.begin() + long(at), b.begin() + long(at + run), 0u);
    };
    // Two runs of one sum have one Adler-32, whichever comes first: it cannot see that (.tif).
    for (int tries = 0; tries == 0 || (tries < 4 && sum(one) == sum(two)); ++tries) {
      one = place(2 * run), two = one + run;
      if (dice.below(2)) two = std::max(two, place(run));
    }
    std::swap_ranges(b.begin() + long(one), b.begin() + long(one + run), b.begin() + long(two));
  }
  if (damage == Damage::longer)
    for (std::size_t k = 1 + dice.below(40); k > 0; --k) b.push_back(std::uint8_t(dice.next()));
}

Bytes once(const Base& base, Damage damage, std::uint64_t number) {
  Dice dice{mix(number)};
  Bytes b = base.bytes;
  if (damage == Damage::cut)
    b.resize(dice.below(b.size()));
  else if (damage == Damage::header || damage == Damage::extreme)
    change_header(base, b, dice, damage == Damage::extreme);
  else
    change_data(base, b, damage, dice);
  return b;
}

bool same_bytes(const at::Tensor& a, const at::Tensor& b) {
  return a.sizes() == b.sizes() && a.scalar_type() == b.scalar_type() &&
         std::memcmp(a.const_data_ptr(), b.const_data_ptr(), a.nbytes()) == 0;
}

// What children and parent share.
struct Board {
  std::uint64_t next, with_manifest;
  std::uint64_t counts[32][damages.size()][fates.size()];
};

struct Mutant {
  std::size_t base;
  Damage damage;
  std::uint64_t number;
};
Mutant mutant(std::uint64_t i, std::uint64_t seed, std::size_t bases) {
  Dice dice{mix(seed ^ mix(i))};
  const std::size_t b = dice.below(bases);
  return {b, damages[dice.below(damages.size())], dice.next()};
}

void limit_memory() {
  std::uint64_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  const rlim_t most = pages * static_cast<rlim_t>(::sysconf(_SC_PAGESIZE)) + (rlim_t{1} << 30);
  const rlimit limit{most, most};
  ::setrlimit(RLIMIT_AS, &limit);
}

[[noreturn]] void run_child(Board& board, const std::vector<Base>& bases, std::uint64_t end,
                            std::uint64_t seed, const fs::path& folder) {
  limit_memory();
  const itimerval most{{0, 0}, {20, 0}};
  const int null = ::open("/dev/null", O_WRONLY);
  ::dup2(null, 1);
  ::dup2(null, 2);
  Manifest manifest(folder);
  for (const Base& base : bases)
    manifest.digests[base.format + base.extension] = sha256(base.bytes);
  for (; board.next < end; ++board.next) {
    ::setitimer(ITIMER_PROF, &most, nullptr);  // its own time: a machine may be busy
    const Mutant m = mutant(board.next, seed, bases.size());
    const Base& base = bases[m.base];
    const Bytes bytes = damaged(base, m.damage, m.number);
    const Fate fate = read_mutant(base, bytes, folder / ("m" + base.extension));
    if (fate != Fate::crash)
      ++board.counts[m.base][static_cast<int>(m.damage)][static_cast<int>(fate)];
    if (fate == Fate::crash) ::_exit(1);
    if (fate == Fate::refused) continue;
    try {
      manifest.verify(folder / (base.format + base.extension), bytes);
      ++board.with_manifest;
    } catch (const DataError&) {
    }
  }
  ::_exit(0);
}

}  // namespace

Bytes damaged(const Base& base, Damage damage, std::uint64_t number) {
  for (;; ++number)
    if (Bytes b = once(base, damage, number); b != base.bytes) return b;
}

Fate read_mutant(const Base& base, const Bytes& bytes, const fs::path& scratch) {
  try {
    const Volume v = read_any(base.extension, bytes, scratch);
    if (!same_bytes(v.data, base.volume.data)) return Fate::other;
    return v.affine == base.volume.affine ? Fate::same : Fate::geometry;
  } catch (const Error&) {
    return Fate::refused;
  } catch (const std::exception&) {  // an error of ours, or memory for what is not there
    return Fate::crash;
  }
}

Campaign run_campaign(const std::string& name, const std::vector<Base>& bases, std::uint64_t few,
                      std::uint64_t many, std::uint64_t seed) {
  const std::uint64_t count = campaign::at_length() ? many : few;
  campaign::Cases chunks(name, count, count);
  const TemporaryFolder folder;
  void* shared =
      ::mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  auto& board = *new (shared) Board();
  Campaign found;
  constexpr std::uint64_t chunk = 20'000;
  while (board.next < count && chunks.next()) {
    const std::uint64_t end = std::min(count, board.next / chunk * chunk + chunk);
    const pid_t child = ::fork();
    if (child == 0) run_child(board, bases, end, seed, folder.path);
    int status = 0;
    ::waitpid(child, &status, 0);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) continue;
    const Mutant m = mutant(board.next, seed, bases.size());
    ++board.counts[m.base][static_cast<int>(m.damage)][static_cast<int>(Fate::crash)];
    found.crashes.push_back(bases[m.base].format + " " + name_of(m.damage) + " " +
                            std::to_string(m.number) + " status " + std::to_string(status));
    if (found.crashes.size() > 50) break;  // the reader is broken: enough of it
    ++board.next;
  }
  for (std::size_t b = 0; b < bases.size(); ++b)
    for (const Damage d : damages)
      for (const Fate v : fates)
        if (const auto n = board.counts[b][static_cast<int>(d)][static_cast<int>(v)])
          found.tally[{bases[b].format, name_of(d), name_of(v)}] += n;
  chunks.stand_for(board.next);
  found.files = board.next;
  found.with_manifest = board.with_manifest;
  ::munmap(shared, sizeof(Board));
  return found;
}

}  // namespace sluice
