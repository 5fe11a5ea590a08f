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
create='CREATE TABLE example_charge (order_id VARCHAR(36) NOT NULL, cents INTEGER NOT NULL)'
[ -z "${POSTGRES_URL:-}" ] || psql -qX "$POSTGRES_URL" -c "$create"
[ -z "${MARIADB_URL:-}" ] || mariadb --no-defaults -h "$MARIADB_HOST" -P "$MARIADB_PORT" -u root semel -e "$create"
"$program" | grep -qx 'first copy: processed, second copy: duplicate'
for url in "${POSTGRES_URL:-}" "${MARIADB_URL:-}"; do
    [ -n "$url" ] || continue
    "$program" "$url" | grep -qx 'first copy: processed, second copy: duplicate' || {
        echo "$url: the example did something else" >&2
        exit 1
    }
done
