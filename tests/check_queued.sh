#!/bin/sh
# check_queued.sh PROGRAM: the example of queued statements on every SQL store. SEMEL_TEST_SERVERS says where the
# servers are.
set -eu
program=$1
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cd "$scratch"
# shellcheck disable=SC1090 # made by dev/servers
. "$SEMEL_TEST_SERVERS"
for url in sqlite:queued.db "${POSTGRES_URL:-}" "${MARIADB_URL:-}"; do
    [ -n "$url" ] || continue
    "$program" "$url" | grep -qx 'first copy: processed, second copy: duplicate' || {
        echo "$url: the example did something else" >&2
        exit 1
    }
done
