#!/bin/sh
# check_pipeline.sh PROGRAM: the example of a pipeline on PostgreSQL and RabbitMQ, with nothing changed but the URLs.
# What it says of itself holds no password. SEMEL_TEST_SERVERS says where the servers are.
set -eu
program=$1
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cd "$scratch"
# shellcheck disable=SC1090 # made by dev/servers
. "$SEMEL_TEST_SERVERS"

fail() {
    echo "check_pipeline: $*" >&2
    cat got >&2
    exit 1
}

SEMEL_STORE="$POSTGRES_URL?schema=pipeline_$$" SEMEL_BROKER="$RABBITMQ_URL" "$program" >got || fail 'it failed'
tail -n 1 got | grep -qx '15 effects, 10 copies without one' || fail 'the effects are not what they should be'
grep -qE '^inbox +orders -> stock +exactly-once effects ' got || fail 'the grade is not told'
password=${RABBITMQ_URL#*://*:}
password=${password%%@*}
! grep -E '^(store|queue)' got | grep -qF -e ":$password@" -e 'schema=' -e 'exchange=' || fail 'it says too much'
