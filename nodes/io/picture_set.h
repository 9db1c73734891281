// A source of the pictures and classes that files of many hold: of `Images`, made from a folder and
// whether to train, with size(), classes(), and label, image, path and name of the i-th.
#pragma once

#include <ATen/Functions.h>

#include "nodes/io/io.h"

namespace sluice {

template <class Images>
struct PictureSet : Node {
  struct Params : RecordParams<> {
    std::string root, split = "training";
  } p;

  static Spec& add_params(Spec& s, const char* root, const char* split, const char* channels) {
    s.param("root", &Params::root, root)
        .required()
        .param("split", &Params::split, split)
        .choices({"training", "test"});
    return add_record_params<Params>(s, "Only the first n images.")
        .gives("image", Form::image)
        .channels(channels)
        .dtype("float32")
        .gives("label", Form::any)
        .dtype("int64");
  }

  void open(const OpenContext&) override {
    images_ = Images(p.root, p.split == "training");
    size_ = std::min<std::uint64_t>(images_.size(),
                                    p.limit ? static_cast<std::uint64_t>(*p.limit) : UINT64_MAX);
    for (std::int64_t c = 0; c < images_.classes(); ++c)
      classes_.push_back(at::scalar_tensor(c, at::kLong));
  }

  void process(Firing& f) override {
    emit_in_order(f, size_, p.shuffle, [this](std::uint64_t i) { return item_record(i); });
  }

  SamplePtr item_record(std::uint64_t i) const override {
    auto meta = std::make_shared<Meta>();
    meta->path = images_.path(i);
    Sample sample;
    sample.name = images_.name(i);
    sample.set("image", Field(images_.image(i), std::move(meta)));
    sample.set("label", Field(classes_[static_cast<std::size_t>(images_.label(i))],
                              std::make_shared<const Meta>()));
    return std::make_shared<const Sample>(std::move(sample));
  }

  std::optional<std::uint64_t> epoch_size() const override { return size_; }

 private:
  Images images_;
  std::uint64_t size_ = 0;
  std::vector<at::Tensor> classes_;  // shared by all samples of a class
};

}  // namespace sluice
