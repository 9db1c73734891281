# Sourced by the scripts that build for aarch64 on another processor and run what they built in an
# emulator (tests/aarch64.sh, edge/aarch64.sh): correctness, not speed. Sets `source` and `build`,
# the folder that the script's first argument names. They need Debian's g++-aarch64-linux-gnu and
# qemu-user and exit 77 where these are not installed; the first time they need the network.
source=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
build=${1:?the folder to build in}
for tool in aarch64-linux-gnu-g++ qemu-aarch64; do
  command -v $tool >/dev/null || {
    echo "skipped: no $tool (apt-get install g++-aarch64-linux-gnu qemu-user)" >&2
    exit 77
  }
done
mkdir -p "$build"
build=$(cd "$build" && pwd)
debian=$build/debian
libraries=$debian/usr/lib/aarch64-linux-gnu

# debian_packages NAME...: Debian's for arm64, unpacked, without making this machine a
# multi-architecture one.
debian_packages() {
  local stamp
  stamp=$debian/done-$(echo "$@" | sha256sum | cut -c -12)
  [ ! -e "$stamp" ] || return 0
  local apt=$debian/apt codename options package
  mkdir -p "$apt"/{lists,cache}/partial "$apt/cache/archives/partial" "$apt/parts"
  touch "$apt/status"
  codename=$(. /etc/os-release && echo "$VERSION_CODENAME")
  echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] http://deb.debian.org/debian" \
    "$codename main" >"$apt/parts/debian.list"
  options=(-qq -o Dir::State::lists="$apt/lists" -o Dir::State::status="$apt/status"
    -o Dir::Cache="$apt/cache" -o Dir::Etc::SourceList=/dev/null -o Dir::Etc::SourceParts="$apt/parts"
    -o APT::Architecture=arm64 -o APT::Architectures=arm64 -o APT::Sandbox::User=root)
  apt-get "${options[@]}" update
  (cd "$debian" && apt-get "${options[@]}" download "$@")
  for package in "$debian"/*.deb; do dpkg -x "$package" "$debian"; done
  rm "$debian"/*.deb
  touch "$stamp"
}

# python_wheels FOLDER PIP_ARGUMENT...: PyPI's for aarch64, unpacked. The wheels of this machine's
# Python will do: the libraries do not know Python.
python_wheels() {
  local folder=$1 stamp file glibc platforms=()
  shift
  stamp=$folder/done-$(echo "$@" | sha256sum | cut -c -12)
  [ ! -e "$stamp" ] || return 0
  for glibc in 17 24 25 26 27 28; do platforms+=(--platform "manylinux_2_${glibc}_aarch64"); done
  "${SLUICE_VENV:-$source/.venv}/bin/python" -m pip download -q --only-binary=:all: \
    "${platforms[@]}" --python-version 3.11 -d "$folder" "$@"
  for file in "$folder"/*.whl; do python3 -m zipfile -e "$file" "$folder"; done
  rm "$folder"/*.whl
  touch "$stamp"
}

# The emulator's root: libraries look at the processor's description, which it would show as this
# machine has it.
emulator_root() {
  mkdir -p "$build/root/proc"
  ln -sfn /usr/aarch64-linux-gnu/lib "$build/root/lib"
  ln -sfn "$debian/usr" "$build/root/usr"
  printf '%s\n' 'processor : 0' 'Features : fp asimd' 'CPU implementer : 0x41' \
    'CPU architecture: 8' 'CPU variant : 0x0' 'CPU part : 0xd03' 'CPU revision : 4' \
    >"$build/root/proc/cpuinfo"
}

# configure SOURCE FOLDER ARGUMENT...: a CMake project for the cross compiler.
configure() {
  local project=$1 folder=$2 launcher
  shift 2
  launcher=$(command -v ccache >/dev/null && echo -DCMAKE_CXX_COMPILER_LAUNCHER=ccache || true)
  cmake --no-warn-unused-cli -S "$project" -B "$folder" -G Ninja $launcher \
    -DCMAKE_SYSTEM_NAME=Linux -DCMAKE_SYSTEM_PROCESSOR=aarch64 \
    -DCMAKE_C_COMPILER=aarch64-linux-gnu-gcc -DCMAKE_CXX_COMPILER=aarch64-linux-gnu-g++ \
    -DCMAKE_CXX_FLAGS="-isystem $debian/usr/include -isystem $debian/usr/include/aarch64-linux-gnu" \
    -DCMAKE_EXE_LINKER_FLAGS="-Wl,-rpath-link,$libraries" \
    -DCMAKE_FIND_ROOT_PATH="$debian" -DCMAKE_FIND_ROOT_PATH_MODE_INCLUDE=ONLY \
    -DCMAKE_FIND_ROOT_PATH_MODE_LIBRARY=ONLY -DCMAKE_FIND_ROOT_PATH_MODE_PACKAGE=ONLY \
    -DCMAKE_LIBRARY_ARCHITECTURE=aarch64-linux-gnu \
    "$@" >"$folder.log" || {
    cat "$folder.log" >&2
    return 1
  }
}
