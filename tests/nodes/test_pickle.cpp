// Pickles operation by operation: what each makes, and how one that makes no sense is refused.
// tests/nodes/test_torch_file.cpp reads whole files.
#include <doctest/doctest.h>

#include "engine/base/error.h"
#include "engine/state/pickle.h"
#include "tests/temporary_folder.h"

using namespace sluice;

namespace {

std::string text(const std::string& s) { return 'U' + std::string(1, char(s.size())) + s; }
std::string integer(int n) { return 'K' + std::string(1, char(n)); }
std::string name(const std::string& module, const std::string& what) {
  return "c" + module + "\n" + what + "\n";
}
std::string tuple(const std::string& items) { return "(" + items + "t"; }
std::string list(const std::string& items) { return "(" + items + "l"; }
std::string call(const std::string& what, const std::string& items) {
  return what + tuple(items) + "R";
}
// Of four floats; `more`: what follows in its description.
std::string store(const std::string& more = "") {
  return tuple(text("storage") + name("torch", "FloatStorage") + text("0") + text("cpu") +
               integer(4) + more) +
         "Q";
}
const std::string tensor = name("torch._utils", "_rebuild_tensor_v2"),
                  parameter = name("torch._utils", "_rebuild_parameter"),
                  size = name("torch", "Size"), ordered = name("collections", "OrderedDict");

std::string why(const std::string& pickle) {
  try {
    Pickle(pickle, "p");
  } catch (const DataError& e) {
    return e.what();
  }
  return "";
}

}  // namespace

TEST_CASE("a pickle's values are those that Python would make") {
  using Kind = Pickled::Kind;
  const std::string values =
      list("N\x88\x89" + text("words") + "J\xfe\xff\xff\xff" + "M\x2c\x01" + "\x8a\x01\xfd" +
           std::string("G\xbf\xf8\0\0\0\0\0\0", 9) + "}" + text("key") + integer(7) + "s");
  const Pickle pickle(values + ".what follows", "p");
  CHECK(pickle.bytes() == values.size() + 1);
  const auto& items = pickle.root().items;
  REQUIRE(items.size() == 9);
  CHECK(items[0]->kind == Kind::none);
  CHECK(items[1]->integer == 1);
  CHECK(items[2]->kind == Kind::boolean);
  CHECK(items[2]->integer == 0);
  CHECK(items[3]->text == "words");
  CHECK(items[4]->integer == -2);
  CHECK(items[5]->integer == 300);
  CHECK(items[6]->integer == -3);
  CHECK(items[7]->real == -1.5);
  REQUIRE(items[8]->find("key"));
  CHECK(items[8]->find("key")->integer == 7);
  CHECK_FALSE(items[8]->find("other"));
  CHECK_FALSE(items[0]->find("key"));
}

TEST_CASE("a pickle keeps, repeats and forgets values") {
  const Pickle pickle(tuple(integer(1) + "q\5" + "0" + "h\5" + "2" + "(" + integer(9) + "1" +
                            integer(2) + "\x94" + "j" + std::string("\1\0\0\0", 4)) +
                          ".",
                      "p");
  std::vector<std::int64_t> numbers;
  for (const Pickled* n : pickle.root().items) numbers.push_back(n->integer);
  CHECK(numbers == std::vector<std::int64_t>{1, 1, 2, 2});
}

TEST_CASE("a tensor of a pickle is its storage, place, size and strides") {
  const Pickle pickle(
      call(parameter,
           call(tensor, store() + integer(1) + call(size, list(integer(3))) + tuple(integer(1)))) +
          ".",
      "p");
  const Pickled& t = pickle.root();
  REQUIRE(t.kind == Pickled::Kind::tensor);
  CHECK(t.integer == 1);
  CHECK(t.size == std::vector<std::int64_t>{3});
  CHECK(t.stride == std::vector<std::int64_t>{1});
  REQUIRE(t.items.size() == 1);
  CHECK(t.items[0]->name == "FloatStorage");
  CHECK(t.items[0]->text == "0");
  CHECK(t.items[0]->integer == 4);
}

TEST_CASE("a pickle that makes no sense is refused by what is wrong with it") {
  const std::string one = tuple(integer(1)), negative = tuple("J\xff\xff\xff\xff");
  const std::pair<std::string, const char*> wrong[] = {
      {"", "ends in the middle of a value"},
      {"U\5abc", "ends in the middle of a value"},
      {"ctorch", "ends in the middle of a name"},
      {".", "takes a value that is not there"},
      {"(0" + integer(1) + "(0a.", "takes a value that is not there"},
      {integer(1) + "(aa.", "takes a value that is not there"},
      {"t.", "ends a list that it did not begin"},
      {"(" + integer(1) + "d.", "a key has no value"},
      {"}(" + integer(1) + "u.", "a key has no value"},
      {integer(1) + integer(2) + "a.", "adds to what is no list or dictionary"},
      {"]" + integer(1) + integer(2) + "s.", "adds to what is no list or dictionary"},
      {"h\5.", "uses a value that it did not keep"},
      {name("os", "system") + ".", "asks for \"os.system\""},
      {name("__builtin__", "eval") + ".", "asks for \"builtins.eval\""},
      {text("os") + text("system") + "\x93.", "asks for \"os.system\""},
      {size + integer(1) + "R.", "calls without a list of arguments"},
      {call(integer(1), "") + ".", "calls what is no function"},
      {tuple(text("storage")) + "Q.", "has a storage that is none"},
      {tuple(text("stores") + name("torch", "FloatStorage") + text("0") + text("cpu") +
             integer(4)) +
           "Q.",
       "has a storage that is none"},
      {store(integer(1)) + ".", "has a storage that is a view of another"},
      {call(tensor, "") + ".", "has a tensor without a storage"},
      {call(tensor, integer(1) + integer(0) + one + one) + ".", "has a tensor without a storage"},
      {call(tensor, store() + integer(0) + integer(1) + one) + ".", "has a tensor of an odd shape"},
      {call(tensor, store() + integer(0) + negative + one) + ".", "has a tensor of an odd shape"},
      {call(tensor, store() + integer(0) + one + tuple("")) + ".", "has a tensor of an odd shape"},
      {call(parameter, "") + ".", "has a parameter without a tensor"},
      {call(parameter, integer(1)) + ".", "has a parameter without a tensor"},
      {call(size, "") + ".", "has an odd size"},
      {call(ordered, integer(1)) + ".", "has an odd dictionary"},
      {call(ordered, list(one)) + ".", "has an odd dictionary"},
      {"\xff", "byte 0: is no pickle, or one of another kind"}};
  for (const auto& [pickle, part] : wrong) {
    CAPTURE(part);
    CHECK_MESSAGE(contains(why(pickle), std::string("p: ") + part), why(pickle));
  }
  CHECK(why(call(ordered, list(tuple(text("a") + integer(1)))) + ".").empty());
}
