// `sluice data`: a small decathlon set in which nothing is wrong, and faults planted into it one at
// a time. Each must be found, as what it is and with its file, and nothing else may be.
#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <set>
#include <vector>

#include "tests/cli/shell.h"

using nlohmann::json;
using shell::Folder;
namespace fs = std::filesystem;

namespace {

constexpr std::int16_t uint8 = 2, int16 = 4, float32 = 16;
constexpr int nx = 8, ny = 9, nz = 7;

// A NIfTI-1 file under construction. Its number makes one case's voxels unlike another's.
struct File {
  int number = 0;
  bool label = false;
  std::int16_t type = int16;
  std::vector<std::int16_t> dim{nx, ny, nz};
  std::vector<float> srow{-1, 0, 0, 5, 0, -1, 0, 6, 0, 0, 2, -7};
  bool sform = true;

  float value(int x, int y, int z) const {
    const bool inside = std::abs(x - 4) + std::abs(y - 4) + std::abs(z - 3) <= 3;
    if (label && x == number && y + z == 0) return 1;  // no two are the same
    if (label) return inside ? (x + number % 2 < 4 ? 1 : 2) : 0;
    return static_cast<float>((x * 31 + y * 17 + z * 7 + number * 101) % 211);
  }
  std::string bytes() const {
    std::string b(352, '\0');
    const auto put = [&](std::size_t at, auto v) { std::memcpy(&b[at], &v, sizeof v); };
    const int size = type == uint8 ? 1 : type == int16 ? 2 : 4;
    put(0, std::int32_t{348});
    put(40, static_cast<std::int16_t>(dim.size()));
    for (std::size_t i = 0; i < 7; ++i) put(42 + 2 * i, i < dim.size() ? dim[i] : std::int16_t{1});
    put(70, type);
    put(72, static_cast<std::int16_t>(8 * size));
    put(76, 1.0f);
    for (std::size_t i = 0; i < 3; ++i) put(80 + 4 * i, i == 2 ? 2.0f : 1.0f);
    put(108, 352.0f);
    put(254, static_cast<std::int16_t>(sform));
    for (std::size_t i = 0; i < 12; ++i) put(280 + 4 * i, srow[i]);
    std::memcpy(&b[344], "n+1", 4);
    const auto axis = [&](std::size_t d) { return d < dim.size() ? dim[d] : 1; };
    for (int c = 0; c < axis(3); ++c)
      for (int z = 0; z < axis(2); ++z)
        for (int y = 0; y < axis(1); ++y)
          for (int x = 0; x < axis(0); ++x) append(b, value(x, y, z));
    return b;
  }
  void append(std::string& b, float v) const {
    const auto add = [&b](auto n) { b.append(reinterpret_cast<const char*>(&n), sizeof n); };
    if (type == uint8) add(static_cast<std::uint8_t>(v));
    if (type == int16) add(static_cast<std::int16_t>(v));
    if (type == float32) add(v);
  }
};

File image(int number) { return {.number = number}; }
File label(int number) { return {.number = number, .label = true, .type = uint8}; }

// The byte at which voxel x, y, z of a file stands.
std::size_t at(int x, int y, int z, std::size_t size) {
  return 352 + size * static_cast<std::size_t>((z * ny + y) * nx + x);
}

template <class T>
std::string with(std::string bytes, std::size_t at, T value) {
  std::memcpy(&bytes[at], &value, sizeof value);
  return bytes;
}

struct Set {
  Folder folder;
  json list{{"name", "balls"},
            {"labels", {{"0", "background"}, {"1", "front"}, {"2", "back"}}},
            {"numTraining", 4},
            {"training", json::array()},
            {"validation", json::array()},
            {"test", json::array()}};

  Set() {
    for (int i = 0; i < 6; ++i) {
      const json entry{{"image", image_name(i)}, {"label", label_name(i)}};
      write(image_name(i), image(i));
      if (i < 5) write(label_name(i), label(i));
      if (i < 4) list["training"].push_back(entry);
      if (i == 4) list["validation"].push_back(entry);
      if (i == 5) list["test"].push_back(image_name(i));
    }
  }
  static std::string image_name(int i) { return "images/case_" + std::to_string(i) + ".nii"; }
  static std::string label_name(int i) { return "labels/case_" + std::to_string(i) + ".nii"; }
  void write(const std::string& name, const File& file) { folder.write(name, file.bytes()); }
  void write(const std::string& name, const std::string& bytes) { folder.write(name, bytes); }
  fs::path path(const std::string& name) const { return folder.path / name; }
  shell::Result run(const std::string& command) {
    folder.write("dataset.json", list.dump(1));
    return shell::run("cd " + folder.path.string() + " && $SLUICE data " + command);
  }
};

using Found = std::set<std::pair<std::string, std::string>>;  // kind, file relative to the folder

Found found_in(Set& set) {
  const auto r = set.run("check . --json");
  INFO(r.err);
  const json all = json::parse(r.out);
  CHECK(r.code == (all["errors"].get<int>() > 0 ? 3 : 0));
  Found found;
  for (const json& f : all["findings"]) {
    CHECK(f["text"].get<std::string>().size() > 5);
    found.emplace(f["kind"], fs::path(f["file"].get<std::string>()).lexically_normal().string());
  }
  return found;
}

struct Planted {
  const char* what;
  void (*plant)(Set&);
  Found expected;
};

const std::string image1 = Set::image_name(1), image2 = Set::image_name(2);
const std::string label1 = Set::label_name(1);
const float nan = std::numeric_limits<float>::quiet_NaN();

File moved(File f, std::size_t i, float value) {
  f.srow[i] = value;
  return f;
}

void plant_label_values(Set& s, float value) {
  File f = label(1);
  f.type = float32;
  s.write(label1, with(f.bytes(), at(4, 4, 3, 4), value));
}

const std::vector<Planted> faults{
    {"an image that is not there",
     [](Set& s) { fs::remove(s.path(image1)); },
     {{"missing", image1}}},
    {"a label that is not there",
     [](Set& s) { fs::remove(s.path(label1)); },
     {{"missing", label1}}},
    {"an empty file", [](Set& s) { s.write(image1, std::string()); }, {{"unreadable", image1}}},
    {"a cut file",
     [](Set& s) { s.write(image1, image(1).bytes().substr(0, 700)); },
     {{"unreadable", image1}}},
    {"a file with something behind it",
     [](Set& s) { s.write(image1, image(1).bytes() + "x"); },
     {{"unreadable", image1}}},
    {"a file that is something else",
     [](Set& s) { s.write(image1, std::string(900, 'x')); },
     {{"unreadable", image1}}},
    {"a folder in a file's place",
     [](Set& s) {
       fs::remove(s.path(image1));
       fs::create_directory(s.path(image1));
     },
     {{"unreadable", image1}}},
    {"a link that leads nowhere",
     [](Set& s) {
       fs::remove(s.path(image1));
       fs::create_symlink("nowhere.nii", s.path(image1));
     },
     {{"missing", image1}}},
    {"a singular affine",
     [](Set& s) { s.write(image1, moved(image(1), 10, 0)); },
     {{"unreadable", image1}}},
    {"NaN in the affine",
     [](Set& s) { s.write(image1, moved(image(1), 3, nan)); },
     {{"unreadable", image1}}},
    {"a sheared affine",
     [](Set& s) {
       s.write(image1, moved(image(1), 1, 0.2f));
       s.write(label1, moved(label(1), 1, 0.2f));
     },
     {{"sheared", image1}, {"sheared", label1}}},
    {"a label with other axes lengths",
     [](Set& s) {
       File f = label(1);
       f.dim = {nx, ny, nz - 1};
       s.write(label1, f);
     },
     {{"shape", label1}}},
    {"a label whose axes are swapped",
     [](Set& s) {
       File f = label(1);
       f.dim = {ny, nx, nz};
       s.write(label1, f);
     },
     {{"shape", label1}}},
    {"a label with another spacing",
     [](Set& s) { s.write(label1, moved(label(1), 10, 2.5f)); },
     {{"spacing", label1}}},
    {"a label with another origin",
     [](Set& s) { s.write(label1, moved(label(1), 3, 6)); },
     {{"affine", label1}}},
    {"a label that is mirrored",
     [](Set& s) { s.write(label1, moved(label(1), 0, 1)); },
     {{"affine", label1}}},
    {"a file that does not say where it lies",
     [](Set& s) {
       for (const auto& name : {image1, label1}) {
         File f = name == image1 ? image(1) : label(1);
         f.sform = false;
         s.write(name, f);
       }
     },
     {{"no_geometry", image1}, {"no_geometry", label1}, {"mixed_orientation", image1}}},
    {"metres taken for millimetres",
     [](Set& s) {
       for (const auto& name : {image1, label1}) {
         File f = name == image1 ? image(1) : label(1);
         for (float& v : f.srow) v /= 1000;
         s.write(name, f);
       }
     },
     {{"odd_spacing", image1}, {"odd_spacing", label1}, {"mixed_spacing", Set::image_name(0)}}},
    {"NaN among the voxels",
     [](Set& s) {
       for (int i = 0; i < 6; ++i) {
         File f = image(i);
         f.type = float32;
         s.write(Set::image_name(i), i == 1 ? with(f.bytes(), at(3, 2, 1, 4), nan) : f.bytes());
       }
     },
     {{"not_finite", image1}}},
    {"infinity among the voxels",
     [](Set& s) {
       for (int i = 0; i < 6; ++i) {
         File f = image(i);
         f.type = float32;
         s.write(Set::image_name(i),
                 i == 1 ? with(f.bytes(), at(3, 2, 1, 4), std::numeric_limits<float>::infinity())
                        : f.bytes());
       }
     },
     {{"not_finite", image1}}},
    {"an image of one value",
     [](Set& s) {
       std::string b = image(1).bytes();
       std::fill(b.begin() + 352, b.end(), '\1');
       s.write(image1, b);
     },
     {{"constant", image1}}},
    {"a label that is not declared",
     [](Set& s) { s.write(label1, with(label(1).bytes(), at(4, 4, 3, 1), std::uint8_t{3})); },
     {{"label_value", label1}}},
    {"a label of 1.5",
     [](Set& s) { plant_label_values(s, 1.5f); },
     {{"label_fraction", label1}, {"label_float", label1}}},
    {"a label of -1",
     [](Set& s) { plant_label_values(s, -1); },
     {{"label_negative", label1}, {"label_float", label1}}},
    {"a label of floats", [](Set& s) { plant_label_values(s, 1); }, {{"label_float", label1}}},
    {"a label without foreground",
     [](Set& s) {
       std::string b = label(1).bytes();
       std::fill(b.begin() + 352, b.end(), '\0');
       s.write(label1, b);
     },
     {{"label_empty", label1}}},
    {"a label of two channels",
     [](Set& s) {
       File f = label(1);
       f.dim = {nx, ny, nz, 2};
       s.write(label1, f);
     },
     {{"label_channels", label1}}},
    {"an image in a label's place",
     [](Set& s) {
       File f = label(1);
       f.type = float32;
       f.dim = {64, 64, 2};
       std::string b = f.bytes();
       for (int i = 0; i < 64 * 128; ++i)
         b = with(std::move(b), 352 + 4 * std::size_t(i), float(i));
       s.write(label1, b);
     },
     {{"label_is_image", label1}, {"shape", label1}}},
    {"a declared label that nobody has",
     [](Set& s) { s.list["labels"]["7"] = "tail"; },
     {{"class_missing", "dataset.json"}}},
    {"two images that are one", [](Set& s) { s.write(image2, image(1)); }, {{"duplicate", image2}}},
    {"an image of training in validation",
     [](Set& s) { s.write(Set::image_name(4), image(1)); },
     {{"leak", Set::image_name(4)}}},
    {"an image of training in test, stored otherwise",
     [](Set& s) {
       File f = image(1);
       f.type = float32;
       s.write(Set::image_name(5), f);
     },
     {{"leak", Set::image_name(5)}, {"mixed_dtype", Set::image_name(5)}}},
    {"a case that is listed twice",
     [](Set& s) {
       s.list["training"].push_back(s.list["training"][1]);
       s.list["numTraining"] = 5;
     },
     {{"listed_twice", image1}, {"listed_twice", label1}}},
    {"two cases with one label",
     [](Set& s) { s.write(label1, label(3)); },
     {{"label_duplicate", Set::label_name(3)}}},
    {"a case without a label",
     [](Set& s) {
       s.list["training"][1].erase("label");
       fs::remove(s.path(label1));
     },
     {{"no_label", image1}}},
    {"a file that no case has",
     [](Set& s) { s.write("images/left.nii", image(9)); },
     {{"unreferenced", "images/left.nii"}}},
    {"a file that no case has, in a folder that a link leads to",
     [](Set& s) {
       s.write(".away/left.nii", image(9));
       fs::create_directory_symlink("../.away", s.path("images/more"));
     },
     {{"unreferenced", "images/more/left.nii"}}},
    {"a name with and without .gz",
     [](Set& s) { fs::copy(s.path(image1), s.path(image1 + ".gz")); },
     {{"unreferenced", image1 + ".gz"}, {"twins", image1}}},
    {"a name with and without .GZ",
     [](Set& s) { fs::copy(s.path(image1), s.folder.path / "images/case_1.NII.GZ"); },
     {{"unreferenced", "images/case_1.NII.GZ"}, {"twins", image1}}},
    {"a path out of the folder",
     [](Set& s) { s.list["training"][1]["image"] = "../a.nii"; },
     {{"list", "dataset.json"}, {"no_image", label1}, {"unreferenced", image1}}},
    {"an entry that is no path",
     [](Set& s) { s.list["training"][1]["image"] = 7; },
     {{"list", "dataset.json"}, {"no_image", label1}, {"unreferenced", image1}}},
    {"a wrong number of cases",
     [](Set& s) { s.list["numTraining"] = 40; },
     {{"count", "dataset.json"}}},
    {"images of several datatypes",
     [](Set& s) {
       File f = image(1);
       f.type = float32;
       s.write(image1, f);
     },
     {{"mixed_dtype", image1}}},
    {"images with other numbers of channels",
     [](Set& s) {
       File f = image(1);
       f.dim = {nx, ny, nz, 2};
       s.write(image1, f);
     },
     {{"mixed_channels", image1}}},
    {"images with axes the other way",
     [](Set& s) {
       s.write(image1, moved(image(1), 0, 1));
       s.write(label1, moved(label(1), 0, 1));
     },
     {{"mixed_orientation", image1}}},
    {"images with far other spacings",
     [](Set& s) {
       s.write(image1, moved(image(1), 10, 8));
       s.write(label1, moved(label(1), 10, 8));
     },
     {{"mixed_spacing", image1}}},
    {"one slice among volumes",
     [](Set& s) {
       File i = image(1), l = label(1);
       i.dim = l.dim = {nx, ny, 1};
       s.write(image1, i);
       s.write(label1, l);
     },
     {{"flat", image1}, {"flat", label1}}},
};

}  // namespace

TEST_CASE("data check finds nothing in a data set in which nothing is wrong") {
  Set set;
  CHECK(found_in(set).empty());
  const auto r = set.run("check .");
  CHECK(r.code == 0);
  CHECK(r.out.find("4 training, 1 validation, 1 test; 11 files") != std::string::npos);
  fs::create_directory_symlink("images", set.path("again"));
  fs::create_directory_symlink("..", set.path("images/back"));
  CHECK(found_in(set).empty());
}

TEST_CASE("data check finds each planted fault, names its file and finds nothing else") {
  for (const Planted& fault : faults) {
    CAPTURE(fault.what);
    Set set;
    fault.plant(set);
    const Found found = found_in(set);
    std::string text;
    for (const auto& [kind, file] : found) text += kind + " " + file + "; ";
    CAPTURE(text);
    CHECK(found == fault.expected);
  }
}

TEST_CASE("a folder whose name holds .gz makes no twins") {
  const Folder folder;
  for (const char* name : {"a.nii", "a.nii.gz.d/b.nii"})
    folder.write(name, image(std::string(name) == "a.nii" ? 1 : 2).bytes());
  const auto r = shell::run("cd " + folder.path.string() + " && $SLUICE data check a.nii.gz.d");
  INFO(r.out, r.err);
  CHECK(r.out.find("twins") == std::string::npos);
}

TEST_CASE("data diff names files whose names are no UTF-8") {
  Set set;
  set.write("images/caf\xe9.nii", image(9));
  REQUIRE(set.run("index .").code == 0);
  fs::rename(set.path("images/caf\xe9.nii"), set.path("images/caf\xea.nii"));
  const auto r = set.run("diff . --json");
  INFO(r.err);
  CHECK(r.code == 3);
  CHECK(json::parse(r.out)["changes"].size() == 1);
}

TEST_CASE("data check says everything at once, with the voxels' place") {
  Set set;
  set.write(label1, with(label(1).bytes(), at(4, 4, 3, 1), std::uint8_t{9}));
  set.write(image2, image(2).bytes().substr(0, 700));
  const auto r = set.run("check .");
  CHECK(r.code == 3);
  CHECK(r.err.empty());
  for (const char* text :
       {"1 voxels are 9, the first at [4, 4, 3]", "images/case_2.nii: ends early",
        "error    1 label_value", "error    1 unreadable", "2 errors, 0 warnings"})
    CHECK_MESSAGE(r.out.find(text) != std::string::npos, text, " in ", r.out);
}

TEST_CASE("data check reads the cases that nnU-Net's dataset.json lists by their files") {
  Set set;
  set.list = {{"channel_names", {{"0", "MRI"}}},
              {"labels", {{"background", 0}, {"front", 1}, {"back", 2}}},
              {"file_ending", ".nii"},
              {"dataset", json::object()}};
  for (int i = 0; i < 5; ++i)
    set.list["dataset"]["case_" + std::to_string(i)] = {
        {"images", json::array({Set::image_name(i)})}, {"label", Set::label_name(i)}};
  CHECK(found_in(set) == Found{{"unreferenced", Set::image_name(5)}});
  CHECK(set.run("check .").out.find("5 training; 10 files") != std::string::npos);
  set.list["dataset"]["case_4"].erase("label");
  set.write(label1, with(label(1).bytes(), at(4, 4, 3, 1), std::uint8_t{9}));
  CHECK(found_in(set) == Found{{"list", "dataset.json"},
                               {"label_value", label1},
                               {"unreferenced", Set::image_name(4)},
                               {"unreferenced", Set::label_name(4)},
                               {"unreferenced", Set::image_name(5)}});
}

TEST_CASE("data check looks at what a graph's sources list, and takes its labels from load_image") {
  Set set;
  set.write(Set::image_name(4), image(1));
  const json graph{{"nodes",
                    {{"train", {{"type", "decathlon"}, {"root", "."}}},
                     {"load", {{"type", "load_image"}, {"in", "train"}, {"max_label", 1}}},
                     {"held", {{"type", "decathlon"}, {"root", "."}, {"split", "validation"}}},
                     {"other", {{"type", "load_image"}, {"in", "held"}}}}}};
  set.folder.write("graph.json", graph.dump());
  const auto r = set.run("check graph.json --json");
  CHECK(r.code == 3);
  const json all = json::parse(r.out);
  CHECK(all["cases"] == 5);
  std::set<std::string> kinds;
  for (const json& f : all["findings"]) kinds.insert(f["kind"]);
  CHECK(kinds == std::set<std::string>{"label_value"});  // neither source trains: nothing leaks
  const auto missing = set.run("check graph.json --set nodes.train.root=nowhere");
  CHECK(missing.code == 3);
  CHECK(missing.out.find("nowhere/dataset.json: no such file") != std::string::npos);
}

TEST_CASE("data index and diff: what changed, moved, came and went since") {
  Set set;
  CHECK(set.run("diff .").code == 2);  // there is no manifest yet
  REQUIRE(set.run("index .").code == 0);
  CHECK(set.run("diff .").out == "0 of 12 files differ\n");
  REQUIRE(set.run("index . -o before.sha256").code == 0);
  fs::rename(set.path(image1), set.path("images/renamed.nii"));
  fs::remove(set.path(label1));
  set.write(image2, image(8));
  set.write("images/new.nii", image(7));
  const auto r = set.run("diff .");
  CHECK(r.code == 3);
  CHECK(r.out ==
        "added    before.sha256\nadded    images/new.nii\nchanged  images/case_2.nii\n"
        "missing  labels/case_1.nii\nmoved    images/renamed.nii  (was images/case_1.nii)\n"
        "5 of 12 files differ\n");
  const json all = json::parse(set.run("diff . --json").out);
  CHECK(all["changes"].size() == 5);
  REQUIRE(set.run("index . -o after.sha256").code == 0);
  const auto two = set.run("diff before.sha256 after.sha256");
  CHECK(two.out.find("changed  images/case_2.nii") != std::string::npos);
}

TEST_CASE("a manifest that lies outside of its data is compared with the data and with a copy") {
  Set set;
  const Folder elsewhere;
  const std::string manifest = (elsewhere.path / "before.sha256").string();
  REQUIRE(set.run("index . -o " + manifest).code == 0);
  for (const char* with : {"", " ."}) {
    CAPTURE(with);
    CHECK(set.run("diff " + manifest + with).out == "0 of 12 files differ\n");
  }
  fs::copy(set.folder.path, elsewhere.path / "copy", fs::copy_options::recursive);
  const std::string copy = (elsewhere.path / "copy").string();
  CHECK(set.run("diff " + manifest + " " + copy).out == "0 of 12 files differ\n");
  set.write(image2, image(8));
  REQUIRE(set.run("index .").code == 0);  // the same names from another folder
  CHECK(set.run("diff " + manifest + " manifest.sha256").out ==
        "changed  " + image2 + "\n1 of 12 files differ\n");
}

TEST_CASE("One flipped bit of an uncompressed image is seen with a manifest, and only with it") {
  Set set;
  REQUIRE(set.run("index .").code == 0);
  std::string bytes = image(1).bytes();
  bytes[at(3, 3, 3, 2)] ^= 1;
  set.write(image1, bytes);
  CHECK(found_in(set) == Found{{"manifest", image1}});
  const json graph{{"nodes",
                    {{"train", {{"type", "decathlon"}, {"root", "."}}},
                     {"load", {{"type", "load_image"}, {"in", "train"}}}}}};
  set.folder.write("graph.json", graph.dump());
  const auto run = [&](const std::string& more) {
    return shell::run("cd " + set.folder.path.string() +
                      " && $SLUICE run graph.json --quiet --no-out " + more);
  };
  CHECK(run("").code == 0);
  const auto refused = run("--set nodes.load.manifest=manifest.sha256");
  CHECK(refused.code == 3);
  CHECK(refused.err.find("images/case_1.nii: is not the file that was indexed") !=
        std::string::npos);
  set.write(image1, image(1));
  CHECK(run("--set nodes.load.manifest=manifest.sha256").code == 0);
}

TEST_CASE("A data command that cannot be meant is refused with what was meant") {
  Set set;
  const auto refused = [&](const std::string& command, const std::string& why) {
    const auto r = set.run(command);
    CHECK(r.code == 2);
    CHECK_MESSAGE(r.err.find(why) != std::string::npos, r.err);
  };
  refused("chekc .", "did you mean \"check\"");
  refused("chekc", "did you mean \"check\"");
  refused("check", "name a folder or a graph: sluice data check DIR");
  refused("check nowhere", "nowhere: no such file or folder");
  refused("check . -o x", "--out is for index");
  refused("diff a b c", "two");
}

TEST_CASE("data index follows links to folders, and none round and round") {
  Set set;
  const Folder elsewhere;
  elsewhere.write("deep/a.nii", image(7).bytes());
  fs::create_directory_symlink(elsewhere.path, set.path("linked"));
  fs::create_directory_symlink(set.folder.path, elsewhere.path / "deep/back");
  fs::create_directory_symlink(".", set.path("images/self"));
  const auto r = set.run("index . --json");
  REQUIRE_MESSAGE(r.code == 0, r.err);
  CHECK(json::parse(r.out)["files"] == 13);
  CHECK(set.folder.read("manifest.sha256").find("linked/deep/a.nii") != std::string::npos);
  CHECK(set.run("diff .").out == "0 of 13 files differ\n");
  elsewhere.write("deep/b.nii", image(8).bytes());
  CHECK(set.run("diff .").out == "added    linked/deep/b.nii\n1 of 13 files differ\n");
}

TEST_CASE("data index takes one folder, and changes of a graph with a graph alone") {
  Set set;
  for (const char* line : {"index . images", "index . --set nodes.a.b=1", "check . --set a=1"}) {
    CAPTURE(line);
    const auto r = set.run(line);
    CHECK(r.code == 2);
    CHECK(r.out.empty());
    CHECK_FALSE(fs::exists(set.path("manifest.sha256")));
  }
}
