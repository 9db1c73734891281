#!/bin/sh
# join.sh OUT FILE...: modules as one script, for a page that opens from a disk and can load none.
out=$1
shift
{
  echo '"use strict";'
  cat "$@" | sed -e '/^import /d' -e 's/^export //'
} >"$out"
