#!/usr/bin/env bash
# Holds the sources to .clang-format. .clang-tidy is for editors: clang-tidy 14, Debian 12's, does
# not read all of C++20 (structured bindings in lambdas), so it is no gate.
set -euo pipefail
cd "$(dirname "$0")/.."
clang-format --dry-run -Werror $(git ls-files '*.cpp' '*.h' '*.cu' '*.cuh')
