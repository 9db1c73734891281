// preview: pictures of what goes in and comes out, so that a person sees how a training is doing.
#include <fstream>
#include <map>
#include <mutex>

#include "engine/base/message.h"
#include "kernels/files/file_io.h"
#include "nodes/output/output.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;

struct Preview final : Node {
  struct Params : PictureParams {
    std::int64_t count = 4, interval = 1;
    std::string prefix;
  } p;

  static Spec spec() {
    Spec s("preview",
           "Writes slices as PNG files, the prediction filled and the label outlined, to "
           "previews/epoch_00001/ in the run's folder, and a line on each to "
           "previews/index.jsonl.");
    return add_picture_params<Params>(s.in("sample"))
        .param("count", &Params::count, "Volumes an epoch: its first ones.")
        .at_least(1)
        .param("interval", &Params::interval, "Every so many epochs, and the first.")
        .at_least(1)
        .param("prefix", &Params::prefix,
               "Put in front of the files' names; several preview nodes need one each.")
        .ordered()
        .lane(LaneKind::io);
  }

  void open(const OpenContext& context) override {
    painter_.emplace(p);
    node_ = context.node;
    if (context.out_dir.empty()) {
      tell("nodes." + node_ + ": no run folder (--out), so no previews are written");
      return;
    }
    folder_ = context.out_dir / "previews";
    std::error_code ignored;
    if (!context.resumed) fs::remove(folder_ / "index.jsonl", ignored);
  }

  void process(Firing& f) override {
    if (folder_.empty()) return;
    const std::int64_t left = p.count - volumes_;
    if (left <= 0) return;
    if (const std::uint32_t epoch = f.stamp().epoch; epoch > 0 && (epoch + 1) % p.interval != 0)
      return;
    for (const DrawnVolume& v : painter_->draw(f.in(), left)) {
      ++volumes_;
      for (const Slice& s : v.slices)
        drawn_.push_back({v.name, encode_png(s.picture), describe(v.name, s)});
    }
  }

  // Here the training epoch is known, and that the turn was whole: one that is cut begins anew.
  void flush(Flush& end) override {
    if (!drawn_.empty()) write(end.epoch + 1);
    drawn_.clear();
    volumes_ = 0;
  }

 private:
  struct File {
    std::string name, png;
    Json about;
  };

  Json describe(const std::string& sample, const Slice& s) const {
    Json colors = Json::array();
    for (int c : s.classes) {
      const Rgb rgb = class_color(c);
      char text[8];
      std::snprintf(text, sizeof text, "#%02x%02x%02x", rgb[0], rgb[1], rgb[2]);
      colors.push_back(text);
    }
    return {{"node", node_},
            {"sample", sample},
            {"axis", p.axis},
            {"slice", s.position},
            {"classes", s.classes},
            {"colors", std::move(colors)},
            {"width", s.picture.width},
            {"height", s.picture.height}};
  }

  // Letters, digits, "_", "-" and dots that do not lead.
  static std::string as_file_name(const std::string& name) {
    std::string out;
    for (char c : name)
      out += std::isalnum(static_cast<unsigned char>(c)) || c == '-' || (c == '.' && !out.empty())
                 ? c
                 : '_';
    return out.substr(0, 120);
  }

  void write(std::uint32_t epoch) {
    char name[32];
    std::snprintf(name, sizeof name, "epoch_%05u", epoch);
    static std::mutex of_all_previews;  // which share the index
    std::lock_guard lock(of_all_previews);
    std::string lines = lines_before(epoch);
    std::map<std::string, int> seen;
    for (const File& file : drawn_) {
      const std::string stem = as_file_name(p.prefix + file.name);
      const std::string path =
          std::string(name) + "/" + stem + "_" + std::to_string(seen[stem]++) + ".png";
      write_text(folder_ / path, file.png);
      Json line = {{"epoch", epoch}, {"file", path}};
      line.update(file.about);
      lines += line.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
    }
    write_text(folder_ / "index.jsonl", lines);
  }

  // What the index says, but for this node's pictures of this epoch and of later ones: a process
  // that was killed drew them, and the turn was repeated after it.
  std::string lines_before(std::uint32_t epoch) const {
    std::string kept;
    std::ifstream in(folder_ / "index.jsonl");
    for (std::string line; std::getline(in, line);) {
      const Json j = Json::parse(line, nullptr, false);
      if (!j.is_object()) continue;  // half a line, of a kill
      if (j.value("node", "") != node_ || j.value("epoch", 0u) < epoch) kept += line + "\n";
    }
    return kept;
  }

  // Whole or not there; a failure is an IoError that names path and cause.
  static void write_text(const fs::path& path, const std::string& text) {
    write_file(path, {{reinterpret_cast<const std::uint8_t*>(text.data()), text.size()}});
  }

  std::optional<Painter> painter_;
  std::string node_;
  fs::path folder_;
  std::vector<File> drawn_;  // of this epoch
  std::int64_t volumes_ = 0;
};

const Register<Preview> registered;

}  // namespace
}  // namespace sluice
