# Sourced by the scripts beside it: installs what a fresh Debian 12 machine lacks and sets
# SLUICE_VENV. Idempotent; the second time it only looks. Needs root (or sudo) for apt-get.
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
SLUICE_VENV=${SLUICE_VENV:-$root/.venv}
torch_version=2.11.0

say() { printf '\033[1m== %s\033[0m\n' "$*" >&2; }
as_root() { if [ "$(id -u)" = 0 ]; then "$@"; else sudo "$@"; fi; }

apt_packages=(
  g++ cmake ninja-build ccache python3-venv python3-dev git ca-certificates
  libtbb-dev libinsighttoolkit5-dev nlohmann-json3-dev doctest-dev libcli11-dev
  libdeflate-dev zlib1g-dev libpng-dev libjpeg-dev libtiff-dev libxxhash-dev libssl-dev libgdcm-dev
  libdcmtk-dev libeigen3-dev libgloo-dev libyaml-cpp-dev libcpp-httplib-dev libjs-codemirror libmd-dev
  graphviz mricron-data clang-format clang-tidy
)

install_apt() {
  local missing=()
  for p in "${apt_packages[@]}"; do
    dpkg-query -W -f='${Status}' "$p" 2>/dev/null | grep -q 'ok installed' || missing+=("$p")
  done
  [ ${#missing[@]} = 0 ] && return 0
  say "installing ${#missing[@]} Debian packages: ${missing[*]}"
  as_root apt-get update -qq
  as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
    "${missing[@]}" >&2
}

# Whether it is a CUDA compiler that CMakeLists.txt takes: one from 12.8 on.
is_new_nvcc() {
  "$1" --version 2>/dev/null |
    awk '/release/ { split($5, v, "[.,]"); new = v[1] * 100 + v[2] >= 1208 } END { exit !new }'
}

install_venv() {
  local stamp=$SLUICE_VENV/.sluice-torch-$torch_version
  [ -e "$stamp" ] && return 0
  say "installing torch $torch_version into $SLUICE_VENV (about 5 GB)"
  python3 -m venv "$SLUICE_VENV"
  "$SLUICE_VENV/bin/pip" install -q --disable-pip-version-check \
    "torch==$torch_version" "numpy<3" nibabel
  if ! is_new_nvcc nvcc && ! is_new_nvcc /usr/local/cuda/bin/nvcc; then
    say "no CUDA toolkit from 12.8 on here: installing its compiler from PyPI"
    "$SLUICE_VENV/bin/pip" install -q --disable-pip-version-check \
      "cuda-toolkit[nvcc,nvvm,cccl,crt]==13.0.2"  # without nvvm, pip takes its newest: no match
  fi
  touch "$stamp"
}

# What only tests look with: a referee for the JSON Schema, Perfetto's and TensorBoard's own readers
# (16 MB: it needs no more of TensorBoard's dependencies), ONNX's checker, ONNX Runtime (158 MB) and
# OpenVINO (59 MB to load), DICOM's (highdicom and dciodvfy, 55 MB), Fashion-MNIST (31 MB), OpenSlide
# (whose pixels ours are held against) and, in CI, a browser for the report and the workbench (98 MB,
# 18 s) and what drives it (46 MB); elsewhere these tests say that they skip.
install_test_tools() {
  local stamp=$SLUICE_VENV/.sluice-test-tools-7
  apt_packages+=(dataset-fashion-mnist libopenslide0 dicom3tools)
  [ "${CI:-}" != true ] || apt_packages+=(chromium-headless-shell)
  install_apt
  [ -e "$stamp" ] && return 0
  "$SLUICE_VENV/bin/pip" install -q --disable-pip-version-check --no-deps \
    tensorboard==2.21.0 protobuf==7.36.2 absl-py==2.5.1 perfetto==0.56.0 \
    onnxruntime==1.32.0 onnx==1.19.0 ml_dtypes==0.6.0 openvino==2026.4.0 \
    highdicom==0.28.2 pydicom==3.0.2 pyjpegls==1.5.1 pillow==13.0.0 typing_extensions
  "$SLUICE_VENV/bin/pip" install -q --disable-pip-version-check jsonschema==4.26.0
  [ "${CI:-}" != true ] ||
    "$SLUICE_VENV/bin/pip" install -q --disable-pip-version-check playwright==1.65.2
  touch "$stamp"
}

install_apt
install_venv

# How many compilers at once: one more than cores, as long as each has 1.2 GB.
compilers() {
  awk -v cores="$(nproc)" '/MemAvailable/ { n = int($2 / 1.2e6) }
    END { if (n > cores + 1) n = cores + 1; print (n < 1 ? 1 : n) }' /proc/meminfo
}

# build TARGET...: configures build/ where it is new, or was for another virtual environment, and
# builds. Warnings are errors in CI.
build() {
  local werror=OFF
  [ "${CI:-}" = true ] && werror=ON
  if [ ! -e "$root/build/build.ninja" ] ||
    ! grep -q "^SLUICE_VENV:.*=$SLUICE_VENV\$" "$root/build/CMakeCache.txt"; then
    say "configuring build/"
    cmake -S "$root" -B "$root/build" -G Ninja -DSLUICE_VENV="$SLUICE_VENV" \
      -DSLUICE_WERROR=$werror >"$root/build.log" 2>&1 ||
      { cat "$root/build.log" >&2; return 1; }
    rm -f "$root/build.log"
  fi
  say "building (the first time takes about twenty minutes on two cores, and the tests as long again)"
  cmake --build "$root/build" --parallel "${CMAKE_BUILD_PARALLEL_LEVEL:-$(compilers)}" \
    --target "$@" >&2
}
