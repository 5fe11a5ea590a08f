#!/bin/sh
# npm.sh PACKAGES MODULES: installs what PACKAGES/package-lock.json names into MODULES, unless it is there. One instance
# installs, others wait for it.
set -eu
packages=$1
modules=$2
for command in node npm; do
    command -v $command >/dev/null || {
        echo "npm.sh: this test needs $command; dev/setup build installs it" >&2
        exit 1
    }
done
mkdir -p "$modules"
(
    flock 9
    cmp -s "$packages/package-lock.json" "$modules/installed" || {
        cp "$packages/package.json" "$packages/package-lock.json" "$modules"
        (cd "$modules" && npm ci --ignore-scripts --no-audit --no-fund --prefer-offline --silent)
        cp "$packages/package-lock.json" "$modules/installed"
    }
) 9>"$modules/.lock"
