#!/bin/sh
# check_queued.sh PROGRAM: the example of queued statements on every store, with SQL and without. SEMEL_TEST_SERVERS
# says where the servers are.
set -eu
program=$1
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cd "$scratch"
# shellcheck disable=SC1090 # made by dev/servers
. "$SEMEL_TEST_SERVERS"
export AWS_ACCESS_KEY_ID=emulator AWS_SECRET_ACCESS_KEY=emulator AWS_EC2_METADATA_DISABLED=true
create='CREATE TABLE example_charge (order_id VARCHAR(36) NOT NULL, cents INTEGER NOT NULL)'
[ -z "${POSTGRES_URL:-}" ] || psql -qX "$POSTGRES_URL" -c "$create"
[ -z "${MARIADB_URL:-}" ] || mariadb --no-defaults -h "$MARIADB_HOST" -P "$MARIADB_PORT" -u root semel -e "$create"

try() { # try [URL [STATEMENT]]
    "$program" "$@" | grep -qx 'first copy: processed, second copy: duplicate' || {
        echo "$*: the example did something else" >&2
        exit 1
    }
}

once() { # once WHERE EXPECTED FOUND
    [ "$2" = "$3" ] || {
        echo "$1 has $3, not $2" >&2
        exit 1
    }
}

ask_dynamodb() { # ask_dynamodb OPERATION REQUEST
    curl -sSf --aws-sigv4 aws:amz:us-east-1:dynamodb -u emulator:emulator -H "x-amz-target: DynamoDB_20120810.$1" \
        -H 'content-type: application/x-amz-json-1.0' -d "$2" "http://127.0.0.1:$DYNAMODB_PORT/"
}

on_redis() {
    own=queued_$$
    try "$REDIS_URL?namespace=$own" "HINCRBY {$own}example_charge ? ?"
    once Redis 990 "$(redis-cli -h "$REDIS_HOST" -p "$REDIS_PORT" -a semel --no-auth-warning \
        HGET "{$own}example_charge" order-1)"
}

on_dynamodb() {
    own=queued-$$
    ask_dynamodb CreateTable '{"TableName": "'$own-charges'", "BillingMode": "PAY_PER_REQUEST",
        "AttributeDefinitions": [{"AttributeName": "order_id", "AttributeType": "B"}],
        "KeySchema": [{"AttributeName": "order_id", "KeyType": "HASH"}]}' >answer
    try "dynamodb://$own?endpoint=http://127.0.0.1:$DYNAMODB_PORT" \
        "INSERT INTO \"$own-charges\" VALUE {'order_id': ?, 'cents': ?}"
    ask_dynamodb Scan '{"TableName": "'$own-charges'", "ConsistentRead": true}' >answer
    once DynamoDB '"N":"990"' "$(tr -d ' ' <answer | grep -o '"N":"[0-9]*"')"
}

try
[ -z "${POSTGRES_URL:-}" ] || try "$POSTGRES_URL"
[ -z "${MARIADB_URL:-}" ] || try "$MARIADB_URL"
[ -z "${REDIS_URL:-}" ] || on_redis
[ -z "${DYNAMODB_PORT:-}" ] || on_dynamodb
