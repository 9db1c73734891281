#!/usr/bin/env bash
# Makes a folder that runs on another Linux machine which has PyTorch 2.11 but no ITK, oneTBB or
# internet: the binary, its runtime, the CUDA library, the tests and benchmarks that a GPU needs, and
# every library they need except LibTorch's, CUDA's and the C library's. Beside it the same as an
# archive (at most 40 MiB), to be carried there.
#
#   tools/bundle.sh bundle              # from build/, which it builds where needed
#   tar xf bundle.tar.xz                # there
#   bundle/gpu_check.sh                 # there: tests, ceilings, benchmarks -> gpu_check.json
#   bundle/run.sh run graphs/brain.json # there: any command of sluice
set -euo pipefail
cd "$(dirname "$0")/.."
out=${1:?usage: tools/bundle.sh FOLDER [BUILD]}
build=${2:-build}
[ ! -e "$out" ] || [ -e "$out/.sluice-bundle" ] || { echo "$out is there and no bundle" >&2; exit 2; }
cmake --build "$build" --target sluice runtime web sluice_cuda sluice_cuda_graph cuda_tests emulated_cuda_tests nodes_tests bench_cuda bench_image_filters >&2

rm -rf "$out"
mkdir -p "$out/lib"
touch "$out/.sluice-bundle"
ours="sluice libsluice_runtime.so libsluice_web.so libsluice_cuda.so libsluice_cuda_graph.so cuda_tests"
ours="$ours emulated_cuda_tests nodes_tests bench_cuda bench_image_filters"
for f in $ours; do
  cp "$build/$f" "$out/"
done
cp -r graphs "$out/graphs"
rm -f "$out"/graphs/*.svg
mkdir "$out/golden"
cp -r tests/golden/{losses,metrics,nets,*.json} "$out/golden/"
cp tools/gpu_check.sh tools/gpu_check.py tools/gpu_peers.py "$out/"

# Libraries of this machine. The C library, the compiler's and the driver's stay the other's, as do
# LibTorch and its libgomp: two of those in one process would be two thread pools.
theirs='^(ld-linux[^/]*|lib(c|m|dl|pthread|rt|util|gcc_s|stdc\+\+))\.so|^lib(gomp|torch|c10|cu[a-z]+|nv)[-._0-9]'
for f in "$out"/sluice "$out"/libsluice_{runtime,web}.so "$out"/cuda_tests "$out"/bench_image_filters; do
  ldd "$f" | awk '$3 ~ /^\// {print $3}'
done | sort -u | while read -r lib; do
  name=$(basename "$lib")
  [[ $name =~ $theirs ]] || [[ $name == libsluice* ]] || cp -L "$lib" "$out/lib/$name"
done

# Where they look for each other, in place of this machine's folders.
cat >"$out/rpath.cmake" <<'CMAKE'
file(RPATH_SET FILE "${FILE}" NEW_RPATH "$ORIGIN:$ORIGIN/lib")
CMAKE
for f in $ours; do
  strip --strip-unneeded "$out/$f"
  readelf -d "$out/$f" | grep -qE 'RPATH|RUNPATH' || continue
  cmake -DFILE="$out/$f" -P "$out/rpath.cmake"
done
rm "$out/rpath.cmake"

cat >"$out/run.sh" <<'RUN'
#!/usr/bin/env bash
# sluice with the LibTorch of PYTHON (default: python3), or of the folder TORCH_LIB.
here=$(cd "$(dirname "$0")" && pwd)
TORCH_LIB=${TORCH_LIB:-$("${PYTHON:-python3}" -c 'import os, torch; print(os.path.dirname(torch.__file__) + "/lib")')} ||
  { echo "run.sh: no torch in ${PYTHON:-python3}; set PYTHON or TORCH_LIB" >&2; exit 2; }
gomp=$(ls "$TORCH_LIB"/libgomp*.so* "$TORCH_LIB"/../../torch.libs/libgomp*.so* 2>/dev/null | head -1)
if [ -n "$gomp" ] && [ ! -e "$here/lib/libgomp.so.1" ]; then ln -sf "$gomp" "$here/lib/libgomp.so.1"; fi
export LD_LIBRARY_PATH=$here:$here/lib:$TORCH_LIB${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
exec "$here/sluice" "$@"
RUN
chmod +x "$out/run.sh"

tar -C "$(dirname "$out")" -c "$(basename "$out")" | xz -T0 >"$out.tar.xz"
size=$(du -sm "$out.tar.xz" | cut -f1)
echo "$out: $(du -sm "$out" | cut -f1) MiB, $(find "$out/lib" -type f | wc -l) libraries; $out.tar.xz: $size MiB" >&2
[ "$size" -le 40 ] || { echo "more than 40 MiB" >&2; exit 1; }
