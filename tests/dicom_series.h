// DICOM series for tests, written element by element.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "tests/temporary_folder.h"

namespace sluice::dicom_series {

// One slice, explicit VR, little endian.
struct Slice {
  int number = 0;
  std::string series = "1.2.3.4", frame = "1.2.3.6", position = "",
              orientation = "1\\0\\0\\0\\1\\0", spacing = "2\\1.5", slope = "1", intercept = "0";
  std::uint16_t columns = 5, rows = 4;
  std::string syntax = "1.2.840.10008.1.2.1", photometric = "MONOCHROME2";
  std::uint16_t stored = 16;  // bits of a number
  // An enhanced MR image with these frames, each with its place and rescale, in place of its own.
  struct Frame {
    std::string position, slope = "1";
  };
  std::vector<Frame> frames;

  std::int16_t value(int x, int y, int frame = 0) const {
    return static_cast<std::int16_t>(x + 10 * y + 100 * (number + frame) - 50);
  }
};

class Writer {
 public:
  void text(std::uint16_t group, std::uint16_t element, const char* vr, std::string value) {
    if (value.size() % 2) value.push_back(std::strcmp(vr, "UI") == 0 ? '\0' : ' ');
    head(group, element, vr);
    add16(static_cast<std::uint16_t>(value.size()));
    bytes.insert(bytes.end(), value.begin(), value.end());
  }
  void number(std::uint16_t group, std::uint16_t element, std::uint16_t value) {
    head(group, element, "US");
    add16(2);
    add16(value);
  }
  void words(std::uint16_t group, std::uint16_t element, const char* vr, const Bytes& value) {
    head(group, element, vr);
    add16(0);
    add16(static_cast<std::uint16_t>(value.size()));
    add16(static_cast<std::uint16_t>(value.size() >> 16));
    bytes.insert(bytes.end(), value.begin(), value.end());
  }
  void item(const Writer& content) {
    add16(0xfffe);
    add16(0xe000);
    add16(static_cast<std::uint16_t>(content.bytes.size()));
    add16(static_cast<std::uint16_t>(content.bytes.size() >> 16));
    bytes.insert(bytes.end(), content.bytes.begin(), content.bytes.end());
  }
  // A sequence of one item.
  void group(std::uint16_t group, std::uint16_t element, const Writer& content) {
    Writer items;
    items.item(content);
    words(group, element, "SQ", items.bytes);
  }
  void add16(std::uint16_t v) {
    bytes.push_back(static_cast<std::uint8_t>(v));
    bytes.push_back(static_cast<std::uint8_t>(v >> 8));
  }
  Bytes bytes;

 private:
  void head(std::uint16_t group, std::uint16_t element, const char* vr) {
    add16(group);
    add16(element);
    bytes.insert(bytes.end(), vr, vr + 2);
  }
};

// What an enhanced image says of all its frames, and of each.
inline void add_frames(Writer& w, const Slice& s) {
  Writer shared, orientation, measures, each;
  orientation.text(0x20, 0x37, "DS", s.orientation);
  measures.text(0x28, 0x30, "DS", s.spacing);
  shared.group(0x20, 0x9116, orientation);
  shared.group(0x28, 0x9110, measures);
  w.group(0x5200, 0x9229, shared);
  for (const Slice::Frame& f : s.frames) {
    Writer frame, place, rescale;
    if (f.position != "none") place.text(0x20, 0x32, "DS", f.position);
    rescale.text(0x28, 0x1052, "DS", s.intercept);
    rescale.text(0x28, 0x1053, "DS", f.slope);
    frame.group(0x20, 0x9113, place);
    frame.group(0x28, 0x9145, rescale);
    each.item(frame);
  }
  w.words(0x5200, 0x9230, "SQ", each.bytes);
}

inline Bytes dicom(const Slice& s) {
  const bool enhanced = !s.frames.empty();
  const std::string mr = enhanced ? "1.2.840.10008.5.1.4.1.1.4.1" : "1.2.840.10008.5.1.4.1.1.4";
  const std::string instance = "1.2.3.4.5." + std::to_string(s.number + 1);
  Writer meta, w;
  meta.words(2, 1, "OB", {0, 1});
  meta.text(2, 2, "UI", mr);
  meta.text(2, 3, "UI", instance);
  meta.text(2, 0x10, "UI", s.syntax);
  meta.text(2, 0x12, "UI", "1.2.3");
  w.bytes.assign(128, 0);
  w.bytes.insert(w.bytes.end(), {'D', 'I', 'C', 'M', 2, 0, 0, 0, 'U', 'L', 4, 0});
  w.add16(static_cast<std::uint16_t>(meta.bytes.size()));
  w.add16(0);
  w.bytes.insert(w.bytes.end(), meta.bytes.begin(), meta.bytes.end());
  w.text(8, 0x16, "UI", mr);
  w.text(8, 0x18, "UI", instance);
  w.text(8, 0x60, "CS", "MR");
  w.text(0x10, 0x10, "PN", "Nobody");
  w.text(0x10, 0x20, "LO", "1");
  w.text(0x10, 0x30, "DA", "");
  w.text(0x10, 0x40, "CS", "O");
  w.text(0x20, 0xd, "UI", "1.2.3");
  w.text(0x20, 0xe, "UI", s.series);
  w.text(0x20, 0x13, "IS", std::to_string(s.number + 1));
  const std::string z = std::to_string(3 * s.number);
  if (s.position != "none" && !enhanced)
    w.text(0x20, 0x32, "DS", s.position.empty() ? "10\\-20\\" + z : s.position);
  if (!enhanced) w.text(0x20, 0x37, "DS", s.orientation);
  if (s.frame != "none") w.text(0x20, 0x52, "UI", s.frame);
  w.number(0x28, 2, 1);
  w.text(0x28, 4, "CS", s.photometric);
  if (enhanced) w.text(0x28, 8, "IS", std::to_string(s.frames.size()));
  w.number(0x28, 0x10, s.rows);
  w.number(0x28, 0x11, s.columns);
  if (!enhanced) w.text(0x28, 0x30, "DS", s.spacing);
  w.number(0x28, 0x100, 16);
  w.number(0x28, 0x101, s.stored);
  w.number(0x28, 0x102, static_cast<std::uint16_t>(s.stored - 1));
  w.number(0x28, 0x103, 1);
  if (enhanced) {
    add_frames(w, s);
  } else {
    w.text(0x28, 0x1052, "DS", s.intercept);
    w.text(0x28, 0x1053, "DS", s.slope);
  }
  Writer pixels;
  for (int f = 0; f < std::max(1, static_cast<int>(s.frames.size())); ++f)
    for (int y = 0; y < s.rows; ++y)
      for (int x = 0; x < s.columns; ++x)
        pixels.add16(static_cast<std::uint16_t>(s.value(x, y, f)));
  w.words(0x7fe0, 0x10, "OW", pixels.bytes);
  return w.bytes;
}

struct Series {
  TemporaryFolder folder;
  // Names run against the places.
  std::string name(int i) const { return "s/" + std::to_string(9 - i) + ".dcm"; }
  void write(const Slice& s, const std::string& as = "") const {
    folder.write(as.empty() ? name(s.number) : as, dicom(s));
  }
  explicit Series(int n = 4) {
    for (int i = 0; i < n; ++i) write({.number = i});
  }
};

}  // namespace sluice::dicom_series
