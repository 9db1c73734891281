"""Reads a DICOM segmentation with highdicom: every voxel, its place, and what it refers to."""
import sys

import highdicom
import numpy as np
import pydicom
from pathlib import Path

file, labels, series = sys.argv[1:]
seg = highdicom.seg.segread(file)
expected = np.fromfile(labels, np.uint8).reshape(32, 51, 35)  # slices by place
sources = sorted((pydicom.dcmread(f) for f in Path(series).iterdir()), key=lambda d: d.ImagePositionPatient[2])
pixels = seg.get_pixels_by_source_instance([d.SOPInstanceUID for d in sources], combine_segments=True,
                                           ignore_spatial_locations=True, assert_missing_frames_are_empty=True)
assert (pixels == expected).all(), "voxels differ"
volume = seg.get_volume(combine_segments=True)
for k in (0, volume.array.shape[0] - 1):  # its slices may run either way
    place = volume.affine @ [k, 0, 0, 1]
    z = [i for i, d in enumerate(sources) if np.allclose(d.ImagePositionPatient, place[:3])]
    assert len(z) == 1 and (volume.array[k] == expected[z[0]]).all(), "places differ"
assert seg.FrameOfReferenceUID == sources[0].FrameOfReferenceUID
assert seg.PatientID == sources[0].PatientID and seg.StudyInstanceUID == sources[0].StudyInstanceUID
refs = seg.ReferencedSeriesSequence[0]
assert refs.SeriesInstanceUID == sources[0].SeriesInstanceUID
assert {r.ReferencedSOPInstanceUID for r in refs.ReferencedInstanceSequence} == {d.SOPInstanceUID for d in sources}
