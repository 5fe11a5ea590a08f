#!/bin/sh
# check_statements.sh SEMEL: `semel check` with a store that is a server: what it rejects is shown at its place, and
# nothing is made there. SEMEL_TEST_SERVERS says where the servers are.
set -eu
semel=$1
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
# shellcheck disable=SC1090 # made by dev/servers
. "$SEMEL_TEST_SERVERS"
cd "$scratch"
umask 077
cat >shop.yaml <<END
version: 1
store: $POSTGRES_URL
setup: CREATE TABLE IF NOT EXISTS ledger_$$ (order_id BIGINT, amount BIGINT)
queues: { orders: store }
inboxes:
  payments:
    from: orders
    key: json:/order_id
    sql: INSERT INTO ledger_$$ (order_id, amnt) VALUES (:json/order_id, :json/amount)
END
cat >expected <<END
shop.yaml:9:XX: error: inboxes.payments.sql: rejected by the store: column "amnt" of relation "ledger" does not exist
    9 |     sql: INSERT INTO ledger (order_id, amnt) VALUES (:json/order_id, :json/amount)
      |                                        ^~~~
shop.yaml: 1 error
END
exit_status=0
"$semel" check shop.yaml >out 2>&1 || exit_status=$?
[ "$exit_status" = 3 ]
# Without the number of this process, which makes the table's name longer; the caret is that much further.
number="_$$"
blanks=$(printf '%*s' ${#number} '')
sed "s/$number//; s/^shop.yaml:9:$((40 + ${#number})):/shop.yaml:9:XX:/; s/^\(      |.*\)$blanks^/\1^/" out |
    diff -u expected -
[ -z "$(psql -qXAt "$POSTGRES_URL" -c "SELECT to_regclass('ledger_$$')")" ]
sed 's/amnt/amount/' shop.yaml >good.yaml
"$semel" check good.yaml >out 2>&1
! grep -q 'not checked' out
