#!/bin/sh
# Make the Python environment of the Makefile, if it is missing, broken, or another interpreter's.
# Usage: make_environment.sh PYTHON FOLDER this|any
#   any: an environment that works is kept, whatever interpreter made it.
set -u
python=$1
folder=$2
wanted=$3

fail() {
    echo "maglio: $1" >&2
    exit 1
}

identity() {
    "$1" -c 'import sys; print(sys.version.split()[0], sys.base_prefix)' 2>/dev/null
}

present=$(identity "$folder/bin/python") || present=
if [ -n "$present" ]; then
    if [ "$wanted" = any ] || [ "$present" = "$(identity "$python")" ]; then
        [ -e "$folder/.interpreter" ] || echo "$present" >"$folder/.interpreter"
        exit 0
    fi
fi

other="or name another one, such as: make run PYTHON=python3.12"
command -v "$python" >/dev/null 2>&1 ||
    fail "there is no $python; install Python 3.10 or later, such as: apt install python3; $other"
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 10))' 2>/dev/null ||
    fail "$python is $("$python" --version 2>&1); install Python 3.10 or later, $other"
"$python" -c 'import venv, ensurepip' 2>/dev/null ||
    fail "$python has no venv module; install it, such as: apt install python3-venv; $other"

# Whatever was installed or configured for another interpreter is of no use to this one.
rm -rf "$folder" build/cp*/CMakeCache.txt build/cp*/CMakeFiles/[0-9]*
"$python" -m venv "$folder" || fail "$python cannot make an environment in $folder"
identity "$python" >"$folder/.interpreter"
