#!/bin/sh
# pip install; where it fails, one line says what to install.
# Usage: install_packages.sh FOLDER ARGUMENTS...
#   FOLDER: the environment; pip's own words are kept in it, as pip.log.
set -u
folder=$1
shift
log=$folder/pip.log

"$folder/bin/python" -m pip install --quiet "$@" >"$log" 2>&1 && exit 0

has() {
    grep -qE "$1" "$log"
}

if has 'No CMAKE_CXX?_COMPILER could be found|CMAKE_CXX?_COMPILER not set'; then
    reason="there is no C++ compiler; install one, such as: apt install g++"
elif has 'Could NOT find Python|Python\.h: No such file'; then
    reason="the headers of Python are missing; install them, such as: apt install python3-dev"
elif has 'No space left on device'; then
    reason="there is no space left on the disk; make some"
elif has 'NewConnectionError|ConnectTimeout|ReadTimeout|name resolution|Network is unreachable|ProxyError|No matching distribution'; then
    reason="the package index cannot be reached, or lacks a package; connect to the network, or set PIP_INDEX_URL"
else
    cat "$log" >&2
    reason="pip install $* failed"
fi
echo "maglio: $reason (pip's words: $log)" >&2
exit 1
