"""Colour: on a terminal only, refused by NO_COLOR, TERM=dumb and --color never, asked for by --color always. What a
pipe gets has no escapes, and without its escapes what a terminal gets is the same text."""
import re
import sys

from program_kit import Run, environment, expect, expect_true, main, semel, write

RED, YELLOW, GREEN, BOLD, DIM, END = "\033[31m", "\033[33m", "\033[32m", "\033[1m", "\033[2m", "\033[0m"
TERMINAL = {"TERM": "xterm"}

WRONG = """version: 1
store: sqlite:shop.db
queues: { orders: store, spare: store }
inboxes:
  payments: { from: orders, sql: SELECT 1, retenton: 14d }
"""

FAILING = """version: 1
store: sqlite:shop.db
setup: CREATE TABLE IF NOT EXISTS ledger (order_id INTEGER)
queues: { orders: { url: store, backoff: 1ms } }
inboxes:
  payments: { from: orders, key: json:/order_id, sql: INSERT INTO ledger VALUES (:json/order_id) }
  broken: { from: orders, attempts_max: 2, exec: [sh, -c, 'echo no >&2; exit 1'] }
tests:
  - name: one
    given: { to: orders, body: { order_id: 7 } }
    expect: { inboxes: { payments: processed } }
  - name: two
    given: { to: orders, body: { order_id: 7 } }
    expect: { inboxes: { payments: duplicate } }
"""


def plain(text):
    return re.sub("\033\\[[0-9]*m", "", text)


def on_terminal(command, *arguments, status=0, env=None):
    return Run(*arguments, command=command, terminal=True, env={**TERMINAL, **(env or {})}).ends(status)


def diagnostics_have_colour():
    write("semel.yaml", WRONG)
    piped = "".join(semel("check", status=3))
    shown = on_terminal("check", status=3)
    expect_true(f"{RED}error:{END} inboxes.payments: unknown option" in shown, shown)
    expect_true(re.search(f"{re.escape(RED)} +\\^~~~~~~~{re.escape(END)}", shown), shown)
    expect_true(f"{YELLOW}warning:{END} queues.spare" in shown, shown)
    expect("the same text", piped, plain(shown))
    expect_true("\033" not in piped, piped)


def colour_can_be_refused():
    write("semel.yaml", WRONG)
    for env, options in (({"NO_COLOR": "1"}, []), ({"TERM": "dumb"}, []), ({"TERM": ""}, []), ({}, ["--color=never"])):
        shown = on_terminal("check", *options, status=3, env=env)
        expect_true("error:" in shown and "\033" not in shown, f"{env} {options}: {shown!r}")
    shown = on_terminal("check", status=3, env={"NO_COLOR": ""})
    expect_true(RED in shown, "an empty NO_COLOR is not set")


def colour_can_be_asked_for():
    write("semel.yaml", WRONG)
    shown = semel("check", "--color", "always", status=3, env={"NO_COLOR": "1"})[1]
    expect_true(f"{RED}error:{END}" in shown, shown)
    expect("the word is checked",
           "semel check: --color is auto, always or never, not \"blue\"\ntry: semel help check\n",
           semel("check", "--color", "blue", status=2)[1])
    expect_true(f"{BOLD}publish    {END}" in semel("help", "--color=always")[0], "names of commands")
    expect_true(BOLD not in semel("help")[0], "no colour in a pipe")
    expect_true("did you mean --color?" in semel("publish", "--colour", "always", status=2)[1], "the nearest option")


def tests_have_colour():
    write("semel.yaml", FAILING)
    piped = semel("test", "--no-kills", status=1)[0]
    shown = on_terminal("test", "--no-kills", status=1)
    expect_true(f"{GREEN}ok  {END}  one: " in shown and f"{RED}FAIL{END}  two  " in shown, shown)

    def untimed(text):
        return re.sub(r"\d+\.\d s", "0 s", text)
    expect("the same text", untimed(piped), untimed(plain(shown)))
    expect_true("\033" not in piped, piped)


def the_log_has_colour():
    write("semel.yaml", FAILING)
    semel("publish", "orders", '{"order_id": 1}')
    shown = on_terminal("run", "--once")
    expect_true(re.search(f"{re.escape(DIM)}\\d\\d:\\d\\d:\\d\\d.\\d\\d\\d{re.escape(END)}  semel ", shown), shown)
    expect_true(f"{YELLOW}warning{END}: {BOLD}broken{END}: " in shown, shown)
    expect_true(f"  {BOLD}payments{END}  1  " in shown, shown)
    lines = semel("run", "--once", "--log-format", "text")[1]
    expect_true("ready in" in lines and "\033" not in lines, lines)


STATES = """version: 1
store: sqlite:shop.db
queues: { orders: { url: store, backoff: 1h, backoff_max: 1h } }
inboxes:
  fine: { from: orders, key: json:/n, exec: ["true"] }
  later: { from: orders, key: json:/n, attempts_max: 3, exec: ["false"] }
  hopeless: { from: orders, key: json:/n, attempts_max: 1, exec: ["false"] }
"""


def tables_have_colour():
    write("semel.yaml", STATES)
    semel("publish", "orders", '{"n": 7}')
    semel("run", "--once")
    piped = semel("inbox", "show", "7")[0]
    expect_true("\033" not in piped and "fine      done " in piped, piped)
    shown = on_terminal("inbox", "show", "7")
    expect_true(shown.startswith(f"{BOLD}INBOX{END}     {BOLD}STATE{END}   {BOLD}ATTEMPTS{END}  {BOLD}SINCE"), shown)
    for inbox, state, colour in (("fine", "done", GREEN), ("later", "failed", YELLOW), ("hopeless", "dead", RED)):
        expect_true(re.search(f"^{inbox} +{re.escape(colour + state + END)} +[0-9-]", shown, flags=re.M), shown)
    expect_true(plain(shown).startswith(piped), "the same text, with the same columns")
    expect_true(f"{RED}dead{END}" in semel("inbox", "ls", "hopeless", "--color", "always")[0], "asked for")
    for env, options in (({"NO_COLOR": "1"}, []), ({"TERM": "dumb"}, []), ({}, ["--color", "never"])):
        shown = on_terminal("inbox", "ls", "hopeless", *options, env=env)
        expect_true("dead" in shown and "\033" not in shown, f"{env} {options}: {shown!r}")
    expect_true("\033" not in semel("inbox", "show", "7", "--json", "--color", "always")[0], "JSON has none")
    top = Run("--plain", "--every", "100ms", "--color", "always", command="top")
    top.says("hopeless ")
    expect_true("\033" not in top.text(), "a page whose columns are counted has none")


def doctor_has_colour():
    write("semel.yaml", STATES.replace('["false"] }\n  hope', '[./missing.sh] }\n  hope'))
    piped = "".join(semel("doctor", status=1))
    shown = on_terminal("doctor", status=1)
    expect("the same text", piped, plain(shown))
    expect_true("\033" not in piped, piped)
    expect_true(f"{GREEN}ok{END}       config, " in shown and f"{BOLD}grade{END}    " in shown, shown)
    expect_true(f"{RED}error{END}    {BOLD}handlers{END}    later: " in shown, shown)
    expect_true(f"{RED}not ready to run{END}: 1 error" in shown, shown)


if __name__ == "__main__":
    expect_true(environment()["TERM"] == "dumb", "the kit's default is no colour")
    sys.exit(main(diagnostics_have_colour, colour_can_be_refused, colour_can_be_asked_for, tests_have_colour,
                  the_log_has_colour, tables_have_colour, doctor_has_colour))
