#!/bin/sh
# run.sh MODULES SCRIPT [ARGUMENT…]: a test of the page, with its packages installed into MODULES first (playwright-core
# and axe-core, as package-lock.json names them), unless they are there. SEMEL_PAGE_SHOTS leaves pictures of all screens
# in that directory.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
modules=$1
script=$2
shift 2
for command in node npm chromium; do
    command -v $command >/dev/null || {
        echo "run.sh: the tests of the page need $command; dev/setup test installs it" >&2
        exit 1
    }
done
mkdir -p "$modules"
(
    flock 9
    cmp -s "$here/package-lock.json" "$modules/installed" || {
        cp "$here/package.json" "$here/package-lock.json" "$modules"
        (cd "$modules" && npm ci --ignore-scripts --no-audit --no-fund --prefer-offline --silent)
        cp "$here/package-lock.json" "$modules/installed"
    }
) 9>"$modules/.lock"
SEMEL_PAGE_MODULES=$modules exec node "$here/$script" "$@"
