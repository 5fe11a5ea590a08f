/* The shared files of AWS's tools: sections in brackets, lines of "name = value", comments that
 * begin with # or ;. In the file "config" a section is [profile NAME], except for [default].
 * Indented lines belong to the setting above them, and none that is read here has any. */
#include "cloud/aws_credentials.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LINE_MAX_LEN = AWS_SETTING_MAX + 256, PATH_ROOM = 1024 };

static char *trim(char *text)
{
    text += strspn(text, " \t");
    size_t len = strlen(text);
    while (len && strchr(" \t\r\n", text[len - 1]))
        text[--len] = 0;
    return text;
}

/* 1 if the header of a section names the profile. */
static int is_section(char *line, const char *name, int in_config)
{
    char *end = strchr(line, ']');
    if (!end)
        return 0;
    *end = 0;
    char *inside = trim(line + 1);
    if (in_config && strncmp(inside, "profile", 7) == 0 && strchr(" \t", inside[7]))
        return strcmp(trim(inside + 7), name) == 0;
    return (!in_config || strcmp(name, "default") == 0) && strcmp(inside, name) == 0;
}

static semel_status keep(char *out, size_t room, const char *name, const char *value,
                         semel_error *err)
{
    size_t len = strlen(value);
    if (len >= room)
        return semel_fail(err, SEMEL_ESTORE, "AWS profile: %s has more than %zu bytes", name,
                          room - 1);
    memcpy(out, value, len + 1);
    return SEMEL_OK;
}

static semel_status take_setting(aws_profile *out, const char *name, const char *value,
                                 semel_error *err)
{
    static const char *const others[] = {"role_arn", "credential_process", "sso_session",
                                         "sso_start_url", "web_identity_token_file"};
    if (strcmp(name, "aws_access_key_id") == 0)
        return keep(out->keys.id, sizeof out->keys.id, name, value, err);
    if (strcmp(name, "aws_secret_access_key") == 0)
        return keep(out->keys.secret, sizeof out->keys.secret, name, value, err);
    if (strcmp(name, "aws_session_token") == 0)
        return keep(out->keys.token, sizeof out->keys.token, name, value, err);
    if (strcmp(name, "region") == 0)
        return keep(out->region, sizeof out->region, name, value, err);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (strcmp(name, others[i]) == 0 && !out->other[0])
            return keep(out->other, sizeof out->other, name, name, err);
    return SEMEL_OK;
}

static semel_status read_lines(aws_profile *out, FILE *file, const char *name, int in_config,
                               semel_error *err)
{
    char line[LINE_MAX_LEN];
    int ours = 0;
    semel_status status = SEMEL_OK;
    while (!status && fgets(line, sizeof line, file)) {
        if (*line == '#' || *line == ';' || *line == ' ' || *line == '\t')
            continue;
        if (*line == '[') {
            ours = is_section(line, name, in_config);
            out->found |= ours;
            continue;
        }
        char *equals = ours ? strchr(line, '=') : NULL;
        if (equals) {
            *equals = 0;
            status = take_setting(out, trim(line), trim(equals + 1), err);
        }
    }
    return status;
}

static semel_status read_file(aws_profile *out, const char *variable, const char *usual,
                              const char *name, int in_config, semel_error *err)
{
    char path[PATH_ROOM];
    const char *given = getenv(variable), *home = getenv("HOME");
    int len = given && *given ? snprintf(path, sizeof path, "%s", given)
                              : snprintf(path, sizeof path, "%s/.aws/%s", home ? home : "", usual);
    if (len < 0 || (size_t)len >= sizeof path)
        return semel_fail(err, SEMEL_ESTORE, "the path of AWS's file \"%s\" is too long", usual);
    FILE *file = fopen(path, "re");
    if (!file && (errno == ENOENT || errno == ENOTDIR))
        return SEMEL_OK;
    if (!file)
        return semel_fail(err, SEMEL_ESTORE, "cannot read %s: %s", path, strerror(errno));
    semel_status status = read_lines(out, file, name, in_config, err);
    if (!status && ferror(file))
        status = semel_fail(err, SEMEL_ESTORE, "cannot read %s", path);
    (void)fclose(file);
    return status;
}

semel_status aws_profile_read(aws_profile *out, const char *name, semel_error *err)
{
    *out = (aws_profile){0};
    semel_status status = read_file(out, "AWS_CONFIG_FILE", "config", name, 1, err);
    return status ? status
                  : read_file(out, "AWS_SHARED_CREDENTIALS_FILE", "credentials", name, 0, err);
}
