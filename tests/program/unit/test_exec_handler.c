/* The exec handler with programs that behave badly in every way that was thought of. */
#include "program/handler/drain.h"
#include "program/unit/handler_kit.h"

#include "support/process/process.h"
#include "support/process/threads.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { SHORT_MS = 300, LEASE_MS = 1500, FLOOD_LIMIT = 4096, TRACEPARENT_LEN = 55 };

static handler_kit *kit;

static int open_kit(void **state)
{
    static handler_kit one;
    (void)state;
    one = (handler_kit){.attempts_max = 100};
    kit = &one;
    drain_reset();
    kit_open(kit, &exec_handler);
    return 0;
}

/* Handlers get the environment of the program, and that of the tests has a SEMEL_ of its own. */
static int forget_servers(void **state)
{
    (void)state;
    return unsetenv("SEMEL_TEST_SERVERS");
}

static int close_kit(void **state)
{
    (void)state;
    kit_close(kit);
    return 0;
}

/* --- what a handler gets ---------------------------------------------------------------------- */

static void body_and_metadata_arrive(void **state)
{
    (void)state;
    kit_script(kit, "cat >body; env | grep ^SEMEL_ | grep -v ^SEMEL_TEST_ | sort >env; "
                    "pwd >directory");
    semel_header headers[] = {
        {"traceparent", semel_str("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")}};
    semel_message message = {.size = sizeof message,
                             .id = semel_str("m-1"),
                             .type = "order.placed",
                             .headers = headers,
                             .header_count = 1,
                             .body = semel_str("{\"order\": 7}\n")};
    assert_int_equal(kit_receive_message(kit, &message), SEMEL_PROCESSED);
    assert_string_equal(kit_file(kit, "body"), "{\"order\": 7}\n");
    char passed_on[SEMEL_IDEMPOTENCY_KEY_SIZE], expected[1024];
    OK(semel_inbox_idempotency_key(passed_on, kit->inbox, &message, &last_error));
    (void)snprintf(expected, sizeof expected,
                   "SEMEL_ATTEMPT=1\nSEMEL_IDEMPOTENCY_KEY=%s\nSEMEL_INBOX=mail.receipt\n"
                   "SEMEL_KEY=m-1\nSEMEL_MESSAGE_ID=m-1\nSEMEL_TRACEPARENT=00-4bf92f3577b34da6a3ce"
                   "929d0e0e4736-00f067aa0ba902b7-01\nSEMEL_TYPE=order.placed\n",
                   passed_on);
    assert_string_equal(kit_file(kit, "env"), expected);
    assert_int_equal(
        strncmp(kit_file(kit, "directory"), kit->directory.path, strlen(kit->directory.path)), 0);
}

static void configured_variables_replace_those_of_semel(void **state)
{
    static const config_pair pairs[] = {{"MAIL_FROM", "shop@example.com"},
                                        {"HOME", "/nowhere"},
                                        {"SEMEL_KEY", "a message's name stays the message's"}};
    (void)state;
    kit->config.exec.env = (config_pairs){pairs, 3};
    kit_script(kit, "echo \"$MAIL_FROM $HOME $SEMEL_KEY\" >seen; tr '\\0' '\\n' </proc/$$/environ "
                    "| grep -cE '^(HOME|SEMEL_KEY)=' >>seen");
    assert_int_equal(kit_receive(kit, "m-1", ""), SEMEL_PROCESSED);
    assert_string_equal(kit_file(kit, "seen"), "shop@example.com /nowhere m-1\n2\n");
}

/* Everything that a message can say, in every field. The handler writes down what it got. */
static void hostile_fields_are_values(void **state)
{
    static const char *const nasty[] = {"$(touch pwned)",
                                        "`touch pwned`",
                                        "; touch pwned",
                                        "a\nLD_PRELOAD=/tmp/evil.so",
                                        "LD_PRELOAD=/tmp/evil.so",
                                        "--help",
                                        "=",
                                        "a=b",
                                        "\x1b[31m",
                                        "'\"\\",
                                        "%s%n%x",
                                        "\xff\xfe",
                                        "PATH=/tmp",
                                        "| touch pwned",
                                        "\r\n",
                                        "-",
                                        "*",
                                        "../../etc/passwd"};
    (void)state;
    kit_script(kit, "cat >>bodies; env -0 | tr '\\0\\n' '\\n\\r' | grep -a ^LD_PRELOAD >>preload; "
                    "env -0 | tr '\\0\\n' '\\n\\r' | grep -ac ^PATH= >>paths; exit 0");
    for (size_t i = 0; i < sizeof nasty / sizeof *nasty; i++) {
        semel_header headers[] = {{"x-custom", semel_str(nasty[i])},
                                  {"traceparent", semel_str(nasty[i])},
                                  {"LD_PRELOAD", semel_str("/tmp/evil.so")}};
        semel_message message = {.size = sizeof message,
                                 .id = semel_str(nasty[i]),
                                 .source = nasty[i],
                                 .type = nasty[i],
                                 .topic = nasty[i],
                                 .group = nasty[i],
                                 .correlation_id = semel_str(nasty[i]),
                                 .content_type = nasty[i],
                                 .headers = headers,
                                 .header_count = 3,
                                 .body = semel_str(nasty[i])};
        if (kit_receive_message(kit, &message) != SEMEL_PROCESSED)
            fail_msg("%s: %s", nasty[i], last_error.text);
    }
    assert_string_equal(kit_file(kit, "preload"), "");
    assert_string_equal(kit_file(kit, "pwned"), "");
    for (const char *at = kit_file(kit, "paths"); *at; at += 2)
        assert_memory_equal(at, "1\n", 2);
}

static void keys_that_are_not_text_are_hexadecimal(void **state)
{
    static const char id[] = {0, (char)0xff, ':'};
    (void)state;
    kit_script(kit, "echo \"$SEMEL_KEY $SEMEL_MESSAGE_ID\" >seen");
    semel_message message = {.size = sizeof message, .id = {id, sizeof id}};
    assert_int_equal(kit_receive_message(kit, &message), SEMEL_PROCESSED);
    assert_string_equal(kit_file(kit, "seen"), "hex:00ff3a hex:00ff3a\n");
}

static void a_traceparent_that_is_none_is_not_passed_on(void **state)
{
    static const char *const wrong[] = {"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-0",
                                        "00-4BF92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
                                        "00_4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
                                        "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"};
    (void)state;
    kit_script(kit, "env | grep SEMEL_TRACEPARENT >>seen; exit 0");
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        char id[] = {(char)('a' + i), 0};
        semel_header header = {"traceparent", semel_str(wrong[i])};
        semel_message message = {
            .size = sizeof message, .id = semel_str(id), .headers = &header, .header_count = 1};
        assert_int_equal(kit_receive_message(kit, &message), SEMEL_PROCESSED);
    }
    assert_string_equal(kit_file(kit, "seen"), "");
}

static void only_three_files_are_open(void **state)
{
    (void)state;
    int leaked[2];
    assert_int_equal(pipe(leaked), 0); /* without O_CLOEXEC */
    kit_script(kit, "ls /proc/$$/fd | tr '\\n' ' ' >seen");
    assert_int_equal(kit_receive(kit, "m-1", ""), SEMEL_PROCESSED);
    /* 3 may be the shell's own, for the redirection; the pipe's two ends are higher */
    const char *seen = kit_file(kit, "seen");
    char number[16];
    for (int i = 0; i < 2; i++) {
        (void)snprintf(number, sizeof number, " %d ", leaked[i]);
        assert_null(strstr(seen, number));
        assert_int_equal(close(leaked[i]), 0);
    }
    assert_int_equal(strncmp(seen, "0 1 2 ", 6), 0);
}

/* 32 and 33 are the C library's own; no program can set them. */
#define LIBRARY_SIGNALS 0x180000000ull

static void signals_are_as_they_were_in_the_beginning(void **state)
{
    (void)state;
    kit_script(kit, "grep -E '^Sig(Blk|Ign)' /proc/self/status >seen");
    assert_int_equal(kit_receive(kit, "m-1", ""), SEMEL_PROCESSED);
    unsigned long long blocked = 1, ignored = 1;
    assert_int_equal(sscanf(kit_file(kit, "seen"), "SigBlk: %llx SigIgn: %llx", &blocked, &ignored),
                     2);
    assert_true(blocked == 0);
    assert_true((ignored & ~LIBRARY_SIGNALS) == 0);
}

static void limits_are_set(void **state)
{
    (void)state;
    kit->config.exec.limits = (limits_config){
        .memory_bytes = 256 << 20, .cpu_ms = 9500, .files = 64, .output_bytes = 1000};
    kit_script(kit, "ulimit -v >seen; ulimit -t >>seen; ulimit -n >>seen; ulimit -c >>seen");
    assert_int_equal(kit_receive(kit, "m-1", ""), SEMEL_PROCESSED);
    assert_string_equal(kit_file(kit, "seen"), "262144\n10\n64\n0\n");
}

static void a_handler_that_uses_up_its_time_is_ended(void **state)
{
    (void)state;
    kit->config.exec.limits.cpu_ms = 1000;
    kit_script(kit, "while :; do :; done");
    assert_int_equal(kit_receive(kit, "m-1", ""), SEMEL_FAILED);
    SAYS("signal "); /* XCPU; or KILL, if the host has counted seconds at once */
}

/* --- exit statuses ---------------------------------------------------------------------------- */

static void exit_statuses_have_meanings(void **state)
{
    static const struct {
        const char *script;
        semel_outcome outcome;
        const char *says;
    } table[] = {
        {"exit 0", SEMEL_PROCESSED, ""},
        {"exit 1", SEMEL_FAILED, "exit 1"},
        {"exit 75", SEMEL_FAILED, "exit 75"},
        {"exit 65", SEMEL_DEAD, ""},
        {"exit 255", SEMEL_FAILED, "exit 255"},
        {"exit 126", SEMEL_FAILED, "a program that it runs cannot be executed: exit 126"},
        {"exit 127", SEMEL_FAILED, "a program that it runs was not found: exit 127"},
        {"kill -9 $$", SEMEL_FAILED, "signal 9 (KILL)"},
        {"kill -SEGV $$", SEMEL_FAILED, "signal 11 (SEGV)"},
        {"echo first >&2; echo 'no such mailbox' >&2; exit 1", SEMEL_FAILED,
         "exit 1: no such mailbox"},
        {"printf 'one\\n\\n\\n' >&2; exit 1", SEMEL_FAILED, "exit 1: one"},
        {"printf 'a\\033[31mb\\tc' >&2; exit 1", SEMEL_FAILED, "exit 1: a\\x1b[31mb\\x09c"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        char id[] = {(char)('a' + i), 0};
        kit_script(kit, table[i].script);
        if (kit_receive(kit, id, "x") != table[i].outcome)
            fail_msg("%s: %s", table[i].script, last_error.text);
        if (*table[i].says)
            assert_string_equal(last_error.text, table[i].says);
    }
}

static void the_last_line_of_stderr_is_bounded(void **state)
{
    (void)state;
    kit_script(kit, "head -c 100000 /dev/zero | tr '\\0' x >&2; exit 3");
    assert_int_equal(kit_receive(kit, "m-1", ""), SEMEL_FAILED);
    assert_int_equal(strlen(last_error.text), strlen("exit 3: ") + 300);
}

static void a_program_that_cannot_run_is_refused_at_opening(void **state)
{
    static const struct {
        const char *name;
        const char *says;
    } table[] = {{"./nothing.sh", "./nothing.sh does not exist"},
                 {"no-such-program-anywhere", "no-such-program-anywhere does not exist"},
                 {"./kit.db", "./kit.db is not executable"},
                 {"/", "/ is not executable"},
                 {"", " does not exist"}};
    (void)state;
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        kit->words[0] = table[i].name;
        kit->config.exec.command = (config_list){kit->words, 1};
        FAILS(SEMEL_EINVAL, exec_handler.open(&kit->state, &kit->all, &kit->config, &last_error));
        SAYS(table[i].says);
    }
}

static void a_program_that_vanishes_is_an_error_of_the_message(void **state)
{
    char path[SCRATCH_PATH];
    (void)state;
    FILE *file = fopen(scratch_file(path, &kit->directory, "here.sh"), "w");
    assert_non_null(file);
    (void)fputs("#!/bin/sh\nexit 0\n", file);
    (void)fchmod(fileno(file), 0700);
    assert_int_equal(fclose(file), 0);
    kit->words[0] = "./here.sh";
    kit->config.exec.command = (config_list){kit->words, 1};
    OK(exec_handler.open(&kit->state, &kit->all, &kit->config, &last_error));
    assert_int_equal(kit_receive(kit, "m-1", ""), SEMEL_PROCESSED);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(kit_receive(kit, "m-2", ""), SEMEL_FAILED);
    SAYS("./here.sh cannot be executed: No such file or directory");
}

/* --- streams ---------------------------------------------------------------------------------- */

static char large[1 << 20];

static void a_large_body_and_a_large_output_do_not_deadlock(void **state)
{
    (void)state;
    memset(large, 'x', sizeof large - 1);
    kit->config.exec.output = OUTPUT_RESULT;
    kit->config.exec.limits.output_bytes = sizeof large;
    kit_script(kit, "cat; head -c 300000 /dev/zero >&2"); /* stdout while stdin still comes */
    assert_int_equal(kit_receive(kit, "m-1", large), SEMEL_PROCESSED);
}

static void a_handler_need_not_read_its_input(void **state)
{
    (void)state;
    memset(large, 'x', sizeof large - 1);
    kit_script(kit, "exec <&-; exit 0");
    assert_int_equal(kit_receive(kit, "m-1", large), SEMEL_PROCESSED);
    kit_script(kit, "exit 0");
    assert_int_equal(kit_receive(kit, "m-2", large), SEMEL_PROCESSED);
}

static void a_result_is_stored_as_it_was_printed(void **state)
{
    (void)state;
    kit->config.exec.output = OUTPUT_RESULT;
    kit_script(kit, "printf 'a\\tb\\377\\n'");
    assert_int_equal(kit_receive(kit, "m-1", ""), SEMEL_PROCESSED);
    assert_string_equal(kit_result(kit, "m-1"), "a\tb\xff\n");
    kit_script(kit, "exit 0");
    assert_int_equal(kit_receive(kit, "m-2", ""), SEMEL_PROCESSED);
    assert_string_equal(kit_result(kit, "m-2"), "");
}

static void output_is_ignored_unless_it_is_asked_for(void **state)
{
    (void)state;
    kit_script(kit, "head -c 1000000 /dev/zero; exit 0");
    assert_int_equal(kit_receive(kit, "m-1", ""), SEMEL_PROCESSED);
    assert_null(kit_result(kit, "m-1"));
}

static void ten_gigabytes_are_cut_off(void **state)
{
    (void)state;
    kit->config.exec.output = OUTPUT_RESULT;
    kit->config.exec.limits.output_bytes = FLOOD_LIMIT;
    kit_script(kit, "echo $$ >pid; head -c 10000000000 /dev/zero; touch finished");
    assert_int_equal(kit_receive(kit, "m-1", ""), SEMEL_FAILED);
    SAYS("more than 4096 bytes of output");
    assert_true(kit_process_ends(kit, "pid"));
}

static void exactly_the_limit_is_allowed(void **state)
{
    (void)state;
    kit->config.exec.output = OUTPUT_RESULT;
    kit->config.exec.limits.output_bytes = FLOOD_LIMIT;
    kit_script(kit, "head -c 4096 /dev/zero | tr '\\0' x");
    assert_int_equal(kit_receive(kit, "m-1", ""), SEMEL_PROCESSED);
    kit_script(kit, "head -c 4097 /dev/zero | tr '\\0' x");
    assert_int_equal(kit_receive(kit, "m-2", ""), SEMEL_FAILED);
}

static void an_answer_decides(void **state)
{
    (void)state;
    kit->config.exec.output = OUTPUT_ANSWER;
    kit_script(kit, "echo '{\"result\": {\"n\": 1.10, \"big\": 123456789012345678901234567890}}'");
    assert_int_equal(kit_receive(kit, "m-1", ""), SEMEL_PROCESSED);
    assert_string_equal(kit_result(kit, "m-1"),
                        "{\"n\": 1.10, \"big\": 123456789012345678901234567890}");
    kit_script(kit, "echo '{\"status\": \"retry\", \"error\": \"later\\u0007\"}'");
    assert_int_equal(kit_receive(kit, "m-2", ""), SEMEL_FAILED);
    assert_string_equal(last_error.text, "later\\x07");
    kit_script(kit, "echo '{\"status\": \"dead\", \"error\": \"never\"}'");
    assert_int_equal(kit_receive(kit, "m-3", ""), SEMEL_DEAD);
    kit_script(kit, "echo 'hello'");
    assert_int_equal(kit_receive(kit, "m-4", ""), SEMEL_FAILED);
    SAYS("the answer is not JSON");
    kit_script(kit, "exit 0");
    assert_int_equal(kit_receive(kit, "m-5", ""), SEMEL_FAILED);
}

/* --- time ------------------------------------------------------------------------------------- */

static void a_handler_that_hangs_is_ended(void **state)
{
    (void)state;
    kit->config.timeout_ms = SHORT_MS;
    kit_script(kit, "echo $$ >pid; sleep 1000");
    assert_int_equal(kit_receive(kit, "m-1", ""), SEMEL_FAILED);
    assert_string_equal(last_error.text, "exec: did not end within 300ms");
    assert_true(kit_process_ends(kit, "pid"));
}

static void a_handler_that_ignores_term_is_killed_with_its_group(void **state)
{
    (void)state;
    kit->config.timeout_ms = SHORT_MS;
    kit_script(kit, "trap '' TERM; sleep 1000 & echo $! >pid; while :; do sleep 1; done");
    assert_int_equal(kit_receive(kit, "m-1", ""), SEMEL_FAILED);
    SAYS("did not end within");
    assert_true(kit_process_ends(kit, "pid"));
}

static void a_handler_that_stops_itself_is_killed(void **state)
{
    (void)state;
    kit->config.timeout_ms = SHORT_MS;
    kit_script(kit, "echo $$ >pid; kill -STOP $$; sleep 1000");
    assert_int_equal(kit_receive(kit, "m-1", ""), SEMEL_FAILED);
    assert_true(kit_process_ends(kit, "pid"));
}

static void a_grandchild_that_keeps_the_pipe_does_not_hold_the_message(void **state)
{
    (void)state;
    kit->config.exec.output = OUTPUT_RESULT;
    kit_script(kit, "echo done; sleep 1000 & echo $! >pid; exit 0");
    assert_int_equal(kit_receive(kit, "m-1", ""), SEMEL_PROCESSED);
    assert_string_equal(kit_result(kit, "m-1"), "done\n");
    assert_true(kit_process_ends(kit, "pid"));
}

static void the_lease_is_renewed(void **state)
{
    (void)state;
    kit_close(kit);
    *kit = (handler_kit){.lease_ms = LEASE_MS};
    kit_open(kit, &exec_handler);
    kit_script(kit, "sleep 4; echo \"$SEMEL_ATTEMPT\" >>runs"); /* more than two leases */
    assert_int_equal(kit_receive(kit, "m-1", ""), SEMEL_PROCESSED);
    assert_string_equal(kit_file(kit, "runs"), "1\n");
}

/* The marker is removed behind the handler's back, as if another process had taken it over. */
static semel_status handle_and_lose(semel_unit *unit, const semel_message *message, void *context,
                                    semel_error *err)
{
    semel_store *other = NULL;
    semel_inbox *inbox = NULL;
    size_t removed;
    (void)context;
    while (semel_unit_renew(unit, 1, NULL) == SEMEL_OK) /* a lease that ends at once */
        process_nap();
    OK(semel_store_open(&other, kit->url, NULL, &last_error));
    OK(semel_inbox_open(&inbox, other, "mail.receipt", &kit->config.options, &last_error));
    OK(semel_inbox_purge(&removed, inbox, 0, &last_error));
    semel_inbox_close(inbox);
    semel_store_close(other);
    return exec_handler.handle(unit, message, kit->state, err);
}

static void a_lost_lease_ends_the_child(void **state)
{
    semel_outcome outcome;
    (void)state;
    kit_close(kit);
    *kit = (handler_kit){.lease_ms = LEASE_MS};
    kit_open(kit, &exec_handler);
    kit_script(kit, "echo $$ >pid; sleep 1000");
    semel_message message = {.size = sizeof message, .id = semel_str("m-1")};
    assert_int_equal(
        semel_inbox_receive(&outcome, kit->inbox, &message, handle_and_lose, NULL, &last_error),
        SEMEL_ELOST);
    assert_true(kit_process_ends(kit, "pid"));
}

/* --- threads ---------------------------------------------------------------------------------- */

enum { THREADS = 4, EACH = 10 };

static void *receive_some(void *context)
{
    size_t number = (size_t)context, done = 0;
    for (size_t i = 0; i < EACH; i++) {
        char id[32];
        semel_outcome outcome;
        (void)snprintf(id, sizeof id, "t-%zu-%zu", number, i);
        semel_message message = {.size = sizeof message, .id = semel_str(id)};
        if (semel_inbox_receive(&outcome, kit->inbox, &message, exec_handler.handle, kit->state,
                                NULL) == SEMEL_OK)
            done += outcome == SEMEL_PROCESSED;
    }
    return (void *)done;
}

static void threads_do_not_take_each_others_children(void **state)
{
    pthread_t threads[THREADS];
    size_t done = 0;
    (void)state;
    kit->config.exec.output = OUTPUT_RESULT;
    kit_script(kit, "echo \"$SEMEL_KEY\"");
    for (size_t i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, receive_some, (void *)i), 0);
    for (size_t i = 0; i < THREADS; i++) {
        void *some;
        assert_int_equal(pthread_join(threads[i], &some), 0);
        done += (size_t)some;
    }
    assert_int_equal(done, THREADS * EACH);
    assert_string_equal(kit_result(kit, "t-3-9"), "t-3-9\n");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, open_kit, close_kit)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(body_and_metadata_arrive),
        TEST(configured_variables_replace_those_of_semel),
        TEST(hostile_fields_are_values),
        TEST(keys_that_are_not_text_are_hexadecimal),
        TEST(a_traceparent_that_is_none_is_not_passed_on),
        TEST(only_three_files_are_open),
        TEST(signals_are_as_they_were_in_the_beginning),
        TEST(limits_are_set),
        TEST(a_handler_that_uses_up_its_time_is_ended),
        TEST(exit_statuses_have_meanings),
        TEST(the_last_line_of_stderr_is_bounded),
        TEST(a_program_that_cannot_run_is_refused_at_opening),
        TEST(a_program_that_vanishes_is_an_error_of_the_message),
        TEST(a_large_body_and_a_large_output_do_not_deadlock),
        TEST(a_handler_need_not_read_its_input),
        TEST(a_result_is_stored_as_it_was_printed),
        TEST(output_is_ignored_unless_it_is_asked_for),
        TEST(ten_gigabytes_are_cut_off),
        TEST(exactly_the_limit_is_allowed),
        TEST(an_answer_decides),
        TEST(a_handler_that_hangs_is_ended),
        TEST(a_handler_that_ignores_term_is_killed_with_its_group),
        TEST(a_handler_that_stops_itself_is_killed),
        TEST(a_grandchild_that_keeps_the_pipe_does_not_hold_the_message),
        TEST(the_lease_is_renewed),
        TEST(a_lost_lease_ends_the_child),
        TEST(threads_do_not_take_each_others_children),
    };
    return cmocka_run_group_tests(tests, forget_servers, NULL);
}
