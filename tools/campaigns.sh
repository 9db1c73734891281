#!/usr/bin/env bash
# Runs the long form of tests that try to lose something, and prints a table:
#   tools/campaigns.sh                          all, a few minutes each
#   tools/campaigns.sh kills disk_full          those
#   tools/campaigns.sh --minutes 60 --seed 7    an hour each, with other draws
#   tools/campaigns.sh --list
# Appends each to build/campaigns.json. Installs and builds what is missing.
set -euo pipefail
case " $* " in *" --list "* | *" --help "*) exec python3 "${0%.sh}.py" "$@" ;; esac
. "$(dirname "$0")/setup.sh"
install_test_tools
build all tests
exec "$SLUICE_VENV/bin/python" "$root/tools/campaigns.py" "$@"
