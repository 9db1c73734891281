// Text for terminals: how many columns it takes, and cutting it to fit.
//
// Invariant: nothing returned holds a control character, so a name in a graph file cannot move the
// cursor or change a colour.
#pragma once

#include <string>
#include <string_view>

#include "engine/base/message.h"

namespace sluice::live {

// Columns of UTF-8 text: 2 for East Asian wide characters and emoji, 0 for combining marks; what
// is not UTF-8 counts 1 a byte.
int columns(std::string_view text);

// At most `width` columns; what is cut is marked. The middle goes where `middle` is set, since the
// ends of a path tell most.
std::string cut(std::string_view text, int width, bool utf8, bool middle = false);

std::string padded(std::string text, int width);         // blanks after it
std::string right_aligned(std::string text, int width);  // blanks before it

// "42 s", "3 min 07 s", "3 h 12 min", "2 d 4 h"
std::string duration(double seconds);
// "0.83 ms", "402 ms", "1.9 s"
std::string milliseconds(double ms);
// Three digits: "0.83", "41.8", "336"; "-" for what is no number
std::string figure(double value);
// A loss or a metric: "0.2143", "31.7", "3.1e-05"
std::string score(double value);

}  // namespace sluice::live
