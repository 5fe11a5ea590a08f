#!/bin/sh
# check_exports.sh NM LIBRARY [--update]: what the library exports is what tests/program/exports.txt lists, for
# libsemel.so and libsemel.a alike. A removed line breaks programs: then the SONAME has to change.
set -eu
list=$(dirname "$0")/exports.txt
case $2 in
*.a) dynamic= ;;
*) dynamic=-D ;;
esac
found=$(mktemp)
trap 'rm -f "$found"' EXIT
# "address type name@@VERSION"; type A is the name of the version itself.
"$1" $dynamic -g --defined-only "$2" | awk 'NF == 3 && $2 != "A" { sub(/@.*/, "", $3); print $3 }' |
    LC_ALL=C sort >"$found"
if [ "${3:-}" = --update ]; then
    cp "$found" "$list"
elif ! diff -u "$list" "$found"; then
    echo "the exports of $2 are not those of tests/program/exports.txt; if they should be: sh $0 $1 $2 --update"
    exit 1
fi
