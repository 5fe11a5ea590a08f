/* The worker handler: warm processes that keep to the protocol, and processes that do not. The
 * scripts count in a file how often they were started. */
#include "program/handler/drain.h"
#include "program/handler/worker_request.h"
#include "program/unit/handler_kit.h"

#include "support/process/process.h"

#include <json-c/json.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SHORT_MS = 300, ANSWER_LIMIT = 4096 };

#define ANSWER    "echo '{\"status\":\"done\"}'"
#define ONE_START "echo started >>starts; "

static handler_kit *kit;

static int open_kit(void **state)
{
    static handler_kit one;
    (void)state;
    one = (handler_kit){.attempts_max = 100};
    kit = &one;
    drain_reset();
    kit_open(kit, &worker_handler);
    kit->config.worker.processes = 1;
    return 0;
}

static int close_kit(void **state)
{
    (void)state;
    kit_close(kit);
    return 0;
}

static size_t starts(void)
{
    size_t count = 0;
    for (const char *at = kit_file(kit, "starts"); (at = strchr(at, '\n')); at++)
        count++;
    return count;
}

/* --- processes that keep to the protocol ------------------------------------------------------ */

static void one_process_answers_many_messages(void **state)
{
    (void)state;
    kit_script(kit, ONE_START "while read -r line; do echo \"$line\" >>lines; " ANSWER "; done");
    assert_int_equal(starts(), 0); /* none before the first message */
    assert_int_equal(kit_receive(kit, "m-1", "{\"a\":\n 1.0}"), SEMEL_PROCESSED);
    assert_int_equal(kit_receive(kit, "m-2", "x"), SEMEL_PROCESSED);
    assert_int_equal(kit_receive(kit, "m-2", "x"), SEMEL_DUPLICATE);
    assert_int_equal(kit_receive(kit, "m-3", "\xff"), SEMEL_PROCESSED);
    assert_int_equal(starts(), 1);
    const char *lines = kit_file(kit, "lines");
    assert_non_null(strstr(lines, "\"body\":{\"a\":  1.0}}\n"));
    assert_non_null(strstr(lines, "\"body_text\":\"x\"}\n"));
    assert_non_null(strstr(lines, "\"body_base64\":\"/w==\"}\n"));
}

static void answers_decide(void **state)
{
    (void)state;
    kit_script(kit, ONE_START "while read -r line; do case $line in"
                              " *m-1*) echo '{\"result\": [1, 2]}';;"
                              " *m-2*) echo '{\"status\":\"retry\",\"error\":\"later\"}';;"
                              " *m-3*) echo '{\"status\":\"DROP\"}';;"
                              " *) echo '{}';; esac; done");
    assert_int_equal(kit_receive(kit, "m-1", ""), SEMEL_PROCESSED);
    assert_string_equal(kit_result(kit, "m-1"), "[1, 2]");
    assert_int_equal(kit_receive(kit, "m-2", ""), SEMEL_FAILED);
    assert_string_equal(last_error.text, "later");
    assert_int_equal(kit_receive(kit, "m-3", ""), SEMEL_DEAD);
    assert_int_equal(kit_receive(kit, "m-4", ""), SEMEL_PROCESSED);
    assert_int_equal(starts(), 1); /* a failure of the message is none of the process */
}

/* The examples are what they are said to be. */
static void example_works(const char *interpreter, const char *file)
{
    kit->all.directory = SEMEL_SOURCE_DIR "/examples/workers";
    kit->words[0] = interpreter;
    kit->words[1] = file;
    kit->config.worker.command = (config_list){kit->words, 2};
    OK(worker_handler.open(&kit->state, &kit->all, &kit->config, &last_error));
    assert_int_equal(kit_receive(kit, "m-1", "{\"order_id\": 7, \"amount\": 20000}"),
                     SEMEL_PROCESSED);
    assert_non_null(strstr(kit_result(kit, "m-1"), "true"));
    assert_int_equal(kit_receive(kit, "m-2", "{\"order_id\": 8, \"amount\": -1}"), SEMEL_DEAD);
    assert_int_equal(kit_receive(kit, "m-3", "x"), SEMEL_FAILED);
    assert_int_equal(kit_receive(kit, "m-4", "{\"order_id\": 9, \"amount\": 1}"), SEMEL_PROCESSED);
    assert_non_null(strstr(kit_result(kit, "m-4"), "false"));
}

static void the_example_in_python_works(void **state)
{
    (void)state;
    example_works("python3", "fraud.py");
}

static void the_example_in_node_works(void **state)
{
    (void)state;
    example_works("node", "fraud.js");
}

/* --- processes that do not -------------------------------------------------------------------- */

/* The first process does one thing wrong in its first message, the second one does not. */
static void misbehave(const char *how, const char *says)
{
    char script[1024];
    (void)snprintf(script, sizeof script,
                   ONE_START "while read -r line; do if [ $(grep -c . starts) = 1 ]; then %s; "
                             "else " ANSWER "; fi; done",
                   how);
    kit_script(kit, script);
    assert_int_equal(kit_receive(kit, "m-1", "x"), SEMEL_FAILED);
    if (!strstr(last_error.text, says))
        fail_msg("%s: %s", how, last_error.text);
    assert_int_equal(kit_receive(kit, "m-1", "x"), SEMEL_PROCESSED);
    assert_int_equal(starts(), 2);
}

static void one_that_dies_in_a_message_is_replaced(void **state)
{
    (void)state;
    misbehave("echo 'no memory' >&2; exit 3",
              "worker: ended before it answered: exit 3: no memory");
}

static void one_that_kills_itself_is_replaced(void **state)
{
    (void)state;
    misbehave("kill -9 $$", "worker: ended before it answered: signal 9 (KILL)");
}

static void one_that_writes_garbage_is_replaced(void **state)
{
    (void)state;
    misbehave("echo garbage", "the answer is not JSON");
}

static void one_that_writes_binary_is_replaced(void **state)
{
    (void)state;
    misbehave("printf '\\377\\000\\001\\n'", "the answer is not JSON");
}

static void one_that_answers_twice_is_replaced(void **state)
{
    (void)state;
    misbehave("printf '{}\\n{}\\n'", "worker: more than one line for one message");
}

static void one_that_answers_with_half_a_line_is_replaced(void **state)
{
    (void)state;
    misbehave("printf '{\"status\":'; exit 0", "worker: ended before it answered: exit 0");
}

static void one_that_answers_another_message_is_replaced(void **state)
{
    (void)state;
    misbehave("echo '{\"id\":\"m-0\"}'", "worker: the answer is for another message");
}

static void one_that_closes_its_output_is_replaced(void **state)
{
    (void)state;
    misbehave("exec >&-; sleep 1000", "worker: ended before it answered: it has closed its output");
}

static void one_that_leaves_its_output_to_a_child_is_replaced(void **state)
{
    (void)state;
    misbehave("sleep 1000 & echo $! >pid; exit 7", "worker: ended before it answered: exit 7");
    assert_true(kit_process_ends(kit, "pid"));
}

static void an_answer_that_is_too_long_is_cut_off(void **state)
{
    (void)state;
    kit->config.worker.limits.output_bytes = ANSWER_LIMIT;
    misbehave("head -c 10000000000 /dev/zero", "worker: the answer is longer than 4096 bytes");
}

static void one_that_hangs_is_ended(void **state)
{
    (void)state;
    kit->config.timeout_ms = SHORT_MS * 10;
    misbehave("trap '' TERM; echo $$ >pid; while :; do sleep 1; done",
              "worker: no answer within 3s");
    assert_true(kit_process_ends(kit, "pid"));
}

static void one_that_dies_between_messages_fails_none(void **state)
{
    (void)state;
    kit_script(kit, ONE_START "echo $$ >pid; read -r line; " ANSWER);
    assert_int_equal(kit_receive(kit, "m-1", "x"), SEMEL_PROCESSED);
    int64_t until = process_now_ms() + 60000;
    while (strcmp(kit_file(kit, "pid"), "") == 0 && process_now_ms() < until)
        process_nap();
    /* it is a zombie until its pool looks at it; so wait for its state instead of its end */
    char command[128];
    (void)snprintf(command, sizeof command, "grep -q '^State:.Z' /proc/%d/status",
                   (int)strtol(kit_file(kit, "pid"), NULL, 10));
    while (system(command) != 0 && process_now_ms() < until)
        process_nap();
    assert_int_equal(kit_receive(kit, "m-2", "x"), SEMEL_PROCESSED);
    assert_int_equal(starts(), 2);
}

static void what_it_says_unasked_is_no_answer(void **state)
{
    (void)state;
    kit_script(kit, ONE_START "while read -r line; do " ANSWER
                              "; (sleep 0.2; echo '{\"status\":\"dead\"}'; touch said) & done");
    assert_int_equal(kit_receive(kit, "m-1", "x"), SEMEL_PROCESSED);
    int64_t until = process_now_ms() + 60000;
    char path[SCRATCH_PATH];
    FILE *said = NULL;
    while (!(said = fopen(scratch_file(path, &kit->directory, "said"), "r")) &&
           process_now_ms() < until)
        process_nap();
    assert_non_null(said);
    (void)fclose(said);
    assert_int_equal(kit_receive(kit, "m-2", "x"), SEMEL_PROCESSED);
    assert_int_equal(starts(), 2);
}

static void one_that_dies_at_once_again_and_again_waits(void **state)
{
    (void)state;
    kit_script(kit, ONE_START "echo 'no database' >&2; exit 1");
    int64_t before = process_now_ms();
    for (int i = 0; i < 5; i++) {
        assert_int_equal(kit_receive(kit, "m-1", "x"), SEMEL_FAILED);
        SAYS("worker: ended before it answered: exit 1: no database");
    }
    assert_int_equal(starts(), 5);
    assert_true(process_now_ms() - before >= 100 + 200 + 400 + 800); /* the pauses in between */
}

static void a_program_that_cannot_run_is_refused_at_opening(void **state)
{
    (void)state;
    kit->words[0] = "./nothing.py";
    kit->config.worker.command = (config_list){kit->words, 1};
    FAILS(SEMEL_EINVAL, worker_handler.open(&kit->state, &kit->all, &kit->config, &last_error));
    SAYS("./nothing.py does not exist");
}

static void processes_end_with_the_handler(void **state)
{
    (void)state;
    kit_script(kit, "echo $$ >pid; while read -r line; do " ANSWER "; done; touch ended");
    assert_int_equal(kit_receive(kit, "m-1", "x"), SEMEL_PROCESSED);
    kit_close_handler(kit);
    assert_true(kit_process_ends(kit, "pid"));
    kit_script(kit, "trap '' TERM; echo $$ >pid; while :; do read -r line && " ANSWER "; done");
    assert_int_equal(kit_receive(kit, "m-2", "x"), SEMEL_PROCESSED);
    kit_close_handler(kit);
    assert_true(kit_process_ends(kit, "pid"));
}

/* --- threads ---------------------------------------------------------------------------------- */

enum { THREADS = 6, EACH = 40, PROCESSES = 3 };

/* A claim writes: SQLite lets one thread at a time, and a thread can be late. */
static void *receive_some(void *context)
{
    size_t number = (size_t)context, done = 0;
    for (size_t i = 0; i < EACH; i++) {
        char id[32];
        semel_outcome outcome = SEMEL_UNDECIDED;
        (void)snprintf(id, sizeof id, "t-%zu-%zu", number, i);
        semel_message message = {.size = sizeof message, .id = semel_str(id)};
        for (int tries = 0; tries < 100 && outcome != SEMEL_PROCESSED; tries++)
            (void)semel_inbox_receive(&outcome, kit->inbox, &message, worker_handler.handle,
                                      kit->state, NULL);
        done += outcome == SEMEL_PROCESSED;
    }
    return (void *)done;
}

static size_t receive_in_threads(void)
{
    pthread_t threads[THREADS];
    size_t done = 0;
    for (size_t i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, receive_some, (void *)i), 0);
    for (size_t i = 0; i < THREADS; i++) {
        void *some;
        assert_int_equal(pthread_join(threads[i], &some), 0);
        done += (size_t)some;
    }
    return done;
}

/* Each answers with the key that it was given. */
#define ECHO_KEY                                                                                 \
    "while read -r line; do key=${line#*'\"key\":\"'}; echo \"{\\\"result\\\":\\\"${key%%\\\"*}" \
    "\\\"}\"; done"

static void threads_share_the_processes(void **state)
{
    (void)state;
    kit->config.worker.processes = PROCESSES;
    kit_script(kit, ONE_START ECHO_KEY);
    assert_int_equal(receive_in_threads(), THREADS * EACH);
    assert_true(starts() <= PROCESSES);
    for (size_t i = 0; i < THREADS; i++)
        for (size_t j = 0; j < EACH; j++) {
            char id[32], expected[40];
            (void)snprintf(id, sizeof id, "t-%zu-%zu", i, j);
            (void)snprintf(expected, sizeof expected, "\"%s\"", id);
            assert_string_equal(kit_result(kit, id), expected);
        }
}

/* The thread that a process was started for ends long before the process. */
static void processes_outlive_the_threads_that_needed_them(void **state)
{
    (void)state;
    kit->config.worker.processes = PROCESSES;
    kit_script(kit, ONE_START ECHO_KEY);
    assert_int_equal(receive_in_threads(), THREADS * EACH);
    size_t before = starts();
    assert_int_equal(kit_receive(kit, "m-1", ""), SEMEL_PROCESSED);
    assert_int_equal(starts(), before);
}

/* --- the request ------------------------------------------------------------------------------ */

static char line[64 * 1024];

static semel_status keep_line(semel_unit *unit, const semel_message *message, void *context,
                              semel_error *err)
{
    buffer text = {0};
    region memory = {0};
    const char *id;
    (void)context;
    semel_status status = worker_request(&text, &id, &memory, "in", unit, message, err);
    (void)snprintf(line, sizeof line, "%s", text.data);
    buffer_free(&text);
    region_free(&memory);
    return status;
}

static const char *member_of(struct json_object *object, const char *name)
{
    struct json_object *member = NULL;
    return json_object_object_get_ex(object, name, &member) ? json_object_get_string(member) : "";
}

static void requests_are_one_line_of_json_whatever_is_in_them(void **state)
{
    static const char *const nasty[] = {"\n",       "\"",
                                        "\\",       "}\n{",
                                        "\x01\x7f", "a\r\nb",
                                        "\xff",     "\xf0\x9f\x98\x80",
                                        "$(x)",     "\"}\n{\"id\":\"other"};
    (void)state;
    for (size_t i = 0; i < sizeof nasty / sizeof *nasty; i++) {
        semel_outcome outcome;
        semel_header headers[] = {{"x-a", semel_str(nasty[i])}, {"X-A", semel_str("second")}};
        semel_message message = {.size = sizeof message,
                                 .id = semel_str(nasty[i]),
                                 .type = nasty[i],
                                 .source = nasty[i],
                                 .time_ms = 1773449675402,
                                 .headers = headers,
                                 .header_count = 2,
                                 .body = semel_str(nasty[i])};
        OK(semel_inbox_receive(&outcome, kit->inbox, &message, keep_line, NULL, &last_error));
        assert_ptr_equal(strchr(line, '\n'), line + strlen(line) - 1);
        struct json_object *parsed = json_tokener_parse(line);
        assert_non_null(parsed);
        if ((unsigned char)*nasty[i] != 0xff)
            assert_string_equal(member_of(parsed, "type"), nasty[i]);
        assert_string_equal(member_of(parsed, "inbox"), "in");
        assert_string_equal(member_of(parsed, "time"), "2026-03-14T00:54:35.402Z");
        assert_string_equal(member_of(parsed, "attempt"), "1");
        json_object_put(parsed);
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, open_kit, close_kit)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(one_process_answers_many_messages),
        TEST(answers_decide),
        TEST(the_example_in_python_works),
        TEST(the_example_in_node_works),
        TEST(one_that_dies_in_a_message_is_replaced),
        TEST(one_that_kills_itself_is_replaced),
        TEST(one_that_writes_garbage_is_replaced),
        TEST(one_that_writes_binary_is_replaced),
        TEST(one_that_answers_twice_is_replaced),
        TEST(one_that_answers_with_half_a_line_is_replaced),
        TEST(one_that_answers_another_message_is_replaced),
        TEST(one_that_closes_its_output_is_replaced),
        TEST(one_that_leaves_its_output_to_a_child_is_replaced),
        TEST(an_answer_that_is_too_long_is_cut_off),
        TEST(one_that_hangs_is_ended),
        TEST(one_that_dies_between_messages_fails_none),
        TEST(what_it_says_unasked_is_no_answer),
        TEST(one_that_dies_at_once_again_and_again_waits),
        TEST(a_program_that_cannot_run_is_refused_at_opening),
        TEST(processes_end_with_the_handler),
        TEST(threads_share_the_processes),
        TEST(processes_outlive_the_threads_that_needed_them),
        TEST(requests_are_one_line_of_json_whatever_is_in_them),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
