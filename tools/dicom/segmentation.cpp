// A DICOM segmentation object (PS3.3, A.51) of labels on a series' grid, by DCMTK's dcmseg: one
// segment a label, one frame for each slice of it that is not empty, with the slice that it was
// made from. Patient, study and frame of reference are the series'.
//
// stdin: a line of JSON and then the labels, a byte a voxel, X fastest:
//   {"dim": [X, Y, Z], "affine": 12 numbers, RAS, "series_description": "", "series_number": 1,
//    "algorithm_name": "", "version": "",
//    "segments": [{"segment_label": "", "segmented_property_category": [value, scheme, meaning],
//                  "segmented_property_type": [value, scheme, meaning]}, ...]}
#include <dcmtk/config/osconfig.h>
#include <dcmtk/dcmdata/dcbytstr.h>
#include <dcmtk/dcmdata/dcdeftag.h>
#include <dcmtk/dcmdata/dcfilefo.h>
#include <dcmtk/dcmdata/dcostrmb.h>
#include <dcmtk/dcmfg/fgderimg.h>
#include <dcmtk/dcmfg/fgfracon.h>
#include <dcmtk/dcmfg/fgpixmsr.h>
#include <dcmtk/dcmfg/fgplanor.h>
#include <dcmtk/dcmfg/fgplanpo.h>
#include <dcmtk/dcmiod/iodreferences.h>
#include <dcmtk/dcmseg/segdoc.h>
#include <dcmtk/dcmseg/segment.h>
#include <dcmtk/oflog/oflog.h>

#include <algorithm>
#include <cmath>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include "tools/dicom/series.h"

namespace sluice {
namespace {

using Json = nlohmann::json;

void require(const OFCondition& done, const std::string& what) {
  if (done.bad()) fail(what + ": " + done.text());
}

// A decimal string: at most 16 characters.
OFString decimal(double value) {
  char text[40];
  for (int digits = 15;; --digits)
    if (std::snprintf(text, sizeof text, "%.*g", digits, value == 0 ? 0 : value) <= 16) return text;
}

// One value of a text (LO). DCMTK's own check, which knows ASCII alone, is off.
OFString text(const std::string& value, const char* name) {
  const auto is_bad = [](unsigned char c) { return c < 32 || c == 127 || c == '\\'; };
  if (std::any_of(value.begin(), value.end(), is_bad))
    fail(std::string(name) + " " + Json(value).dump() +
         ": no backslash nor control character may be in it");
  return value.c_str();
}

CodeSequenceMacro code(const Json& triple) {
  return {triple.at(0).get<std::string>().c_str(), triple.at(1).get<std::string>().c_str(),
          triple.at(2).get<std::string>().c_str()};
}

// What a segmentation says of a slice's file.
struct Source {
  OFString patient, study, series, sop_class, instance;
};

OFString value_of(DcmDataset& set, const DcmTagKey& key, const char* name, const Slice& slice) {
  OFString value;
  if (set.findAndGetOFString(key, value).bad() || value.empty())
    fail(slice.name() + ": has no " + name);
  return value;
}

Source source_of(const Slice& slice) {
  DcmFileFormat file;
  require(file.loadFile(slice.file.c_str(), EXS_Unknown, EGL_noChange, 4096), slice.file);
  DcmDataset& set = *file.getDataset();
  Source s;
  set.findAndGetOFString(DCM_PatientID, s.patient);
  s.study = value_of(set, DCM_StudyInstanceUID, "StudyInstanceUID", slice);
  s.series = value_of(set, DCM_SeriesInstanceUID, "SeriesInstanceUID", slice);
  s.sop_class = value_of(set, DCM_SOPClassUID, "SOPClassUID", slice);
  s.instance = value_of(set, DCM_SOPInstanceUID, "SOPInstanceUID", slice);
  value_of(set, DCM_FrameOfReferenceUID, "FrameOfReferenceUID", slice);
  return s;
}

std::string triple(const std::vector<std::size_t>& dim) {
  return std::to_string(dim[0]) + " x " + std::to_string(dim[1]) + " x " + std::to_string(dim[2]);
}

void check_grid(const std::vector<Slice>& slices, const Json& given) {
  if (slices[0].dim[2] > 1)
    fail(slices[0].file +
         ": holds several slices; segmentations are of series with a file a slice");
  const std::vector<std::size_t> dim = given.at("dim"),
                                 grid{slices[0].dim[0], slices[0].dim[1], slices.size()};
  if (dim != grid)
    fail("the prediction has " + triple(dim) + " voxels, its series " + triple(grid) +
         " (slices 1 to " + std::to_string(grid[2]) + "); invert brings it there");
  const std::vector<double> affine = given.at("affine");
  const auto expected = affine_of(slices);
  for (std::size_t i = 0; i < 12; ++i)
    if (!(std::abs(affine.at(i) - expected[i]) <= 1e-3))
      fail("the prediction's affine is " + std::to_string(affine[i]) + " at [" +
           std::to_string(i / 4) + "][" + std::to_string(i % 4) + "], that of its series' slices " +
           std::to_string(expected[i]) + "; invert brings it there");
}

class Segmentation {
 public:
  Segmentation(const std::vector<Slice>& slices, const Json& given)
      : slices_(slices), rows_(slices[0].dim[1]), columns_(slices[0].dim[0]) {
    for (const Slice& s : slices) sources_.push_back(source_of(s));
    dcmEnableVRCheckerForStringValues.set(OFFalse);
    make(given);
    add_segments(given);
    add_geometry();
    add_references();
  }

  // The frames of the slices that have a label, by label and slice; of a label that none has one
  // that is empty, since DCMTK writes no more segments than frames.
  std::size_t add_frames(const std::vector<std::uint8_t>& labels) {
    const std::size_t area = rows_ * columns_;
    std::vector<Uint8> frame(area);
    std::size_t frames = 0, empty = 0;
    for (std::size_t segment = 1; segment <= segments_; ++segment) {
      const std::size_t before = frames;
      for (std::size_t z = 0; z < slices_.size(); ++z) {
        bool any = false;
        for (std::size_t i = 0; i < area; ++i) any |= (frame[i] = labels[z * area + i] == segment);
        if (!any) continue;
        add_frame(frame.data(), z, static_cast<Uint16>(segment));
        ++frames;
      }
      if (frames > before) continue;
      std::fill(frame.begin(), frame.end(), Uint8{0});
      add_frame(frame.data(), 0, static_cast<Uint16>(segment));
      ++frames;
      ++empty;
    }
    if (empty == segments_)
      require(document_->getContentIdentification().setContentDescription("No voxel was segmented"),
              "ContentDescription");
    return frames;
  }

  // The file's bytes.
  std::vector<char> bytes() {
    DcmFileFormat file;
    require(document_->writeDataset(*file.getDataset()), "the segmentation");
    set_pixels(*file.getDataset());
    const E_TransferSyntax syntax = EXS_LittleEndianExplicit;
    require(file.validateMetaInfo(syntax), "the segmentation's head");
    std::vector<char> all(file.calcElementLength(syntax, EET_ExplicitLength) + 4096);
    DcmOutputBufferStream out(all.data(), static_cast<offile_off_t>(all.size()));
    file.transferInit();
    require(file.write(out, syntax, EET_ExplicitLength, nullptr), "the segmentation");
    file.transferEnd();
    void* begin = nullptr;
    offile_off_t length = 0;
    out.flushBuffer(begin, length);
    all.resize(static_cast<std::size_t>(length));
    return all;
  }

 private:
  void make(const Json& given) {
    const OFString version = given.at("version").get<std::string>().c_str();
    ContentIdentificationMacro content("1", "SEGMENTATION", "", "");
    DcmSegmentation* made = nullptr;
    require(
        DcmSegmentation::createBinarySegmentation(
            made, static_cast<Uint16>(rows_), static_cast<Uint16>(columns_),
            IODGeneralEquipmentModule::EquipmentInfo("Sluice", "Sluice", "0", version), content),
        "the segmentation");
    document_.reset(made);
    DcmFileFormat first;
    require(first.loadFile(slices_[0].file.c_str(), EXS_Unknown, EGL_noChange, 4096),
            slices_[0].file);
    // Names of patients may be in any of DICOM's character sets; those of labels are in UTF-8.
    require(first.getDataset()->convertToUTF8(), slices_[0].file);
    require(document_->importFromSourceImage(*first.getDataset()), slices_[0].file);
    require(document_->getSOPCommon().setSpecificCharacterSet("ISO_IR 192"),
            "SpecificCharacterSet");
    auto& series = document_->getSeries();
    require(series.setSeriesDescription(text(given.at("series_description"), "series_description")),
            "series_description");
    require(document_->getSegmentationSeriesModule().setSeriesNumber(
                std::to_string(given.at("series_number").get<int>()).c_str()),
            "series_number");
  }

  void add_segments(const Json& given) {
    const OFString algorithm = text(given.at("algorithm_name"), "algorithm_name");
    for (const Json& label : given.at("segments")) {
      const std::string name = label.at("segment_label");
      DcmSegment* segment = nullptr;
      require(DcmSegment::create(segment, text(name, "segment_label"),
                                 code(label.at("segmented_property_category")),
                                 code(label.at("segmented_property_type")),
                                 DcmSegTypes::SAT_AUTOMATIC, algorithm),
              "segment " + name);
      Uint16 number = 0;
      require(document_->addSegment(segment, number), "segment " + name);
      segments_ = number;
    }
  }

  void add_geometry() {
    const Slice& first = slices_[0];
    const double across = length(first.row), down = length(first.column),
                 apart = length(step_of(slices_));
    FGPixelMeasures measures;
    // PixelSpacing begins with the distance of rows.
    measures.setPixelSpacing(decimal(down) + "\\" + decimal(across));
    measures.setSliceThickness(decimal(apart));
    measures.setSpacingBetweenSlices(decimal(apart));
    require(document_->addForAllFrames(measures), "PixelMeasures");
    const auto axis = [](const Vec3& v, std::size_t i) { return decimal(v[i] / length(v)); };
    const std::unique_ptr<FGPlaneOrientationPatient> planes(
        FGPlaneOrientationPatient::createMinimal(axis(first.row, 0), axis(first.row, 1),
                                                 axis(first.row, 2), axis(first.column, 0),
                                                 axis(first.column, 1), axis(first.column, 2)));
    if (!planes) fail(first.file + ": its orientation cannot be written");
    require(document_->addForAllFrames(*planes), "PlaneOrientation");
    char uid[100];
    const OFString organization = dcmGenerateUniqueIdentifier(uid);
    auto& dimensions = document_->getDimensions();
    require(dimensions.addDimensionIndex(DCM_ReferencedSegmentNumber, organization,
                                         DCM_SegmentIdentificationSequence, "Segment"),
            "dimensions");
    require(dimensions.addDimensionIndex(DCM_ImagePositionPatient, organization,
                                         DCM_PlanePositionSequence, "Place"),
            "dimensions");
  }

  void add_references() {
    IODReferences all;
    for (const Source& s : sources_)
      all.add(new IODImageReference(s.patient, s.study, s.series, s.instance, s.sop_class));
    if (document_->getCommonInstanceReference().addReferences(all) != sources_.size())
      fail("the series' files cannot be referred to");
  }

  // Frames follow each other bit by bit (PS3.5, 8.1.1). DCMTK 3.6.7 loses bits of frames that end
  // within a byte.
  void set_pixels(DcmDataset& set) {
    bits_.resize(bits_.size() + bits_.size() % 2);
    DcmElement* element = nullptr;
    require(set.findAndGetElement(DCM_PixelData, element), "PixelData");
    require(element->putUint8Array(bits_.data(), static_cast<unsigned long>(bits_.size())),
            "PixelData");
  }
  void add_bits(const Uint8* pixels) {
    for (std::size_t i = 0; i < rows_ * columns_; ++i, ++pixels_) {
      if (pixels_ % 8 == 0) bits_.push_back(0);
      bits_.back() = static_cast<Uint8>(bits_.back() | pixels[i] << pixels_ % 8);
    }
  }

  void add_frame(Uint8* pixels, std::size_t slice, Uint16 segment) {
    add_bits(pixels);
    FGFrameContent content;
    content.setDimensionIndexValues(segment, 0);
    content.setDimensionIndexValues(static_cast<Uint32>(slice + 1), 1);
    const Vec3& at = slices_[slice].origin;
    const std::unique_ptr<FGPlanePosPatient> place(
        FGPlanePosPatient::createMinimal(decimal(at[0]), decimal(at[1]), decimal(at[2])));
    const Source& from = sources_[slice];
    ImageSOPInstanceReferenceMacro reference;
    reference.setReferencedSOPClassUID(from.sop_class);
    reference.setReferencedSOPInstanceUID(from.instance);
    OFVector<ImageSOPInstanceReferenceMacro> references;
    references.push_back(reference);
    const std::unique_ptr<FGDerivationImage> derivation(FGDerivationImage::createMinimal(
        references, "", CodeSequenceMacro("113076", "DCM", "Segmentation"),
        CodeSequenceMacro("121322", "DCM", "Source image for image processing operation")));
    if (!place || !derivation) fail(slices_[slice].file + ": its place cannot be written");
    OFVector<FGBase*> groups;
    groups.push_back(&content);
    groups.push_back(place.get());
    groups.push_back(derivation.get());
    require(document_->addFrame(pixels, segment, groups), slices_[slice].file);
  }

  const std::vector<Slice>& slices_;
  const std::size_t rows_, columns_;
  std::size_t segments_ = 0;
  std::vector<Source> sources_;
  std::vector<Uint8> bits_;  // of all frames
  std::size_t pixels_ = 0;   // of them
  std::unique_ptr<DcmSegmentation> document_;
};

}  // namespace

void write_segmentation(const std::filesystem::path& folder) {
  OFLog::configure(OFLogger::OFF_LOG_LEVEL);
  std::string line;
  std::getline(std::cin, line);
  const Json given = Json::parse(line);
  const std::vector<Slice> slices = slices_in(folder);
  check_grid(slices, given);
  std::vector<std::uint8_t> labels(slices[0].dim[0] * slices[0].dim[1] * slices.size());
  if (!std::cin.read(reinterpret_cast<char*>(labels.data()),
                     static_cast<std::streamsize>(labels.size())))
    fail(folder.string() + ": its labels end early");
  Segmentation segmentation(slices, given);
  const std::size_t frames = segmentation.add_frames(labels);
  const std::vector<char> bytes = segmentation.bytes();
  const std::string said = Json{{"bytes", bytes.size()}, {"frames", frames}}.dump() + "\n";
  write_all(said.data(), said.size());
  write_all(bytes.data(), bytes.size());
}

}  // namespace sluice
