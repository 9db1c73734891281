#!/usr/bin/env bash
# Switches off one rule of the scheduler at a time and expects engine_tests to notice. Not part of
# CI: each mutant is a build and a run of its own, some minutes in all. From the repository's root:
#
#   SLUICE_VENV=.venv tests/mutations.sh           all
#   SLUICE_VENV=.venv tests/mutations.sh Skip cut  those whose name holds one of the words
#
# Works on a copy in a temporary folder. Prints, for each rule, the first test that failed; exit
# status 1 where a mutant survived. JOBS: how many files to compile at a time.
set -uo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
venv=$(realpath "${SLUICE_VENV:-$root/.venv}")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$root"
mkdir "$work/tree"
git ls-files -z | xargs -0 cp --parents -t "$work/tree" 2>/dev/null
cd "$work/tree"
export CCACHE_BASEDIR=$work/tree  # the same objects as in any other folder
cmake -S . -B build -G Ninja -DSLUICE_VENV="$venv" >/dev/null || exit 2
ninja -j"${JOBS:-1}" -C build engine_tests >/dev/null || exit 2
words=("$@")
survived=0

wanted() {
  [ ${#words[@]} -eq 0 ] && return 0
  for w in "${words[@]}"; do case "$1" in *"$w"*) return 0 ;; esac; done
  return 1
}

# mutant "rule" file 'perl substitution over the whole file'
mutant() {
  wanted "$1" || return 0
  local file verdict
  file=$(echo engine/*/"$2")
  cp "$file" "$work/kept"
  perl -0pi -e "$3" "$file"
  touch "$file"
  if cmp -s "$file" "$work/kept"; then
    verdict="the patch does not fit any more"; survived=1
  elif ! ninja -j"${JOBS:-1}" -C build engine_tests >"$work/log" 2>&1; then
    verdict="does not build"; survived=1; grep -m3 error "$work/log"
  elif timeout 200 build/engine_tests --abort-after=1 >"$work/log" 2>&1; then
    verdict="SURVIVED"; survived=1
  else
    # The case of the first failure: messages name cases too.
    verdict=$(awk '/^TEST CASE/ {name = $0} /(ERROR|CRASHED)/ {sub(/TEST CASE: */, "", name); print name; exit}' "$work/log")
    [ -n "$verdict" ] || verdict=$(grep -m1 'hangs' "$work/log")
    verdict="${verdict:-crashed or ran out of time}"
  fi
  printf '%-52s %s\n' "$1" "$verdict"
  cp "$work/kept" "$file"
}

mutant "Skip: a filtered sample leaves nothing" station_fire.cpp \
  's/(\n +)send\(port, p, actions\);/$1if (!p.is_skip()) send(port, p, actions);/'
mutant "Skip: a 1:n without children marks no last one" station.cpp \
  's/stamp\.child\(0, true\)/stamp.child(0, false)/'
mutant "stamps: a 1:n marks no last child" station_fire.cpp \
  's/, i \+ 1 == most\)/, false)/'
mutant "capacity: the largest holder instead of the sum" plan_credits.cpp \
  's/hold\.total \+= n\.count - 1;/hold.total = std::max(hold.total, n.count - 1);/'
mutant "capacity: divided by the children of a 1:n" plan_credits.cpp \
  's/hold\.total \+= n\.count - 1;/hold.total += (n.count - 1 + 3) \/ 4;/'
mutant "gates: arrival order" station.cpp \
  's/(auto it = inbox_\.find\(next_\);\n)(  if \(it == inbox_)/$1  if (plan_.gate && !plan_.ordered && plan_.spec->arity == Arity::one_to_one)\n    for (auto k = inbox_.begin(); k != inbox_.end() && k->first.epoch == next_.epoch; ++k)\n      if (k->second.have == static_cast<int>(plan_.inputs.size())) it = k;\n$2/'
mutant "gates: a credit more than the segment has" credit.cpp \
  's/if \(n == 0\) return nullptr/if (n == -1) return nullptr/'
mutant "lanes: a TBB task before each firing" scheduler.cpp \
  's/queueing_lightweight/queueing/'
mutant "ends: markers are not counted" station.cpp \
  's/return e\.consumed == static_cast<std::uint64_t>\(e\.expected\.front\(\)\);/return true;/'
mutant "flush: beside the epoch's last firing" station.cpp \
  's/    if \(e\.flying > 0\) return false;\n//'
mutant "flush: beside the next epoch's first firing" station.cpp \
  's/      flush\(actions\);\n      return false;/      flush(actions);\n      flushing_ = false, e.flushed = true;/; s/const \{ return plan_\.ordered/const { return plan_.ordered/; s/if \(limit\(\) > 0 && running_ >= limit\(\)\)/if (limit() > 0 && running_ > limit())/g'
mutant "order: two firings of a stateful node at once" station.cpp \
  's/limit\(\) > 0 && running_ >= limit\(\)/limit() > 0 \&\& running_ > limit()/g'
mutant "turns: none" station.cpp \
  's/return !turnstile_ \|\| turnstile_->open\(plan_\.stream, e\);/return true;/'
mutant "turns: for firings only, not for an epoch's end" station.cpp \
  's/if \(!turn_open\(next_\.epoch\)\) \{\n/if (false) {\n/'
mutant "turns: over when the reader ends, not the updater" turnstile.cpp \
  's/closed_\[n\] <= static_cast<std::int64_t>\(turn\.epoch\)/closed_[n] < static_cast<std::int64_t>(turn.epoch)/'
mutant "turns: the stop rule does not hold them" turnstile.cpp \
  's/stopped_ = stop;//'
mutant "region: two batches at once" plan_credits.cpp \
  's/n\.credits = 1;/n.credits = 2;/'
mutant "updater: no gate of its own" plan_turns.cpp \
  's/node\(u\)\.gate = true;//'
mutant "cut: the region discards too" plan_credits.cpp \
  's/if \(finish\.count\(\*it\)\) continue;//'
mutant "cut: an epoch without its turn is flushed" station.cpp \
  's/    e\.cut = true;  \/\/ its turn/    \/\/ its turn/'
mutant "cut: Skips are not counted in the position" station.cpp \
  's/e\.trained = e\.consumed;/++e.trained;/g'
mutant "cut: the last epoch cut is the position" station.cpp \
  's/if \(e\.cut && !cut_at_\)/if (e.cut)/'
mutant "cut: a cache remembers what was discarded" station_fire.cpp \
  's/ && skip != reasons::discarded//'
mutant "cache: a Skip of the source is item 0" station_fire.cpp \
  's/\? Packet::no_item :/? 0 :/'
mutant "cache: a hit keeps the credit in front" station.cpp \
  's/      p\.credit = std::move\(credit\);\n//'
mutant "failure: the first one instead of the lowest" scheduler.cpp \
  's/if \(!failed_ \|\| std::tie\([^)]*\) < std::tie\([^)]*\)\)/if (!failed_)/'
mutant "quarantine: judged on arrival" scheduler.cpp \
  's/bad\.size\(\) >= 2 \* budget/bad.size() >= budget/'
mutant "shutdown: inboxes are cleared before pools close" scheduler.cpp \
  's/  closing_ = true;\n//; s/(  for \(auto& s : stations_\)\n    if \(s->pool\) s->pool->close\(\);\n)(  for \(auto& s : stations_\) s->clear\(\);\n)/$2$1/'
mutant "priority: the step lane inherits nice 19" scheduler.cpp \
  's/if \(kind != LaneKind::step && options_\.background\)/if (options_.background)/'
exit $survived
