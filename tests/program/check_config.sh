#!/bin/sh
# check_config.sh SEMEL SOURCE: what `semel check` says about each bad file, compared with the file of the same name in
# .txt; good files; dump, explain, schema and the reference page; and that no secret is shown anywhere. The secrets in
# the files are called canary-1, canary-2 and so on. UPDATE=1 writes the .txt files instead.
set -u
semel=$1
source=$2
files=$source/tests/program/config
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
failed=0
export PATH="/usr/bin:/bin" LC_ALL=C
unset SEMEL_CONFIG PG_PASSWORD

complain() {
    echo "$*" >&2
    failed=1
}

# What a command printed, and its exit status, against a file.
compare() {
    if [ "${UPDATE:-}" ]; then
        cp "$scratch/out" "$1"
    elif ! diff -u "$1" "$scratch/out" >&2; then
        complain "different from ${1##*/}"
    fi
    if grep -q 'canary' "$scratch/out"; then
        complain "${1##*/}: a secret is shown"
    fi
}

# Git keeps no modes: others may read the files, and write one of them.
cp -R "$files/bad" "$files/good" "$files/statements" "$scratch"
rm "$scratch"/statements/*.txt
chmod 644 "$scratch"/bad/* "$scratch"/good/*
chmod 666 "$scratch/bad/writable.yaml"
chmod 600 "$scratch/good/literal.yaml" "$scratch/bad/two.lines"
chmod 600 "$scratch"/good/*.password "$scratch"/good/*.token

cd "$scratch/bad" || exit 1
for file in *.yaml; do
    "$semel" check --offline "$file" >"$scratch/out" 2>&1
    echo "# exit $?" >>"$scratch/out"
    compare "$files/bad/${file%.yaml}.txt"
done
"$semel" check --json secrets.yaml >"$scratch/out" 2>&1
compare "$files/bad/secrets.json.txt"
[ "$("$semel" check --all many.yaml 2>&1 | grep -c error:)" = 25 ] || complain "--all does not show all"

cd "$scratch/good" || exit 1
for file in *.yaml; do
    "$semel" check --offline "$file" >"$scratch/out" 2>&1
    echo "# exit $?" >>"$scratch/out"
    compare "$files/good/${file%.yaml}.txt"
    "$semel" config dump -c "$file" >"dumped-$file" 2>"$scratch/out" || complain "$file cannot be dumped"
    chmod 600 "dumped-$file"
    "$semel" check --offline "dumped-$file" >>"$scratch/out" 2>&1 || complain "the dump of $file is not valid"
    "$semel" config dump -c "dumped-$file" >again.yaml
    sed 's/ *# .*//' "dumped-$file" >first
    sed 's/ *# .*//' again.yaml | cmp -s first - || complain "the dump of $file means something else"
    if grep -l canary "dumped-$file" "$scratch/out"; then
        complain "the dump of $file shows a secret"
    fi
    rm -f "dumped-$file" again.yaml first
done

# The places where a config lies.
cp init.yaml semel.yaml
chmod 640 semel.yaml
[ "$("$semel" check 2>&1 | tail -n 1)" = "semel.yaml is valid: 1 queue, 2 inboxes, 1 test" ] || complain "./semel.yaml"
rm semel.yaml
[ "$(SEMEL_CONFIG=minimal.yaml "$semel" check 2>&1 | tail -n 1)" = "minimal.yaml is valid: 1 queue, 1 inbox" ] ||
    complain "SEMEL_CONFIG"
[ "$("$semel" check -c minimal.yaml 2>&1 | tail -n 1)" = "minimal.yaml is valid: 1 queue, 1 inbox" ] || complain "-c"

# One line each: the arguments; the output is compared with explain.txt and arguments.txt.
while read -r path; do
    echo "\$ semel config explain '$path'"
    "$semel" config explain -c full.yaml "$path" 2>&1
    echo "# exit $?"
done <"$files/explain.list" >"$scratch/out"
compare "$files/explain.txt"

while read -r words; do
    echo "\$ semel config explain $words"
    eval "'$semel' config explain -c full.yaml $words" 2>&1
    echo "# exit $?"
done <"$files/explain_set.list" >"$scratch/out"
compare "$files/explain_set.txt"

while read -r words; do
    echo "\$ semel check $words" | sed 's/canary/password/'
    eval "'$semel' check $words" 2>&1
    echo "# exit $?"
done <"$files/arguments.list" >"$scratch/out"
compare "$files/arguments.txt"

# Statements are tried where the store is, or where it would be: nothing is made or changed by that.
cd "$scratch/statements" || exit 1
"$semel" check amnt.yaml >"$scratch/out" 2>&1
echo "# exit $?" >>"$scratch/out"
compare "$files/statements/amnt.txt"
[ "$(ls -A)" = amnt.yaml ] || complain "check leaves files behind: $(ls -A)"
mkdir temporary
TMPDIR=$PWD/temporary "$semel" check amnt.yaml >"$scratch/out" 2>&1
rmdir temporary || complain "check leaves its temporary store behind"
grep -v -e ordr_id -e FORM amnt.yaml | sed 's/amnt/amount/' >good.yaml
"$semel" check good.yaml >"$scratch/out" 2>&1 || complain "statements that are right are refused"
"$semel" run --once -c good.yaml >"$scratch/out" 2>&1 || complain "good.yaml cannot be run"
before=$(cksum <shop.db)
"$semel" check amnt.yaml >"$scratch/out" 2>&1
echo "# exit $?" >>"$scratch/out"
compare "$files/statements/amnt.txt"
[ "$(cksum <shop.db)" = "$before" ] || complain "check changes the store"
sed 's/sqlite:shop.db/sqlite:no.db/; /^setup/d' amnt.yaml >bare.yaml
"$semel" check bare.yaml >"$scratch/out" 2>&1 || complain "what cannot be checked is refused"
grep -q '^bare.yaml: statements of sql were not checked: the store does not exist yet, and there' "$scratch/out" ||
    complain "what is not checked is not said"
sed 's/CREATE TABLE/CREATE TABEL/' amnt.yaml >setup.yaml
"$semel" check --offline setup.yaml >"$scratch/out" 2>&1 && complain "a wrong setup is accepted"
grep -q '^setup.yaml:3:8: error: setup: rejected by the store: near "TABEL"' "$scratch/out" || complain "a wrong setup"
cd "$scratch/good" || exit 1

for path in store.url queues.orders.url inboxes.a.http inboxes.a.http.url inboxes.a.http.headers inboxes.b.exec.env; do
    "$semel" config explain -c literal.yaml "$path" >"$scratch/out" 2>&1 || complain "$path is not explained"
    "$semel" config explain -c literal.yaml --set "$path=x" "$path" >>"$scratch/out" 2>&1
    grep -q canary "$scratch/out" && complain "$path shows a secret"
done

# Values of variables are not shown either.
# shellcheck disable=SC2016 # semel substitutes them
SECRET_NAME=canary-12 SECRET_PASSWORD='canary-13@/%' "$semel" config dump -c init.yaml \
    --set 'store=postgres://${SECRET_NAME}:${SECRET_PASSWORD}@host/${SECRET_NAME}' >"$scratch/out" 2>&1 ||
    complain "substitutions of --set are refused"
grep -q 'SECRET_PASSWORD' "$scratch/out" || complain "the dump does not show what was written"
grep -q canary "$scratch/out" && complain "the dump shows the value of a variable"

"$semel" config reference | diff -u "$source/docs/CONFIG.md" - >&2 ||
    complain "docs/CONFIG.md is not what the table of options says: semel config reference >docs/CONFIG.md"
"$semel" schema >"$scratch/schema.json" || complain "there is no schema"
"$semel" help config >"$scratch/help" || complain "there is no help for the config"
exit $failed
