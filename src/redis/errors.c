/* The errors of a server, by their first word, which is the code that Redis gives them. */
#include "redis/errors.h"

#include <stdio.h>
#include <string.h>

int redis_is_error(const redisReply *reply, const char *code)
{
    size_t len = strlen(code);
    if (reply->type != REDIS_REPLY_ERROR)
        return 0;
    const char *text = reply->str + (reply->str[0] == '-'); /* of a script, in Redis 6.2 */
    return strncmp(text, code, len) == 0 && (text[len] == ' ' || !text[len]);
}

const redis_error_class *redis_classify(const redisReply *reply)
{
    static const redis_error_class known[] = {
        {"BUSY", SEMEL_EBUSY, 1, 0, "; a script of another client runs for too long"},
        {"TRYAGAIN", SEMEL_EBUSY, 1, 0, "; the slot is being moved"},
        {"LOADING", SEMEL_EUNAVAILABLE, 1, 0, ""},
        {"MASTERDOWN", SEMEL_EUNAVAILABLE, 1, 1, ""},
        {"CLUSTERDOWN", SEMEL_EUNAVAILABLE, 1, 1, ""},
        {"READONLY", SEMEL_EUNAVAILABLE, 1, 1, "; it is a replica, and semel needs the primary"},
        {"NOREPLICAS", SEMEL_EUNAVAILABLE, 1, 0, ""},
        {"MISCONF", SEMEL_EUNAVAILABLE, 0, 0, "; the server cannot write to its disk"},
        {"OOM", SEMEL_EUNAVAILABLE, 0, 0, "; the server's memory is full (maxmemory)"},
        {"NOAUTH", SEMEL_OK, 0, 0, "; the URL needs a password"},
        {"WRONGPASS", SEMEL_OK, 0, 0, "; check user and password of the URL"},
        {"NOPERM", SEMEL_OK, 0, 0, NULL},
        {"WRONGTYPE", SEMEL_OK, 0, 0, NULL},
        {"NOGROUP", SEMEL_ENOTFOUND, 0, 0, ""},
        {"UNBLOCKED", SEMEL_EUNAVAILABLE, 1, 0, ""},
        {"CROSSSLOT", SEMEL_OK, 0, 0, ""},
        {"UNKILLABLE", SEMEL_EBUSY, 1, 0, ""},
        {"", SEMEL_OK, 0, 0, ""}};
    const redis_error_class *at = known;
    while (*at->code && !redis_is_error(reply, at->code))
        at++;
    return at;
}

/* Advice that depends on who asks. */
static const char *advice_of(const redis_role *role, const redis_error_class *found, char *room,
                             size_t size)
{
    if (found->advice)
        return found->advice;
    if (strcmp(found->code, "WRONGTYPE") == 0)
        return role->wrong_type;
    (void)snprintf(room, size, "; %s lists the rights that semel needs", role->page);
    return room;
}

/* How much of the server's text may be shown: the first line, without what it repeats of an unknown
 * command. Those may be data, or a password where AUTH has another name. */
static int shown_len(const char *text)
{
    const char *arguments = strstr(text, ", with args");
    size_t len = strcspn(text, "\r\n");
    return (int)(arguments && (size_t)(arguments - text) < len ? (size_t)(arguments - text) : len);
}

semel_status redis_fail(const redis_client *client, const redisReply *reply, const char *doing,
                        semel_error *err)
{
    char room[128];
    const redis_role *role = client->role;
    const redis_error_class *found = redis_classify(reply);
    return semel_fail(err, found->status ? found->status : role->broken, "%s, %s: %.*s%s",
                      role->title, doing, shown_len(reply->str), reply->str,
                      advice_of(role, found, room, sizeof room));
}
