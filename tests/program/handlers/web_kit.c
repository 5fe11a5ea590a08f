/* See web_kit.h. */
#include "web_kit.h"

#include "support/base/check.h"

#include <json-c/json.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

void web_kit_start(web_kit *web)
{
    static const char script[] = SEMEL_SOURCE_DIR "/tests/program/handlers/http_server.py";
    int ends[2];
    posix_spawn_file_actions_t actions;
    scratch_open(&web->directory);
    char *const arguments[] = {(char *)"python3", (char *)script, web->directory.path, NULL};
    assert_int_equal(pipe(ends), 0);
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], 1);
    posix_spawn_file_actions_addclose(&actions, ends[0]);
    assert_int_equal(posix_spawnp(&web->pid, "python3", &actions, NULL, arguments, environ), 0);
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);
    FILE *said = fdopen(ends[0], "r");
    assert_non_null(said);
    assert_int_equal(fscanf(said, "%u %u", &web->port, &web->secure_port), 2);
    (void)fclose(said);
}

void web_kit_stop(web_kit *web)
{
    (void)kill(web->pid, SIGKILL);
    (void)waitpid(web->pid, NULL, 0);
    scratch_close(&web->directory);
}

const char *web_kit_url(const web_kit *web, const char *path)
{
    enum { PLACES = 4, ROOM = 512 };
    static char places[PLACES][ROOM];
    static unsigned used;
    char *out = places[used++ % PLACES];
    (void)snprintf(out, ROOM, "http://127.0.0.1:%u/%s", web->port, path);
    return out;
}

/* --- requests --------------------------------------------------------------------------------- */

static struct json_object *read_requests(const web_kit *web)
{
    char path[SCRATCH_PATH], *line = NULL;
    size_t room = 0;
    struct json_object *all = json_object_new_array();
    FILE *file = fopen(scratch_file(path, &web->directory, "requests"), "r");
    while (file && getline(&line, &room, file) > 0)
        json_object_array_add(all, json_tokener_parse(line));
    if (file)
        (void)fclose(file);
    free(line);
    return all;
}

static struct json_object *member(struct json_object *of, const char *name)
{
    return json_object_object_get(of, name);
}

static struct json_object *last_of(struct json_object *all)
{
    assert_true(json_object_array_length(all) > 0);
    return json_object_array_get_idx(all, json_object_array_length(all) - 1);
}

size_t web_kit_count(const web_kit *web)
{
    struct json_object *all = read_requests(web);
    size_t count = json_object_array_length(all);
    json_object_put(all);
    return count;
}

size_t web_kit_connections(const web_kit *web)
{
    struct json_object *all = read_requests(web), *seen = json_object_new_object();
    for (size_t i = 0; i < json_object_array_length(all); i++)
        json_object_object_add(
            seen, json_object_get_string(member(json_object_array_get_idx(all, i), "connection")),
            NULL);
    size_t count = (size_t)json_object_object_length(seen);
    json_object_put(seen);
    json_object_put(all);
    return count;
}

void web_kit_release(const web_kit *web)
{
    char path[SCRATCH_PATH];
    FILE *file = fopen(scratch_file(path, &web->directory, "release"), "w");
    assert_non_null(file);
    (void)fclose(file);
}

void web_kit_forget(const web_kit *web)
{
    scratch_remove(&web->directory, "requests");
    scratch_remove(&web->directory, "release");
}

const char *web_kit_header(const web_kit *web, const char *name)
{
    static char out[4096];
    int found = 0;
    struct json_object *all = read_requests(web), *headers = member(last_of(all), "headers");
    for (size_t i = 0; i < json_object_array_length(headers); i++) {
        struct json_object *pair = json_object_array_get_idx(headers, i);
        if (strcmp(json_object_get_string(json_object_array_get_idx(pair, 0)), name) != 0)
            continue;
        assert_false(found); /* once at most */
        found = 1;
        (void)snprintf(out, sizeof out, "%s",
                       json_object_get_string(json_object_array_get_idx(pair, 1)));
    }
    json_object_put(all);
    return found ? out : NULL;
}

const char *web_kit_body(const web_kit *web)
{
    static char out[4096];
    struct json_object *all = read_requests(web);
    (void)snprintf(out, sizeof out, "%s", json_object_get_string(member(last_of(all), "body")));
    json_object_put(all);
    return out;
}
