// preview and tensorboard: what a slice shows, which slices and samples are drawn, what stands in
// the folder. TensorBoard's own reader looks at the event files in tests/cli.
#include <ATen/ATen.h>
#include <doctest/doctest.h>

#include "kernels/files/event_file.h"
#include "kernels/files/overlay.h"
#include "kernels/files/volume.h"
#include "tests/nodes/drive.h"
#include "tests/temporary_folder.h"

using namespace sluice;

namespace {

const Affine plain{2, 0, 0, -10, 0, 2, 0, -20, 0, 0, 2, 5, 0, 0, 0, 1};

Layer layer(at::Tensor t, const Affine& affine = plain) { return {std::move(t), affine, true}; }

// 12 x 10 x 8 with an intensity that differs along every axis.
at::Tensor ramp() { return at::arange(12 * 10 * 8, at::kFloat).view({1, 12, 10, 8}); }

// A box of class `c`, most of it at k = `thickest`.
at::Tensor boxes(std::int64_t thickest, float c = 1) {
  at::Tensor t = at::zeros({1, 12, 10, 8});
  t.slice(1, 4, 8).slice(2, 3, 6).slice(3, 1, 7).fill_(c);
  t.slice(1, 2, 10).slice(2, 2, 8).slice(3, thickest, thickest + 1).fill_(c);
  return t;
}

bool operator==(const Picture& a, const Picture& b) {
  return a.width == b.width && a.height == b.height && a.pixels == b.pixels;
}

SliceStyle small_style() {
  SliceStyle s;
  s.size = 120;  // ten pixels a voxel
  return s;
}

Sample sample(const std::string& name, std::int64_t thickest) {
  Sample s = sample_of("image", ramp(), plain);
  s.name = name;
  s.set("label", Field(boxes(thickest), s.at("image").meta));
  s.set("pred", Field(boxes(thickest).roll(1, 1), s.at("image").meta));
  return s;
}

std::vector<Json> lines(const std::filesystem::path& file) {
  std::ifstream in(file);
  std::vector<Json> all;
  for (std::string line; std::getline(in, line);) all.push_back(Json::parse(line));
  return all;
}

struct Preview {
  TemporaryFolder folder;
  std::unique_ptr<Driver> node;
  explicit Preview(const Json& params = Json::object(), bool resumed = false) {
    open(params, resumed);
  }
  void open(const Json& params, bool resumed) {
    OpenContext context;
    context.out_dir = folder.path;
    context.resumed = resumed;
    node = std::make_unique<Driver>("preview", params, context);
  }
  std::vector<Json> index() const { return lines(folder / "previews/index.jsonl"); }
};

}  // namespace

TEST_CASE("The slice with most foreground is drawn, the label's edge over the prediction's fill") {
  const auto slices = draw_slices(layer(ramp()), layer(boxes(5)), layer(boxes(5)), small_style());
  REQUIRE(slices.size() == 1);
  CHECK(slices[0].position == 5);
  CHECK(slices[0].classes == std::vector<int>{1});
  const Picture& p = slices[0].picture;
  CHECK(p.width == 120);
  CHECK(p.height == 100);
  // Ten pixels a voxel: the box is i 2..9, j 2..7, and j grows upwards.
  CHECK(p.at(20, 50) == class_color(1));
  CHECK(p.at(99, 50) == class_color(1));
  CHECK(p.at(60, 20) == class_color(1));
  CHECK(p.at(60, 79) == class_color(1));
  const Rgb inside = p.at(60, 50), outside = p.at(10, 50);
  CHECK(outside[0] == outside[1]);
  CHECK(outside[1] == outside[2]);
  CHECK(inside[0] > inside[2] + 40);  // the grey below and orange above it
  CHECK(inside != class_color(1));
}

TEST_CASE("Positions spread over the foreground, and nothing but the image gives the middle") {
  SliceStyle style = small_style();
  style.slices = 3;
  std::vector<std::int64_t> at;
  for (const Slice& s : draw_slices(layer(ramp()), layer(boxes(2)), std::nullopt, style))
    at.push_back(s.position);
  CHECK(at == std::vector<std::int64_t>{2, 4});  // 2 once more is left out
  CHECK(draw_slices(layer(ramp()), std::nullopt, std::nullopt, small_style())[0].position == 4);
}

TEST_CASE("Intensities at the window's ends are black and white") {
  SliceStyle style = small_style();
  style.window = {{0, 959}};
  at::Tensor image = at::zeros({1, 12, 10, 8});
  image.slice(1, 6, 12).fill_(959);
  const Picture p = draw_slices(layer(image), std::nullopt, std::nullopt, style)[0].picture;
  CHECK(p.at(5, 50) == Rgb{0, 0, 0});
  CHECK(p.at(110, 50) == Rgb{255, 255, 255});
  style.window = {{0, 1918}};
  CHECK(draw_slices(layer(image), std::nullopt, std::nullopt, style)[0].picture.at(110, 50)[0] ==
        128);
}

TEST_CASE("The same head gives the same picture however its voxels are stored") {
  SliceStyle style = small_style();
  style.window = {{0, 959}};
  const Picture ras = draw_slices(layer(ramp()), layer(boxes(5)), std::nullopt, style)[0].picture;
  // Stored from the other end of x and y, with the affine that says so.
  const Affine lp{-2, 0, 0, 12, 0, -2, 0, -2, 0, 0, 2, 5, 0, 0, 0, 1};
  const Picture turned = draw_slices(layer(ramp().flip({1, 2}), lp),
                                     layer(boxes(5).flip({1, 2}), lp), std::nullopt, style)[0]
                             .picture;
  CHECK(ras == turned);
  // Axes in the order z, x, y: the slices now stand across the first.
  const Affine zxy{0, 2, 0, -10, 0, 0, 2, -20, 2, 0, 0, 5, 0, 0, 0, 1};
  style.axis = 0;
  const auto order = [](const at::Tensor& t) { return t.permute({0, 3, 1, 2}); };
  CHECK(ras ==
        draw_slices(layer(order(ramp()), zxy), layer(order(boxes(5)), zxy), std::nullopt, style)[0]
            .picture);
}

TEST_CASE("A label on a finer grid is drawn where it lies, and one that lies nowhere is refused") {
  // Each voxel cut in two along every axis.
  const at::Tensor fine =
      boxes(5).repeat_interleave(2, 1).repeat_interleave(2, 2).repeat_interleave(2, 3);
  Affine half{1, 0, 0, -10.5, 0, 1, 0, -20.5, 0, 0, 1, 4.5, 0, 0, 0, 1};
  const Picture coarse =
      draw_slices(layer(ramp()), layer(boxes(5)), std::nullopt, small_style())[0].picture;
  // The image's centres lie between two fine voxels of one value, whichever is read.
  CHECK(coarse ==
        draw_slices(layer(ramp()), layer(fine, half), std::nullopt, small_style())[0].picture);
  Layer nowhere{fine, plain, false};
  CHECK(contains(
      message_of([&] { draw_slices(layer(ramp()), nowhere, std::nullopt, small_style()); }),
      "the label is on another grid than the image"));
}

TEST_CASE("Scores are drawn as the class of the largest channel, and pictures without depth too") {
  const at::Tensor map = boxes(5, 2);
  at::Tensor scores = at::zeros({3, 12, 10, 8});
  scores[0].fill_(0.5);
  scores[2].copy_(map[0] / 2);
  CHECK(draw_slices(layer(ramp()), std::nullopt, layer(map), small_style())[0].picture ==
        draw_slices(layer(ramp()), std::nullopt, layer(scores), small_style())[0].picture);
  const auto flat = draw_slices({ramp().select(3, 5), {}, false},
                                Layer{map.select(3, 5), {}, false}, std::nullopt, small_style());
  CHECK(flat[0].picture.width == 120);
  CHECK(flat[0].classes == std::vector<int>{2});
}

TEST_CASE("preview writes an epoch's first volumes at its end and lists them in order") {
  Preview p({{"count", 2}, {"size", 64}});
  for (int epoch : {0, 2}) {
    for (int i = 0; i < 3; ++i)
      p.node->fire({sample(std::string("case_").append(std::to_string(i)), 2 + i)}, at_index(i));
    CHECK(p.index().size() == (epoch == 0 ? 0 : 2));
    p.node->flush(static_cast<std::uint32_t>(epoch));
  }
  const auto index = p.index();
  REQUIRE(index.size() == 4);
  const char* const files[] = {"epoch_00001/case_0_0.png", "epoch_00001/case_1_0.png",
                               "epoch_00003/case_0_0.png", "epoch_00003/case_1_0.png"};
  for (std::size_t i = 0; i < 4; ++i) {
    CHECK(index[i].at("file") == files[i]);
    CHECK(index[i].at("sample") == "case_" + std::to_string(i % 2));
    CHECK(index[i].at("slice") == 2 + i % 2);
    CHECK(index[i].at("colors") == Json({"#e69f00"}));
    const Volume png = read_volume(p.folder / "previews" / files[i]);
    CHECK(png.data.sizes() == at::IntArrayRef({3, 64, 53}));
  }
  p.open({}, true);
  CHECK(p.index().size() == 4);  // goes on
  p.open({}, false);
  CHECK(p.index().empty());  // begins anew
}

TEST_CASE("preview keeps to its interval, names crops of one volume apart and cleans names") {
  Preview p({{"count", 3}, {"interval", 2}, {"prefix", "t-"}, {"size", 32}});
  for (std::uint32_t epoch = 0; epoch < 4; ++epoch) {
    p.node->fire({sample("../a b", 3)}, at_index(0, epoch));
    p.node->fire({sample("../a b", 4)}, at_index(1, epoch));
    p.node->flush(epoch);
  }
  std::vector<std::string> files;
  for (const Json& line : p.index()) files.push_back(line.at("file"));
  CHECK(files ==
        std::vector<std::string>{"epoch_00001/t-.._a_b_0.png", "epoch_00001/t-.._a_b_1.png",
                                 "epoch_00002/t-.._a_b_0.png", "epoch_00002/t-.._a_b_1.png",
                                 "epoch_00004/t-.._a_b_0.png", "epoch_00004/t-.._a_b_1.png"});
}

TEST_CASE("preview draws the members of a batch under their own names") {
  Preview p({{"count", 2}, {"size", 32}});
  std::vector<MetaPtr> meta;
  std::vector<at::Tensor> images, labels;
  for (int i = 0; i < 3; ++i) {
    auto m = std::make_shared<Meta>();
    m->path = "/data/imagesTr/brain_" + std::to_string(i) + ".nii.gz";
    m->affine = plain;
    m->has_affine = true;
    meta.push_back(m);
    images.push_back(ramp());
    labels.push_back(boxes(2 + i));
  }
  Sample s;
  s.name = "brain_0, brain_1, brain_2";
  s.set("image", Field(at::stack(images), meta));
  s.set("label", Field(at::stack(labels), meta));
  p.node->fire({s});
  p.node->flush();
  const auto index = p.index();
  REQUIRE(index.size() == 2);
  for (std::size_t i = 0; i < 2; ++i) {
    CHECK(index[i].at("sample") == "brain_" + std::to_string(i));
    CHECK(index[i].at("slice") == 2 + i);
  }
}

TEST_CASE("Of a classified image the image alone is drawn") {
  const auto classified = [](const at::Tensor& image, const at::Tensor& label,
                             const at::Tensor& pred) {
    Sample s = sample_of("image", image, plain);
    s.name = "a";
    s.set("label", Field(label, s.at("image").meta));
    s.set("pred", Field(pred, s.at("image").meta));
    return s;
  };
  Preview p({{"spatial_dims", 2}, {"size", 32}});
  p.node->fire({classified(at::rand({1, 12, 10}), at::full({}, 2, at::kLong), at::rand({3}))});
  p.node->fire({classified(at::rand({2, 1, 12, 10}), at::ones({2}, at::kLong), at::rand({2, 3}))},
               at_index(1));
  p.node->flush();
  const auto index = p.index();
  REQUIRE(index.size() == 3);
  for (const Json& line : index) CHECK(line.at("colors").empty());
}

TEST_CASE("Without a run folder preview and tensorboard write nothing") {
  TemporaryFolder folder;
  const auto before = std::filesystem::current_path();
  std::filesystem::current_path(folder.path);
  for (const char* type : {"preview", "tensorboard"}) {
    Driver node(type);
    node.node().observe({"step.loss", 1, 1, 0, false});
    node.fire({sample("case", 3)});
    node.flush();
  }
  std::filesystem::current_path(before);
  CHECK(folder.files() == 0);
}

TEST_CASE("crc32c has its known values") {
  CHECK(crc32c("123456789") == 0xE3069283u);  // the polynomial's check value
  CHECK(crc32c("") == 0);
  CHECK(crc32c(std::string(32, '\0')) == 0x8A9136AAu);  // RFC 3720, B.4
  CHECK(crc32c(std::string(32, '\xff')) == 0x62A8AB43u);
}

TEST_CASE("Event files of one folder sort in the order of their making") {
  TemporaryFolder folder;
  std::vector<std::string> names;
  for (int i = 0; i < 3; ++i) {
    EventFile file(folder.path, i);
    file.scalar("a", 1, 1);
  }
  for (const auto& e : std::filesystem::directory_iterator(folder.path))
    names.push_back(e.path().filename());
  CHECK(names.size() == 3);
  CHECK(contains(message_of([&] { EventFile(folder.write_text("file", "x") / "sub", 0); }),
                 "cannot make the folder"));
}
