/* `semel run` with an admin server that is scraped in each slice, which is twice a second,
 * against one that has none. (Prometheus asks every fifteen seconds or so.) Counting itself is in
 * both: it is never off. */
#include "run.h"

#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { PLAIN, SCRAPED, CONTENDERS };

typedef struct scraped_side {
    program_side program;
    char socket[512];
    size_t scrapes;
} scraped_side;

static void configure(program_side *side, const char *admin)
{
    char file[100];
    snprintf(file, sizeof file, "%s.yaml", side->stage.name);
    program_configure(&side->program, file,
                      "version: 1\n"
                      "store: \"%s\"\n"
                      "queues:\n"
                      "  bench: { url: store, workers: 1, batch: 100 }\n"
                      "inboxes:\n"
                      "  bench:\n"
                      "    from: bench\n"
                      "    sql: \"INSERT INTO %s (body) VALUES (:body)\"\n"
                      "%s",
                      side->stage.url, side->stage.effect, admin);
}

/* 1: all of it was there. */
static int scrape(const char *path)
{
    static const char request[] =
        "GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    char piece[65536], last[sizeof piece + 1] = "";
    ssize_t len = 0;
    snprintf(to.sun_path, sizeof to.sun_path, "%s", path);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd >= 0 && connect(fd, (struct sockaddr *)&to, sizeof to) == 0 &&
        send(fd, request, sizeof request - 1, MSG_NOSIGNAL) == (ssize_t)sizeof request - 1)
        while ((len = recv(fd, piece, sizeof piece, 0)) > 0) {
            memcpy(last, piece, (size_t)len);
            last[len] = 0;
        }
    if (fd >= 0)
        close(fd);
    return strstr(last, "process_start_time_seconds ") != NULL;
}

static void scrape_once(void *context)
{
    scraped_side *side = context;
    if (!scrape(side->socket))
        die("%s was not scraped", side->socket);
    side->scrapes++;
}

void section_run_metrics(void)
{
    static program_side plain;
    static scraped_side scraped;
    char admin[600];
    comparison d = {.rounds = choose_rounds(ROUNDS_MAX, 10),
                    .contenders = CONTENDERS,
                    .tolerance = 0.002,
                    .seconds = 25};
    const slice_side sides[CONTENDERS] = {
        [PLAIN] = {.of = &plain},
        [SCRAPED] = {.of = &scraped.program, .meanwhile = scrape_once, .context = &scraped}};
    report_section("run-metrics", "SQLite: semel run, scraped twice a second", "plain", "scraped");
    stage_open(&plain.stage, NULL, NULL, "bench_plain");
    stage_open(&scraped.program.stage, NULL, NULL, "bench_scraped");
    scratch_path(scraped.socket, "admin.sock");
    snprintf(admin, sizeof admin, "admin: \"unix:%s\"\n", scraped.socket);
    configure(&plain, "");
    configure(&scraped.program, admin);
    run_slices(&d, sides, choose(400000, 200000), "semel run, scraped");
    report_comparison("messages in a second of processor time", &d, SCRAPED, PLAIN, AT_LEAST(0.99));
    report_value("scrapes", (double)scraped.scrapes, "", NO_AIM);
    stage_close(&plain.stage);
    stage_close(&scraped.program.stage);
}
