// A session's run as commands see it: with the progress display, ended by a signal with a cut, or
// after some seconds; and the figures of its second half, in which caches are warm as far as they
// will be.
#pragma once

#include <atomic>

#include "engine/session/session.h"

namespace sluice {

// Runs for options.seconds, or to the end where that is 0. `warm`, if given, gets the figures of
// the second half.
Outcome run_for(Session& session, const Options& options, Figures* warm = nullptr);

bool stopping();        // a signal came
int signal_received();  // its number, or 0
// Of the process, which may have come already; `parent`: whose child it was as it began. Where that
// is a launcher of several processes, its end counts as a SIGTERM.
void obey(std::atomic<int>& signal, int parent);

// The exit code, after saying what went wrong.
int finish(const Session& session, const Outcome& outcome);

}  // namespace sluice
