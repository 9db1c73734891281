// tensorboard: the run's metrics and logged values, and pictures of the samples that come in, as
// an event file for TensorBoard.
#include <mutex>

#include "engine/base/message.h"
#include "kernels/files/event_file.h"
#include "nodes/output/output.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;

struct Tensorboard final : Node {
  struct Params : PictureParams {
    std::string log_dir = "tensorboard";
    std::int64_t max_images = 3;
  } p;

  static Spec spec() {
    Spec s("tensorboard",
           "Writes an event file for TensorBoard: every metric of the run under epoch/, every "
           "logged value under batch/, by step, and slices of its samples, the prediction filled "
           "and the label outlined, under its own name.");
    return add_picture_params<Params>(s.in("sample"))
        .param("log_dir", &Params::log_dir,
               "Folder; a relative one stands under the run's folder where there is one.")
        .param("max_images", &Params::max_images, "Volumes drawn an epoch: its first ones.")
        .at_least(0)
        .ordered()
        .lane(LaneKind::io);
  }

  void open(const OpenContext& context) override {
    painter_.emplace(p);
    node_ = context.node;
    if (context.out_dir.empty() && fs::path(p.log_dir).is_relative()) {
      tell("nodes." + node_ + ": no run folder (--out), so no event file is written");
      return;
    }
    folder_ = context.out_dir / p.log_dir;
    first_step_ = context.steps_done > 0 ? static_cast<std::int64_t>(context.steps_done) + 1 : 0;
    step_ = static_cast<std::int64_t>(context.steps_done);
    // TensorBoard drops what a killed run wrote beyond its checkpoint when it sees the next file,
    // which a resumed run with nothing left to train would never write.
    if (first_step_ > 0) file();
  }

  // A run without updates has no steps; its epochs are counted instead.
  void observe(const Observation& o) override {
    if (folder_.empty()) return;
    std::lock_guard lock(mutex_);
    step_ = o.step > 0 ? static_cast<std::int64_t>(o.step) : o.epoch + 1;
    file().scalar((o.of_epoch ? "epoch/" : "batch/") + o.name, o.value, step_);
    if (!o.of_epoch) return;
    if (o.epoch + 1 != epoch_) file().scalar("epoch/number", epoch_ = o.epoch + 1, step_);
    file().flush();
  }

  void process(Firing& f) override {
    if (folder_.empty() || volumes_ >= p.max_images) return;
    for (DrawnVolume& v : painter_->draw(f.in(), p.max_images - volumes_)) {
      ++volumes_;
      for (Slice& s : v.slices)
        drawn_.push_back({s.picture.width, s.picture.height, encode_png(s.picture)});
    }
  }

  void flush(Flush& end) override {
    std::lock_guard lock(mutex_);
    const std::int64_t step = step_ > 0 ? step_ : end.epoch + 1;
    for (std::size_t i = 0; i < drawn_.size(); ++i)
      file().image(node_ + "/" + std::to_string(i), drawn_[i].png, drawn_[i].width,
                   drawn_[i].height, step);
    if (!drawn_.empty()) file().flush();
    drawn_.clear();
    volumes_ = 0;
  }

 private:
  struct Image {
    int width, height;
    std::string png;
  };

  EventFile& file() {  // made with the first event, so that a new run that fails early leaves none
    if (!file_) file_ = std::make_unique<EventFile>(folder_, first_step_);
    return *file_;
  }

  std::optional<Painter> painter_;
  std::string node_;
  fs::path folder_;
  std::int64_t first_step_ = 0;
  std::vector<Image> drawn_;  // of this epoch
  std::int64_t volumes_ = 0;

  std::mutex mutex_;  // what follows; observe() is called from any thread
  std::unique_ptr<EventFile> file_;
  std::int64_t step_ = 0;
  std::uint32_t epoch_ = 0;
};

const Register<Tensorboard> registered;

}  // namespace
}  // namespace sluice
