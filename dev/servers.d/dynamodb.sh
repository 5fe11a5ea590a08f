# shellcheck shell=sh disable=SC2154 # dev/servers sets home, dir and self
# dev/servers.d/dynamodb.sh: an emulator of DynamoDB (dynoxide, which keeps its tables in a file), for dev/servers.
# npm installs it as dev/servers.d/dynamodb/package-lock.json names it, once, into build/emulator. SEMEL_DYNOXIDE is
# another program.
DYNAMODB_PLACE=${SEMEL_EMULATOR_DIR:-$(cd "$(dirname "$0")/.." && pwd)/build/emulator}
DYNAMODB_PACKAGES=$(cd "$(dirname "$0")" && pwd)/servers.d/dynamodb

need_dynamodb() {
    need nodejs commands node
    need npm commands npm
}

user_dynamodb() { id -un; }

dynamodb_program() { echo "${SEMEL_DYNOXIDE:-$DYNAMODB_PLACE/node_modules/@dynoxide/linux-x64/dynoxide}"; }

# One instance installs, others wait for it. Afterwards it costs no more than a comparison, and no network.
install_dynamodb() {
    [ -z "${SEMEL_DYNOXIDE:-}" ] || return 0
    mkdir -p "$DYNAMODB_PLACE"
    (
        flock 9
        cmp -s "$DYNAMODB_PACKAGES/package-lock.json" "$DYNAMODB_PLACE/installed" || {
            command -v npm >/dev/null || die "npm is not installed; dev/setup servers does that"
            cp "$DYNAMODB_PACKAGES/package.json" "$DYNAMODB_PACKAGES/package-lock.json" "$DYNAMODB_PLACE"
            (cd "$DYNAMODB_PLACE" && npm ci --ignore-scripts --no-audit --no-fund --prefer-offline --silent)
            cp "$DYNAMODB_PACKAGES/package-lock.json" "$DYNAMODB_PLACE/installed"
        }
    ) 9>"$DYNAMODB_PLACE/.lock" >>"$home/log" 2>&1
}

init_dynamodb() { install_dynamodb && [ -x "$(dynamodb_program)" ]; }

port_dynamodb() { echo "$1" >"$home/port"; }

# The probe looks at the port, where another one may answer if ours has died.
dynamodb_answers_or_died() {
    are_gone "$pid" || "$(dynamodb_program)" healthcheck --host 127.0.0.1 --port "$(cat "$home/port")" >/dev/null 2>&1
}

launch_dynamodb() {
    setsid "$(dynamodb_program)" serve --host 127.0.0.1 --port "$(cat "$home/port")" --db-path "$home/tables.db" \
        </dev/null >>"$home/log" 2>&1 &
    pid=$!
    within "$START_S" dynamodb_answers_or_died && ! are_gone "$pid" && echo "$pid" >"$home/launched"
}

pid_dynamodb() { cat "$home/launched" 2>/dev/null || true; }

crash_dynamodb() {
    pid=$(pid_dynamodb)
    if is_ours "$pid"; then
        kill -KILL "$pid" 2>/dev/null || true
        within "$END_S" are_gone "$pid"
    fi
    rm -f "$home/launched"
}

halt_dynamodb() {
    pid=$(pid_dynamodb)
    kill -TERM "$pid" 2>/dev/null && within "$END_S" are_gone "$pid"
}

where_dynamodb() {
    cat <<END
DYNAMODB_URL=dynamodb://semel?endpoint=http://127.0.0.1:$1
DYNAMODB_HOST=127.0.0.1
DYNAMODB_PORT=$1
DYNAMODB_DIR=$home
DYNAMODB_PID_FILE=$home/launched
END
}
