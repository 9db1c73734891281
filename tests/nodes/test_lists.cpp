// Sources of lists: idx, csv_list, file_patterns, and cross-validation folds.
#include <ATen/ATen.h>
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "engine/base/error.h"
#include "kernels/files/gzip.h"
#include "kernels/lists/data_list.h"
#include "tests/gzipped.h"
#include "tests/nodes/drive.h"
#include "tests/temporary_folder.h"

using namespace sluice;

namespace {

std::vector<Sample> samples_of(Driver& source) {
  std::vector<Sample> all;
  for (std::uint64_t i = 0;; ++i) {
    const Fired fired = source.fire({}, at_index(i));
    if (fired.ended) return all;
    all.push_back(*fired.outs.at(0).sample);
  }
}

std::vector<std::string> names(const std::vector<Sample>& samples) {
  std::vector<std::string> all;
  for (const Sample& s : samples) all.push_back(s.name);
  return all;
}

// An IDX file of bytes.
Bytes idx(std::vector<std::uint8_t> dims, std::size_t bytes) {
  Bytes b{0, 0, 8, static_cast<std::uint8_t>(dims.size())};
  for (const std::uint8_t n : dims) b.insert(b.end(), {0, 0, 0, n});
  for (std::size_t i = 0; i < bytes; ++i) b.push_back(static_cast<std::uint8_t>(i % 7));
  return b;
}

}  // namespace

TEST_CASE("idx reads images and labels, plain and compressed, and refuses halves") {
  TemporaryFolder folder;
  folder.write("train-images-idx3-ubyte.gz", gzipped(idx({5, 3, 4}, 60)));
  folder.write("train-labels-idx1-ubyte", idx({5}, 5));
  const std::string root = folder.path.string();
  Driver source("idx", {{"root", root}});
  CHECK(source.node().epoch_size() == 5);
  const auto all = samples_of(source);
  CHECK(all[4].name == "train-images-idx3-ubyte:4");
  CHECK(all[4].tensor("label").item<int>() == 4);
  CHECK(all[1].tensor("image").sizes() == at::IntArrayRef({1, 3, 4}));
  CHECK(all[1].tensor("image")[0][2][1].item<float>() == ((12 + 9) % 7) / 255.f);
  const auto why = [&](const std::string& split = "training") {
    return message_of([&] { Driver("idx", {{"root", root}, {"split", split}}); });
  };
  CHECK(contains(why("test"), "t10k-images-idx3-ubyte: no such file"));
  folder.write("train-labels-idx1-ubyte", idx({4}, 4));
  CHECK(contains(why(), "has 4 labels for 5 images"));
  folder.write("train-labels-idx1-ubyte", idx({5}, 4));
  CHECK(contains(why(), "ends early (expected 13 bytes, got 12)"));
  const Bytes packed = gzipped(idx({5, 3, 4}, 60));
  folder.write("train-images-idx3-ubyte.gz", Bytes(packed.begin(), packed.end() - 9));
  CHECK(contains(why(), "train-images-idx3-ubyte.gz: "));
  folder.write("train-images-idx3-ubyte.gz", gzipped(idx({5, 12}, 60)));
  CHECK(contains(why(), "with 3 axes"));
}

TEST_CASE("Fashion-MNIST of Debian's package has 70,000 images, as many of each of ten classes") {
  const std::string root = "/usr/share/datasets/fashion-mnist";
  if (!std::filesystem::exists(root)) {
    MESSAGE("skipped: dataset-fashion-mnist is not installed");
    return;
  }
  // 0.2860 and 0.3530 are the training images' mean and deviation as everybody normalises by.
  const std::vector<std::pair<std::string, std::int64_t>> splits{{"training", 6'000},
                                                                 {"test", 1'000}};
  for (const auto& [split, of_each] : splits) {
    CAPTURE(split);
    Driver source("idx", {{"root", root}, {"split", split}});
    REQUIRE(source.node().epoch_size() == static_cast<std::uint64_t>(10 * of_each));
    std::vector<std::int64_t> histogram(10);
    std::int64_t odd = 0;
    double sum = 0, squares = 0;
    for (std::uint64_t i = 0; i < static_cast<std::uint64_t>(10 * of_each); ++i) {
      const Sample sample = source.fire({}, at_index(i)).samples().at(0);
      const at::Tensor& image = sample.tensor("image");
      odd += image.sizes() != at::IntArrayRef({1, 28, 28}) || image.scalar_type() != at::kFloat;
      ++histogram.at(static_cast<std::size_t>(sample.tensor("label").item<std::int64_t>()));
      for (const float *v = image.const_data_ptr<float>(), *end = v + 784; v < end; ++v) {
        sum += *v;
        squares += double(*v) * *v;
      }
    }
    CHECK(odd == 0);
    CHECK(histogram == std::vector<std::int64_t>(10, of_each));
    if (split != "training") continue;
    const double pixels = 784.0 * 10 * double(of_each), mean = sum / pixels;
    CHECK(mean == doctest::Approx(0.2860).epsilon(1e-3));
    CHECK(std::sqrt(squares / pixels - mean * mean) == doctest::Approx(0.3530).epsilon(1e-3));
    CHECK(source.fire({}).samples().at(0).tensor("label").item<int>() == 9);  // an ankle boot
  }
}

TEST_CASE("csv_list gives paths and numbers by column, in quotes or not") {
  TemporaryFolder folder;
  folder.write_text("list.csv",
                    "\xef\xbb\xbfname,image,class,weight\r\n"
                    "a,x/a.nii.gz,3,0.5\r\n"
                    "\"b, or \"\"c\"\"\nd\",\"x/b,1.nii.gz\",4,2\r\n\r\n");
  Driver source("csv_list",
                {{"file", (folder / "list.csv").string()}, {"values", {"class", "weight"}}});
  const auto all = samples_of(source);
  REQUIRE(all.size() == 2);
  CHECK(all[0].at("image").geometry().path == (folder / "x/a.nii.gz").string());
  CHECK(all[1].at("image").geometry().path == (folder / "x/b,1.nii.gz").string());
  CHECK(all[1].name == "b,1");
  CHECK(all[1].tensor("class").equal(at::scalar_tensor(4, at::kLong)));
  CHECK(all[0].tensor("weight").equal(at::scalar_tensor(0.5, at::kFloat)));
  const auto why = [&](const std::string& text, Json more = Json::object()) {
    more["file"] = folder.write_text("bad.csv", text).string();
    return message_of([&] { Driver("csv_list", more); });
  };
  CHECK(contains(why("image,b,image\n1,2,3\n"), "bad.csv:1: two columns are called \"image\""));
  CHECK(contains(why("img,b\n1,2\n"), "bad.csv:1: there is no column \"image\"; there are img, b"));
  CHECK(contains(why("image,b\na,2\nb\n"), "bad.csv:3: has 1 fields, the first line has 2"));
  CHECK(contains(why("image,b\na,x\n", {{"values", "b"}}), "bad.csv:2: \"x\" is no number"));
  CHECK(contains(why("image,b\n\"a\n\n,x\n"), "a quote is not closed"));
  CHECK(contains(why("image,b\n\"a\"c,x\n"), "bad.csv:2: something stands behind"));
  CHECK(contains(why("image,b\n,x\n"), "bad.csv:2: the field \"image\" is empty"));
  CHECK(contains(why("image\n"), "has no rows"));
  CHECK(contains(why("image\na\n", {{"keys", Json::array()}}), "keys"));
  CHECK(contains(why("image,b\na,1\n", {{"columns", {{"imag", "b"}}}}),
                 "columns.imag: there is no such field"));
  CHECK(contains(why("image,b\na,\n", {{"values", "b"}}),
                 "bad.csv:2: \"\" is no number; \"defaults\" gives empty fields one"));
  CHECK(contains(why("image,b\na,1 2\n", {{"values", "b"}}), "\"1 2\" is no number"));
  CHECK(contains(why("image,b\na,\n", {{"values", "b"}, {"defaults", {{"c", 0}}}}),
                 "defaults.c: there is no such field"));
  CHECK(contains(why("image,b\na,\n", {{"values", "b"}, {"defaults", {{"b", "0"}}}}),
                 "defaults.b is no number"));
}

TEST_CASE("csv_list's numbers may stand between blanks, and empty fields have a default") {
  TemporaryFolder folder;
  const std::string file =
      folder.write_text("list.csv", "image,age,x,y\na, 61,+1.5,\nb,, ,2\t\n").string();
  Driver source("csv_list", {{"file", file},
                             {"values", "age"},
                             {"groups", {{"at", {"x", "y"}}}},
                             {"defaults", {{"age", -1}, {"at", 0.5}}}});
  const auto all = samples_of(source);
  REQUIRE(all.size() == 2);
  CHECK(all[0].tensor("age").equal(at::scalar_tensor(61, at::kLong)));
  CHECK(all[1].tensor("age").equal(at::scalar_tensor(-1, at::kLong)));
  CHECK(all[0].tensor("at").equal(at::tensor({1.5f, 0.5f})));
  CHECK(all[1].tensor("at").equal(at::tensor({0.5f, 2.f})));
}

TEST_CASE("csv_list keeps whole numbers of 64 bits, and reads lines that a return alone ends") {
  TemporaryFolder folder;
  Driver source("csv_list",
                {{"file", folder
                              .write_text("l.csv",
                                          "image,id,large,far\ra.nii,9007199254740993,+7,1\r"
                                          "b.nii,-9223372036854775808,9e2,1e300\r")
                              .string()},
                 {"values", {"id", "large", "far"}}});
  const auto all = samples_of(source);
  REQUIRE(all.size() == 2);
  CHECK((all[0].tensor("id").scalar_type() == at::kLong));
  CHECK(all[0].tensor("id").item<std::int64_t>() == 9007199254740993);
  CHECK(all[1].tensor("id").item<std::int64_t>() == std::numeric_limits<std::int64_t>::min());
  CHECK(all[0].tensor("large").item<std::int64_t>() == 7);
  CHECK(all[1].tensor("large").item<std::int64_t>() == 900);
  CHECK((all[0].tensor("far").scalar_type() == at::kFloat));
  const auto bad = folder.write_text("bad.csv", "image,b\ra,1\rb,x\r").string();
  CHECK(contains(message_of([&] {
                   Driver("csv_list", {{"file", bad}, {"values", "b"}});
                 }),
                 "bad.csv:3: \"x\" is no number"));
  // A default is as exact.
  Driver with_default("csv_list", {{"file", folder.write_text("d.csv", "image,id\na,\n").string()},
                                   {"values", "id"},
                                   {"defaults", {{"id", 9007199254740993}}}});
  CHECK(samples_of(with_default).at(0).tensor("id").item<std::int64_t>() == 9007199254740993);
}

TEST_CASE("csv_list numbers the texts of a column by their place in a list") {
  TemporaryFolder folder;
  const auto file = [&](const std::string& text) {
    return folder.write_text("l.csv", text).string();
  };
  const Json params{{"values", "rhythm"},
                    {"groups", {{"found", {"mass", "line"}}}},
                    {"defaults", {{"found", -1}}},
                    {"classes", {{"rhythm", {"sinus", "brady"}}, {"found", {"no", "yes"}}}}};
  const auto with = [&](const std::string& rows, Json more = Json::object()) {
    Json all = params;
    all.update(more);
    all["file"] = file("image,rhythm,mass,line\n" + rows);
    return all;
  };
  Driver source("csv_list", with("a,brady,yes,\nb, sinus ,no,yes\n"));
  const auto all = samples_of(source);
  REQUIRE(all.size() == 2);
  CHECK(all[0].tensor("rhythm").equal(at::scalar_tensor(1, at::kLong)));
  CHECK(all[1].tensor("rhythm").equal(at::scalar_tensor(0, at::kLong)));
  CHECK(all[0].tensor("found").equal(at::tensor({1, -1}, at::kLong)));
  CHECK(all[1].tensor("found").equal(at::tensor({0, 1}, at::kLong)));
  const auto why = [&](const Json& given) {
    return message_of([&] { Driver("csv_list", given); });
  };
  CHECK(contains(why(with("a,Sinus,no,no\n")),
                 "l.csv:2: \"Sinus\" is none of the classes sinus, brady"));
  CHECK(contains(why(with("a,,no,no\n")), "l.csv:2: \"\" is none of the classes sinus, brady"));
  CHECK(contains(why(with("a,sinus,no,no\n", {{"classes", {{"rhythm", "sinus"}}}})),
                 "classes.rhythm is no list of texts"));
  CHECK(contains(why(with("a,sinus,no,no\n", {{"classes", {{"sex", {"F", "M"}}}}})),
                 "classes.sex: there is no such field"));
  CHECK(contains(why(with("a,sinus,no,no\n", {{"classes", nullptr}})),
                 "\"sinus\" is no number; \"classes\" numbers texts"));
}

TEST_CASE("csv_list reads files of other delimiters, and folds that the rows themselves say") {
  TemporaryFolder folder;
  std::string text = "image\tage\tfold\n";
  for (int i = 0; i < 5; ++i)
    text +=
        std::to_string(i) + ",x.nii\t" + std::to_string(i) + "\t " + std::to_string(i % 3) + "\n";
  text += "\"n\tm.nii\"\t5\t\n";
  const std::string file = folder.write_text("list.tsv", text).string();
  const auto part = [&](const Json& more) {
    Json all = {{"file", file}, {"delimiter", "\t"}, {"values", "age"}, {"fold_column", "fold"}};
    all.update(more);
    Driver source("csv_list", all);
    std::string ages;
    for (const Sample& s : samples_of(source))
      ages += std::to_string(s.tensor("age").item<std::int64_t>());
    return ages;
  };
  CHECK(part({{"fold", 1}}) == "0235");
  CHECK(part({{"fold", 1}, {"split", "validation"}}) == "14");
  CHECK(part(Json::object()) == "012345");
  CHECK(part({{"fold", 1}, {"fold_column", 2}}) == "0235");
  Driver semicolons("csv_list",
                    {{"file", folder.write_text("l.csv", "image;age\na,b.nii;1,5\n").string()},
                     {"delimiter", ";"}});
  CHECK(samples_of(semicolons).at(0).at("image").geometry().path == (folder / "a,b.nii").string());
  const auto why = [&](const Json& more) { return message_of([&] { part(more); }); };
  CHECK(contains(why({{"split", "validation"}}), "without a fold"));
  CHECK(contains(why({{"fold", 3}}), "list.tsv: no sample has the \"fold\" 3"));
  CHECK(contains(why({{"fold_column", "image"}}), "list.tsv:2: \"0,x.nii\" is no number"));
  CHECK(contains(why({{"fold_column", "part"}}), "there is no column \"part\""));
  for (const char* delimiter : {"", ";;", "\"", "\n"})
    CHECK(contains(why({{"delimiter", delimiter}}), "delimiter: expected one character"));
}

TEST_CASE("file_patterns puts together what the stars stand for, and says what is alone") {
  TemporaryFolder folder;
  for (const char* name :
       {"c/t1.nii", "a/t1.nii", "b/t1.nii", "a/seg.nii", "b/seg.nii", "c/seg.nii", "a/other.txt"})
    folder.write_text(name, "x");
  const Json patterns{{"image", "*/t1.nii"}, {"label", "*/seg.nii"}};
  const auto list = [&](const Json& given) {
    return samples_of(*std::make_unique<Driver>(
        "file_patterns", Json{{"root", folder.path.string()}, {"patterns", given}}));
  };
  const auto all = list(patterns);
  CHECK(names(all) == std::vector<std::string>{"a", "b", "c"});
  CHECK(all[1].at("label").geometry().path == (folder / "b/seg.nii").string());
  CHECK(names(list({{"image", "*/"}})) == std::vector<std::string>{"a", "b", "c"});
  CHECK(names(list({{"image", "?/*.nii"}})).size() == 6);
  const auto why = [&](const Json& given) { return message_of([&] { list(given); }); };
  CHECK(contains(why({{"image", "*/t2.nii"}}), "no file matches \"*/t2.nii\""));
  CHECK(contains(why({{"image", "a/t1.nii"}}), "a pattern with a *"));
  folder.write_text("d/t1.nii", "x");
  CHECK(contains(why(patterns), "nothing matches \"*/seg.nii\" for \"d\""));
  std::filesystem::remove(folder / "d/t1.nii");
  folder.write_text("e/seg.nii", "x");
  CHECK(contains(why(patterns), "nothing matches the other patterns for \"e\""));
  // Either ending of NIfTI, which is no part of the name.
  for (const char* name : {"n/x_t1.nii", "n/x_b.nii.gz", "n/y_t1.nii.gz", "n/y_b.nii.gz"})
    folder.write_text(name, "x");
  CHECK(names(list({{"t1", "n/*_t1.nii*"}, {"b", "n/*_b.nii*"}})) ==
        std::vector<std::string>{"x", "y"});
}

TEST_CASE("file_patterns goes through links to folders, and sees nothing that is hidden") {
  TemporaryFolder folder;
  for (const char* name : {"far/a/t1.nii", "near/b/t1.nii", "near/b/._t1.nii", "near/.c/t1.nii"})
    folder.write_text(name, "x");
  std::filesystem::create_directory_symlink("../far/a", folder / "near/a");
  std::filesystem::create_directory_symlink("..", folder / "near/up");
  std::filesystem::create_symlink("nowhere", folder / "near/broken");
  const auto found = [&](const std::string& pattern) {
    Driver source("file_patterns",
                  {{"root", (folder / "near").string()}, {"patterns", {{"image", pattern}}}});
    return names(samples_of(source));
  };
  using Names = std::vector<std::string>;
  CHECK(found("*/t1.nii") == Names{"a", "b"});
  CHECK(found("*/*.nii") == Names{"a_t1", "b_t1"});  // as Python's glob; not macOS's "._t1.nii"
}

TEST_CASE("Folds are scikit-learn's KFold with a seed, and every item is held out once") {
  // KFold(3, shuffle=True, random_state=7) of 10: numpy's RandomState(7).shuffle.
  const std::vector<std::vector<std::size_t>> expected{{0, 2, 5, 8}, {1, 7, 9}, {3, 4, 6}};
  for (std::int64_t k = 0; k < 3; ++k) {
    std::vector<std::size_t> held;
    const auto in = held_out(10, {"validation", k, 3, 7});
    for (std::size_t i = 0; i < in.size(); ++i)
      if (in[i]) held.push_back(i);
    CHECK(held == expected[static_cast<std::size_t>(k)]);
  }
  TemporaryFolder folder;
  std::string text = "image\n";
  for (int i = 0; i < 10; ++i) text += std::to_string(i) + ".nii\n";
  const std::string file = folder.write_text("list.csv", text).string();
  const auto part = [&](const std::string& split, std::int64_t fold) {
    Driver d("csv_list",
             {{"file", file}, {"split", split}, {"fold", fold}, {"folds", 3}, {"seed", 7}});
    return names(samples_of(d));
  };
  CHECK(part("validation", 1) == std::vector<std::string>{"1", "7", "9"});
  CHECK(part("training", 1) == std::vector<std::string>{"0", "2", "3", "4", "5", "6", "8"});
  CHECK(part("training", -1).size() == 10);
  CHECK(contains(message_of([&] { part("validation", -1); }), "without a fold"));
  CHECK(contains(message_of([&] { part("validation", 3); }), "fold 3 of 3 folds of 10 cases"));
}

TEST_CASE("decathlon folds its training list, and holds out every item of it once") {
  TemporaryFolder folder;
  std::string items;
  for (int i = 0; i < 10; ++i)
    items.append(i ? ", " : "")
        .append("{\"image\": \"")
        .append(std::to_string(i))
        .append(".nii\"}");
  folder.write_text("dataset.json", "{\"training\": [" + items +
                                        "], \"validation\": [\"v.nii\"], \"test\": [\"t.nii\"]}");
  const auto part = [&](const std::string& split, std::int64_t fold, Json more = Json::object()) {
    more.update({{"root", folder.path.string()}, {"split", split}, {"fold", fold}, {"folds", 3}});
    Driver d("decathlon", more);
    return names(samples_of(d));
  };
  const Json seven{{"seed", 7}};
  CHECK(part("validation", 1, seven) == std::vector<std::string>{"1", "7", "9"});
  CHECK(part("training", 1, seven) == std::vector<std::string>{"0", "2", "3", "4", "5", "6", "8"});
  std::vector<std::string> held;
  for (std::int64_t k = 0; k < 3; ++k)
    for (const auto& name : part("validation", k)) held.push_back(name);
  std::sort(held.begin(), held.end());
  CHECK(held == std::vector<std::string>{"0", "1", "2", "3", "4", "5", "6", "7", "8", "9"});
  CHECK(part("validation", 0) != part("validation", 0, seven));
  CHECK(part("test", 1) == std::vector<std::string>{"t"});
  CHECK(part("validation", -1) == std::vector<std::string>{"v"});
  const auto why = [&](std::int64_t fold, const Json& more = Json::object()) {
    return message_of([&] { part("training", fold, more); });
  };
  CHECK(contains(why(3), "fold 3 of 3 folds of 10 cases"));
  CHECK(contains(why(1, {{"val_frac", 0.2}}), "either fold or val_frac"));
}
