// The fingerprint of a data set that lies in a folder.
#pragma once

#include "tools/nnunet/fingerprint.h"

namespace sluice::nnunet {

// Reads every training case once, several at a time: extents after the crop to what is not 0,
// spacings (of a TIFF volume those of CASE.json beside it), and intensities over the foreground by
// nnU-Net's own draws (RandomState(1234), 1e8 over all cases, with replacement). DataError that
// names the file: NaN, labels that dataset.json does not list, channels or labels of another
// geometry, cases that are not numTraining, no foreground.
Fingerprint measure(const Dataset& dataset);

}  // namespace sluice::nnunet
