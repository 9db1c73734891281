#!/usr/bin/env bash
# Installs what is missing, builds, and runs every test. Quick the second time.
# SLUICE_TEST_DATA names the folder with real data; tests that need it say so and pass without.
set -euo pipefail
. "$(dirname "$0")/setup.sh"
install_test_tools
build all tests
[ "${CI:-}" != true ] || { say "linting"; "$root/tools/lint.sh"; }
say "testing"
cd "$root/build"
ctest --output-on-failure -j"$(nproc)" "$@"
