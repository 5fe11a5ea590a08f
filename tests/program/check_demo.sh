#!/bin/sh
# check_demo.sh PROGRAM: `semel demo` in a pipe says what it should, ends as it should, and leaves nothing
# behind: no file, no process, also when it is told to stop in the middle.
set -eu
program=$1
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
TMPDIR=$scratch/tmp
export TMPDIR
mkdir "$TMPDIR"
out=$scratch/out
err=$scratch/err

wrong() {
    echo "check_demo: $1"
    cat "$out" "$err"
    exit 1
}

# expect STATUS ARGUMENT…: runs the program and looks at its exit status.
expect() {
    expected=$1
    shift
    status=0
    "$program" "$@" >"$out" 2>"$err" </dev/null || status=$?
    [ "$status" -eq "$expected" ] || wrong "semel $*: exit status $status, not $expected"
}

says() { # says FILE TEXT
    grep -q -e "$2" "$1" || wrong "it does not say: $2"
}

# The shops work in the directory of the demo, so it is by that that they are known.
shops() { find /proc/[0-9]*/cwd -maxdepth 0 -lname "$TMPDIR*" 2>/dev/null || true; }

nothing_is_left() {
    [ -z "$(ls -A "$TMPDIR")" ] || wrong "left behind: $(ls -AR "$TMPDIR")"
    [ -z "$(shops)" ] || wrong "still running: $(shops)"
}

# row LABEL: the two numbers of that row of the table.
row() {
    awk -F '|' -v label="$1" '{ name = $2; gsub(/^ +| +$/, "", name) }
        name == label { gsub(/ /, "", $3); gsub(/ /, "", $4); print $3, $4; found = 1 }
        END { exit !found }' "$out" || wrong "the table has no row: $1"
}

semel_is() { # semel_is LABEL NUMBER
    [ "$(row "$1" | cut -d ' ' -f 2)" = "$2" ] || wrong "$1 is not $2"
}

# --- the whole of it ---
expect 0 demo --charges 300 --kills 12 --seed 7
nothing_is_left
plain=$(LC_ALL=C tr -d '\n -~' <"$out" | wc -c)
[ "$plain" -eq 0 ] || wrong "there is more than plain ASCII on stdout"
plain=$(LC_ALL=C tr -d '\n -~' <"$err" | wc -c)
[ "$plain" -eq 0 ] || wrong "there is more than plain ASCII on stderr"
semel_is "charges due" 300
semel_is "charges made" 300
semel_is "double charges" 0
semel_is "charges missing" 0
semel_is "over-billed" EUR0.00
semel_is "events received" 300
semel_is "events missing" 0
semel_is "events doubled" 0
[ "$(row "kills survived")" = "12 12" ] || wrong "not killed as often as asked"
[ "$(row "duplicates suppressed" | cut -d ' ' -f 2)" -ge 90 ] || wrong "there were 90 copies at least"
says "$out" "^semel, killed 12 times, made 300 charges"
says "$err" "semel demo --charges 300 --kills 12 --seed 7"

# --- small, odd, kept ---
expect 0 demo --charges 2 --kills 9 --seed 1
nothing_is_left
expect 0 demo --charges 20 --kills 0 --seed 1
says "$out" "^naive got away with it"
expect 0 demo --charges 5 --kills 1 --keep "$scratch/kept"
for file in provider.db naive.db semel.db; do
    [ -s "$scratch/kept/$file" ] || wrong "--keep did not keep $file"
done
says "$err" "$scratch/kept"
expect 1 demo --charges 5 --kills 1 --keep "$scratch/kept"
nothing_is_left

# --- stopped in the middle ---
for signal in TERM=143 HUP=129; do
    "$program" demo --charges 20000 --kills 200 >"$out" 2>"$err" </dev/null &
    pid=$!
    tries=0
    while [ "$(shops | wc -l)" -lt 3 ] || [ ! -s "$(echo "$TMPDIR"/*/semel.db)" ]; do
        tries=$((tries + 1))
        [ "$tries" -lt 600 ] || wrong "the shops do not open"
        sleep 0.05
    done
    kill -s "${signal%=*}" "$pid"
    status=0
    wait "$pid" || status=$?
    [ "$status" -eq "${signal#*=}" ] || wrong "$signal expected, and status $status"
    nothing_is_left
done

# --- the command line ---
expect 0 --help
says "$out" "demo"
expect 0 help demo
says "$out" "^usage: semel demo"
expect 0 demo --help
says "$out" "^usage: semel demo"
expect 0 --version
says "$out" "^semel [0-9]"
expect 2 dmo
says "$err" 'did you mean "demo"'
expect 2 demo --charges none
says "$err" "charges takes a number"
expect 2 demo --frobnicate
expect 2 demo frobnicate
[ ! -s "$out" ] || wrong "a complaint went to stdout"
