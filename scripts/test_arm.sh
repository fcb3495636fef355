#!/bin/sh
# Runs the core's tests as a 64-bit Arm program under emulation, and compares whole forwards with
# this machine's, bit for bit: test_arm.sh VENV
set -eu

bin=$PWD/$1/bin
packages="g++-aarch64-linux-gnu qemu-user"

if ! command -v aarch64-linux-gnu-g++ >/dev/null || ! command -v qemu-aarch64 >/dev/null; then
    if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
        echo "test-arm needs a compiler for Arm and an emulator; install them with" \
            "'apt install $packages', or what your system calls them" >&2
        exit 1
    fi
    echo "test-arm: installing $packages"
    apt-get install -y --no-install-recommends $packages >/dev/null
fi

# build NAME OPTION...: builds the native tests in build/NAME.
build() {
    name=$1
    shift
    "$bin/cmake" -S . -B "build/$name" -G Ninja -DCMAKE_MAKE_PROGRAM="$bin/ninja" \
        -DCMAKE_BUILD_TYPE=Release -DMAGLIO_PYTHON=OFF -DMAGLIO_NATIVE_TESTS=ON "$@" >/dev/null
    "$bin/cmake" --build "build/$name"
}

build native
build arm -DCMAKE_SYSTEM_NAME=Linux -DCMAKE_SYSTEM_PROCESSOR=aarch64 \
    -DCMAKE_CXX_COMPILER=aarch64-linux-gnu-g++ -DCMAKE_EXE_LINKER_FLAGS=-static \
    -DCMAKE_CROSSCOMPILING_EMULATOR=qemu-aarch64

(cd build/arm && "$bin/ctest" --output-on-failure)

# Lines of "model format digest kernels".
build/native/tests/native/forward_digest >build/digests-native
qemu-aarch64 build/arm/tests/native/forward_digest >build/digests-arm
cat build/digests-native build/digests-arm
for machine in native arm; do
    cut -d ' ' -f 1-3 "build/digests-$machine" >"build/digests-$machine-only"
done
if ! diff build/digests-native-only build/digests-arm-only; then
    echo "test-arm: the forwards above differ between processors" >&2
    exit 1
fi
echo "test-arm: all forwards have the same bits"
