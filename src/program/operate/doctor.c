/* Findings, and the names of the checks. See doctor.h. */
#include "program/operate/doctor.h"

#include <curl/curl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const char *const names[DOCTOR_CHECKS] = {
    "config",    "store", "schema", "definition", "tables",   "rights", "durability",
    "isolation", "clock", "broker", "topology",   "handlers", "limits", "disk"};

const char *doctor_check_name(doctor_check check)
{
    return names[check];
}

int doctor_check_named(const char *name)
{
    for (int i = 0; i < DOCTOR_CHECKS; i++)
        if (strcmp(names[i], name) == 0)
            return i;
    return -1;
}

int doctor_wants(const doctor *d, doctor_check check)
{
    return !d->wanted || (d->wanted >> check & 1);
}

void doctor_find(doctor *d, doctor_check check, semel_severity severity, const char *fix,
                 const char *format, ...)
{
    char text[2048];
    va_list arguments;
    if (!doctor_wants(d, check))
        return;
    va_start(arguments, format);
    (void)vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    doctor_finding *added = region_alloc(&d->memory, sizeof *added);
    *added = (doctor_finding){.check = check,
                              .severity = severity,
                              .text = region_copy(&d->memory, text, strlen(text)),
                              .fix = region_printf(&d->memory, "%s", fix ? fix : "")};
    doctor_finding **end = &d->found[check];
    while (*end)
        end = &(*end)->next;
    *end = added;
}

/* --- URLs ------------------------------------------------------------------------------------- */

static const char *decode(region *memory, const char *text, size_t len)
{
    int decoded_len = 0;
    char *decoded = curl_easy_unescape(NULL, text, (int)len, &decoded_len);
    const char *copy = decoded ? region_copy(memory, decoded, (size_t)decoded_len) : NULL;
    curl_free(decoded);
    return copy;
}

const char *doctor_url_parameter(region *memory, const char *url, const char *name)
{
    size_t len = strlen(name);
    const char *at = strchr(url, '?');
    while (at) {
        at++;
        if (strncmp(at, name, len) == 0 && at[len] == '=')
            return decode(memory, at + len + 1, strcspn(at + len + 1, "&#"));
        at = strchr(at, '&');
    }
    return NULL;
}
