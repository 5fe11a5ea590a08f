#!/bin/sh
# check_first.sh COMPILER SOURCE_DIR LIBRARY_DIR: the example of the README on every SQL store, with nothing changed
# but the URL. SEMEL_TEST_SERVERS says where the servers are.
set -eu
compiler=$1 source=$2 library=$3
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cd "$scratch"
# shellcheck disable=SC1090 # made by dev/servers
. "$SEMEL_TEST_SERVERS"

cat >expected <<'END'
charging order-1
copy 1: processed
copy 2: duplicate
END

try() {
    sed "s|sqlite:shop.db|$1|" "$source/examples/first.c" >first.c
    [ "$(diff "$source/examples/first.c" first.c | grep -c '^>')" = "$2" ] || {
        echo "$1: more than the URL was changed" >&2
        exit 1
    }
    "$compiler" -I"$source/include" first.c -o first -L"$library" -lsemel -Wl,-rpath,"$library"
    ./first >got
    diff expected got || {
        echo "$1: the example does something else there" >&2
        exit 1
    }
    ./first >got # another process, another day
    printf 'copy 1: duplicate\ncopy 2: duplicate\n' | diff - got
}

try sqlite:shop.db 0
[ -z "${POSTGRES_URL:-}" ] || try "$POSTGRES_URL?schema=first_$$" 1
[ -z "${MARIADB_URL:-}" ] || try "$MARIADB_URL?prefix=first_$$""_" 1
