#!/bin/sh
# run.sh MODULES SCRIPT [ARGUMENT…]: a test of the page, with its packages installed into MODULES first (playwright-core
# and axe-core, as package-lock.json names them), unless they are there. SEMEL_PAGE_SHOTS leaves pictures of all screens
# in that directory.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
modules=$1
script=$2
shift 2
command -v chromium >/dev/null || {
    echo "run.sh: the tests of the page need chromium; dev/setup test installs it" >&2
    exit 1
}
sh "$here/../support/process/npm.sh" "$here" "$modules"
SEMEL_PAGE_MODULES=$modules exec node "$here/$script" "$@"
