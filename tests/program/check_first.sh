#!/bin/sh
# check_first.sh COMPILER SOURCE_DIR LIBRARY_DIR: the example of the README on every store, with nothing changed but the
# URL, and the one of claim mode, which the README names, likewise. SEMEL_TEST_SERVERS says where the servers are.
set -eu
compiler=$1 source=$2 library=$3
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cd "$scratch"
# shellcheck disable=SC1090 # made by dev/servers
. "$SEMEL_TEST_SERVERS"
export AWS_ACCESS_KEY_ID=emulator AWS_SECRET_ACCESS_KEY=emulator AWS_EC2_METADATA_DISABLED=true

build() { # build NAME URL: examples/NAME.c there, where each has a place of its own
    url=$(echo "$2" | sed "s/PLACE/$1/")
    sed "s|sqlite:[a-z]*[.]db|$url|" "$source/examples/$1.c" >"$1.c"
    changed=$(diff "$source/examples/$1.c" "$1.c" | grep -c '^>' || true)
    [ "$changed" = 1 ] || {
        echo "$1 on $url: $changed lines were changed" >&2
        exit 1
    }
    "$compiler" -I"$source/include" "$1.c" -o "$1" -L"$library" -lsemel -Wl,-rpath,"$library"
}

says() { # says NAME LINE…: what it prints
    name=$1
    shift
    printf '%s\n' "$@" >expected
    "./$name" >got
    diff expected got || {
        echo "$name: the example does something else on $url" >&2
        exit 1
    }
}

try() { # try URL
    build first "$1"
    says first 'charging order-1' 'copy 1: processed' 'copy 2: duplicate'
    says first 'copy 1: duplicate' 'copy 2: duplicate' # another process, another day
    build claim "$1"
    "./claim" >got
    [ "$(grep -c '^POST ' got)" = 1 ] || {
        echo "claim: not one call on $url" >&2
        exit 1
    }
    says claim 'replayed: charge ch_42' 'replayed: charge ch_42'
}

try sqlite:PLACE_there.db
[ -z "${POSTGRES_URL:-}" ] || try "$POSTGRES_URL?schema=PLACE_$$"
[ -z "${MARIADB_URL:-}" ] || try "$MARIADB_URL?prefix=PLACE_$$""_"
[ -z "${REDIS_URL:-}" ] || try "$REDIS_URL?namespace=PLACE_$$"
[ -z "${DYNAMODB_PORT:-}" ] || try "dynamodb://PLACE-$$?endpoint=http://127.0.0.1:$DYNAMODB_PORT"
