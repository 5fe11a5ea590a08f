# shellcheck shell=sh
# What the check_exec*.sh share; each of them sources it: a directory of its own, and what a call must answer.
set -eu
# shellcheck disable=SC2034 # the program
semel=$1
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cd "$scratch"
unset SEMEL_STORE SEMEL_CONFIG
export XDG_STATE_HOME="$scratch/state" TZ=UTC

fail() {
    echo "$*" >&2
    sed 's/^/  | /' out err >&2
    exit 1
}

# expect STATUS COMMAND...: what it prints is in out and err.
expect() {
    wanted=$1
    shift
    status=0
    "$@" >out 2>err || status=$?
    [ "$status" = "$wanted" ] || fail "$*: exit $status, not $wanted"
}

# says FILE TEXT: the whole file, with times replaced.
says() {
    sed -E 's/[0-9]{4}-[0-9]{2}-[0-9]{2} [0-9]{2}:[0-9]{2}:[0-9]{2}/TIME/g' "$1" >seen
    printf '%s' "$2" | cmp -s - seen || fail "$1 is not: $2"
}

# until COMMAND...: waits a minute for it to succeed.
until_true() {
    for _ in $(seq 600); do
        if "$@" >/dev/null 2>&1; then return 0; fi
        sleep 0.1
    done
    fail "in vain: $*"
}

# shellcheck disable=SC2034 # for those who source this
newline='
'
