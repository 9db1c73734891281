#!/usr/bin/env bash
# Holds the sources to .clang-format, and the engine to .clang-tidy. Needs a configured build/.
set -euo pipefail
cd "$(dirname "$0")/.."
clang-format --dry-run -Werror $(git ls-files '*.cpp' '*.h')
# Every engine source that includes no LibTorch: those take a minute each to analyse.
files=$(git ls-files 'engine/*.cpp' | grep -vE '/(sample|resource|checkpoint|safetensors|durable_file)\.cpp$')
printf '%s\n' $files | xargs -P"$(nproc)" -n1 clang-tidy -p build --quiet 2>/dev/null
