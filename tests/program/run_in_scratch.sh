#!/bin/sh
# run_in_scratch.sh PROGRAM [ARGUMENT…]: runs it in an empty directory that is gone afterwards.
set -eu
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cd "$scratch"
"$@"
