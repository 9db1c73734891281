// Networks of type torchscript: which modules train, what they may answer with, what is refused.
#include <doctest/doctest.h>

#include "tests/cli/npy.h"
#include "tests/cli/tiny_training.h"
#include "tests/text.h"

using nlohmann::json;

namespace {

// Modules of PyTorch, each in a file of its own.
const char* const modules = R"(
import torch
from torch import nn
from typing import List

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.c = nn.Conv3d(1, 2, 1)
    def forward(self, x, twice: bool = False):
        return self.c(x) * (2 if twice else 1)
class Two(Net):
    def forward(self, x, y):
        return self.c(x + y)
class Pair(Net):
    def forward(self, x):
        return self.c(x), 2 * x
class Nested(Net):
    def forward(self, x):
        return self.c(x), [2 * x, (3 * x)]
class Deep(Net):
    def forward(self, x):
        all: List[torch.Tensor] = [self.c(x)]
        for i in range(2, 4):
            all.append(i * x)
        return all
class Named(Net):
    def forward(self, x):
        return {'out': self.c(x), 'aux': 2 * x}
class Lone(Net):
    def forward(self, x):
        return self.c(x), None
class Number(Net):
    def forward(self, x):
        return 3
class Flat(Net):
    def forward(self, x):
        return self.c(x).flatten()

class Tied(nn.Module):
    def __init__(self, tied: bool):
        super().__init__()
        self.a = nn.Conv3d(1, 2, 3, padding=1, bias=False)
        nn.init.constant_(self.a.weight, 0.1)
        self.a.weight.data[1] = -0.2
        self.b = self.a
        if tied:
            self.b = nn.Conv3d(1, 2, 3, padding=1, bias=False)
            self.b.weight = self.a.weight
class Sum(Tied):
    def forward(self, x):
        return self.a(x) + self.b(x)
class Once(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = Tied(False).a
    def forward(self, x):
        return self.a(x) + self.a(x)

class Counts(Net):
    def __init__(self):
        super().__init__()
        self.seen = 0
    def forward(self, x):
        if self.training:
            self.seen = self.seen + 1
        return self.c(x)
class Keeps(nn.Module):
    def __init__(self):
        super().__init__()
        self.w = torch.ones(1)
        self.sizes = [1]
    def forward(self, x):
        self.w.mul_(1.5)
        return x * self.w
class Within(Net):
    def __init__(self):
        super().__init__()
        self.inner = Keeps()
    def forward(self, x):
        return self.c(self.inner(x))
class Listed(Net):
    def __init__(self):
        super().__init__()
        self.sizes = [1]
    def forward(self, x):
        self.sizes.append(x.shape[0])
        return self.c(x)
class Buffer(Net):
    def __init__(self):
        super().__init__()
        self.register_buffer('seen', torch.zeros(()))
        self.kept = 3
    def forward(self, x):
        if self.training:
            self.seen = self.seen + 1
        return self.c(x) * (1 + self.seen)

class Frozen(nn.Module):
    def __init__(self, all: bool):
        super().__init__()
        self.enc = nn.Conv3d(1, 4, 1)
        self.head = nn.Conv3d(4, 2, 1)
        nn.init.constant_(self.enc.weight, 0.25)
        self.enc.requires_grad_(False)
        if all:
            self.head.requires_grad_(False)
    def forward(self, x):
        return self.head(torch.relu(self.enc(x)))

torch.manual_seed(0)
for module in (Net, Two, Pair, Nested, Deep, Named, Lone, Number, Flat, Counts, Within, Listed,
               Buffer, Once):
    torch.jit.script(module()).save(module.__name__.lower() + '.pt')
torch.jit.script(nn.MaxPool1d(2)).save('signal.pt')
torch.jit.script(Sum(True)).save('tied.pt')
torch.save(Sum(True).state_dict(), 'names.pt')
torch.jit.script(Frozen(False)).save('frozen.pt')
torch.jit.script(Frozen(True)).save('ice.pt')
)";

struct Scripted : TinyTraining {
  bool there;  // PyTorch
  Scripted() {
    folder.write("modules.py", modules);
    const auto made = shell::run(in_folder + SLUICE_PYTHON " modules.py");
    there = made.code == 0;
    if (!there) MESSAGE("skipped: " << made.err);
  }
  shell::Result train(const std::string& file, const std::string& more, int channels = 2) const {
    return run("--set 'models.net={\"type\":\"torchscript\",\"file\":\"" + file +
               "\",\"spatial_dims\":3,\"in_channels\":1,\"out_channels\":" +
               std::to_string(channels) + "}' " + more);
  }
  std::string trained(const std::string& file, const std::string& out,
                      const std::string& more = "") const {
    const auto r = train(file, more + " --out " + out);
    CHECK_MESSAGE(r.code == 0, r.err);
    return weights(out);
  }
  // Of a run that was cut behind its first epoch and gone on with.
  std::string resumed(const std::string& file) const {
    trained(file, "cut", "--overwrite --set run.epochs=1");
    const auto r = train(file, "--resume cut");
    CHECK_MESSAGE(r.code == 0, r.err);
    return weights("cut");
  }
  std::string refused(const std::string& file, const std::string& more = "",
                      int channels = 2) const {
    const auto r = train(file, more + " --no-out", channels);
    CHECK(r.code == 2);
    return r.err;
  }
  // Of the image 1 to 8, in [1, 1, 2, 2, 2].
  shell::Result apply(const std::string& file, const std::string& more) const {
    npy::write(folder.path / "x.npy", {{1, 1, 2, 2, 2}, {1, 2, 3, 4, 5, 6, 7, 8}});
    return shell::run(in_folder + "$SLUICE apply torchscript --param file=" + file +
                      " spatial_dims=3 in_channels=1 out_channels=2 --in image=x.npy " + more);
  }
};

const std::vector<float> doubled{2, 4, 6, 8, 10, 12, 14, 16}, tripled{3, 6, 9, 12, 15, 18, 21, 24};

}  // namespace

TEST_CASE("a TorchScript module trains, and a resume ends with its bits, dropout and all") {
  const TinyTraining t;
  const auto run = [&](const std::string& more) {
    const auto r = t.run("--set 'models.net={\"type\":\"torchscript\",\"file\":\"" SLUICE_SOURCE_DIR
                         "/tests/golden/weights/"
                         "script.pt\",\"spatial_dims\":3,\"in_channels\":1,\"out_channels\":2}' " +
                         more);
    CHECK_MESSAGE(r.code == 0, r.err);
  };
  run("--out whole");
  run("--set run.epochs=1 --out cut");
  CHECK(t.weights("cut") != t.weights("whole"));
  run("--resume cut");
  CHECK(t.weights("cut") == t.weights("whole"));
  const auto names = shell::run(t.in_folder + "$SLUICE weights whole");
  CHECK(contains(names.out, "net.0.weight  float32 [4, 1, 3, 3, 3]"));
  const auto refused = t.run(
      "--set 'models.net={\"type\":\"torchscript\",\"file\":\"" SLUICE_SOURCE_DIR
      "/tests/golden/weights/state.pt\",\"spatial_dims\":3,\"in_channels\":1,\"out_channels\":2}'");
  CHECK(refused.code == 3);
  CHECK(contains(refused.err, "state.pt: is no TorchScript module"));
}

TEST_CASE("a TorchScript module may take more with defaults, but no second input, or signals") {
  const Scripted s;
  if (!s.there) return;
  const auto one = s.train("net.pt", "--no-out");
  CHECK_MESSAGE(one.code == 0, one.err);
  CHECK(contains(s.refused("two.pt"), "two.pt: its forward takes 2 inputs; one image is given"));
  npy::write(s.folder.path / "s.npy", {{1, 1, 4}, {1, 5, 2, 3}});
  const auto signal = shell::run(s.in_folder +
                                 "$SLUICE apply torchscript --param file=signal.pt spatial_dims=1 "
                                 "in_channels=1 out_channels=1 --in image=s.npy --out pred=p.npy");
  CHECK_MESSAGE(signal.code == 0, signal.err);
  CHECK(npy::read(s.folder.path / "p.npy") == std::vector<float>{5, 3});
}

TEST_CASE("a TorchScript module answers with a tensor, or with several in tuples, lists, dicts") {
  const Scripted s;
  if (!s.there) return;
  const auto second = [&](const std::string& file, const std::string& key) {
    const auto r = s.apply(file, "--out " + key + "=y.npy");
    CHECK_MESSAGE(r.code == 0, r.err);
    return npy::read(s.folder.path / "y.npy");
  };
  for (const std::string file : {"pair.pt", "nested.pt", "deep.pt", "named.pt"}) {
    CAPTURE(file);
    CHECK(second(file, "pred_1") == doubled);
    const auto shown = s.apply(file, "");
    CHECK_MESSAGE(shown.code == 0, shown.err);
  }
  CHECK(second("nested.pt", "pred_2") == tripled);
  CHECK(second("deep.pt", "pred_2") == tripled);
  const std::string two = "--set '+nodes.fwd.output_keys=[\"pred\",\"aux\"]'";
  const auto trained = s.train("deep.pt", "--no-out " + two);
  CHECK_MESSAGE(trained.code == 0, trained.err);
  CHECK(contains(s.refused("named.pt", "--set '+nodes.fwd.output_keys=[\"pred\",\"b\",\"c\"]'"),
                 "named.pt: its forward answers with 2 tensors, and 3 are asked for"));
  CHECK(
      contains(s.refused("lone.pt", two),
               "lone.pt: its forward answers with 1 tensor before a value of type NoneType, and 2 "
               "are asked for"));
  CHECK(s.train("lone.pt", "--no-out").code == 0);
  CHECK(contains(s.refused("number.pt"), "0 tensors before a value of type int, and 1 are asked"));
}

TEST_CASE("a TorchScript module has as many channels as out_channels says") {
  const Scripted s;
  if (!s.there) return;
  CHECK(contains(s.refused("net.pt", "", 3),
                 "net.pt has 2 channels in its output, out_channels is 3"));
  CHECK(contains(s.refused("flat.pt"), "has no channels; [N, C, ...] is expected"));
}

TEST_CASE("tied weights of a TorchScript module are one tensor, whatever names it has") {
  const Scripted s;
  if (!s.there) return;
  const std::string tied = s.trained("tied.pt", "tied");
  CHECK(tied == s.trained("once.pt", "once"));
  const std::string sharded = "--set +run.shards=2 --processes 2";
  CHECK(s.trained("tied.pt", "tied2", sharded) == s.trained("once.pt", "once2", sharded));
  CHECK(tied == s.resumed("tied.pt"));
  // A file of both names.
  const auto named = shell::run(
      s.in_folder +
      "$SLUICE run g.json --set 'models.net={\"type\":\"torchscript\",\"file\":\"tied.pt\","
      "\"spatial_dims\":3,\"in_channels\":1,\"out_channels\":2,\"weights\":\"names.pt\"}' --out n");
  CHECK_MESSAGE(named.code == 0, named.err);
  CHECK_FALSE(contains(named.err, "no place for"));
  CHECK(s.weights("n") == tied);
}

TEST_CASE("a TorchScript module that keeps what no checkpoint holds cannot be trained") {
  const Scripted s;
  if (!s.there) return;
  CHECK(contains(s.refused("counts.pt"),
                 "counts.pt: its forward changes the attribute \"seen\", which is neither a "
                 "parameter nor a buffer, so no checkpoint holds it"));
  CHECK(contains(s.refused("within.pt"), "the attribute \"inner.w\""));
  CHECK(contains(s.refused("listed.pt"), "the attribute \"sizes\""));
  const auto asked = s.apply("within.pt", "");
  CHECK_MESSAGE(asked.code == 0, asked.err);
  CHECK(contains(asked.err, "its answers may depend on what it was asked before"));
  const std::string whole = s.trained("buffer.pt", "whole");
  CHECK(whole == s.resumed("buffer.pt"));
}

TEST_CASE("parameters of a TorchScript module that need no gradient stay as they are") {
  const Scripted s;
  if (!s.there) return;
  s.trained("frozen.pt", "one");
  const auto list = [&](const std::string& run) {
    return shell::run(s.in_folder + "$SLUICE weights " + run).out;
  };
  CHECK(contains(list("one"), "net.enc.weight  float32 [4, 1, 1, 1, 1]  sum 1\n"));
  CHECK(s.weights("one") != s.trained("frozen.pt", "still", "--set nodes.step.lr=0"));
  CHECK(s.weights("one") == s.trained("frozen.pt", "group",
                                      "--set '+nodes.step.groups=[{\"match\":"
                                      "\"enc\",\"lr\":9}]'"));
  const std::string shards = "--set +run.shards=2 --threads 1 ";
  const std::string sharded = s.trained("frozen.pt", "shards", shards);
  for (const std::string more :
       {"", "--set +run.shard_optimizer=true", "--set +run.bucket_mb=0.00001"})
    CHECK(sharded == s.trained("frozen.pt", "two", "--overwrite --processes 2 " + shards + more));
  CHECK(contains(list("two"), "net.enc.weight  float32 [4, 1, 1, 1, 1]  sum 1\n"));
  CHECK(s.weights("one") == s.resumed("frozen.pt"));
  CHECK(contains(s.refused("ice.pt"),
                 "network \"net\" has no weights to train: none of its file's "
                 "needs a gradient (requires_grad)"));
}

TEST_CASE("what exports networks says what to do with a TorchScript module instead") {
  const TinyTraining t;
  const auto run = t.run(
      "--set run.epochs=1 --set 'models.net={\"type\":\"torchscript\",\"file\":\"" SLUICE_SOURCE_DIR
      "/tests/golden/weights/script.pt\",\"spatial_dims\":3,\"in_channels\":1,\"out_channels\":2}' "
      "--out a");
  REQUIRE_MESSAGE(run.code == 0, run.err);
  const auto r = shell::run(t.in_folder + "$SLUICE export a -o m.onnx");
  CHECK(r.code == 2);
  CHECK(contains(r.err, "`sluice weights RUN --strip-prefix net. -o FILE.safetensors`"));
  CHECK(contains(r.err, "torch.onnx.export()"));
}
