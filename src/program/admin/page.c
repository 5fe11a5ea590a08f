/* The files of the page are answered from memory, compressed as they are stored.
 *
 * Routes of the page are fragments of "/", so a path is a file or nothing. Files other than "/"
 * are named by a digest of their content: a browser asks once for each version of the program, and
 * "/" itself is asked for each time and mostly answered with 304. A client that does not take gzip
 * gets "/" plainly, and 406 for the rest: nothing here could use the rest without the script.
 *
 * The headers that every answer of the admin server has (CSP and so on) are its own.
 *
 * A program that was built without the page says so at "/", and what works without it. */
#include "program/admin/page.h"

#include "program/admin/page_assets.h"

#include <string.h>
#include <strings.h>

static const page_asset *find(const char *path)
{
    for (const page_asset *asset = page_assets; asset->path; asset++)
        if (strcmp(asset->path, path) == 0)
            return asset;
    return NULL;
}

/* One element of a list as in "gzip;q=0.5, br": whether it is NAME, and not with a weight of 0. */
static int element_is(const char *element, size_t len, const char *name)
{
    while (len && (*element == ' ' || *element == '\t'))
        element++, len--;
    size_t name_len = strcspn(element, ";, \t");
    if (name_len > len)
        name_len = len;
    if (name_len != strlen(name) || strncasecmp(element, name, name_len) != 0)
        return 0;
    const char *weight = memchr(element, '=', len);
    if (!weight)
        return 1;
    size_t rest = len - (size_t)(weight + 1 - element);
    for (const char *c = weight + 1; rest; c++, rest--)
        if (*c >= '1' && *c <= '9')
            return 1;
    return 0;
}

static int list_has(const char *list, const char *name)
{
    while (list && *list) {
        size_t len = strcspn(list, ",");
        if (element_is(list, len, name))
            return 1;
        list += len + (list[len] == ',');
    }
    return 0;
}

static int takes_gzip(const http_request *request)
{
    const char *list = http_request_header(request, "Accept-Encoding");
    return list && (list_has(list, "gzip") || list_has(list, "*"));
}

/* If-None-Match compares weakly: W/"x" is "x". */
static int has_it(const http_request *request, const page_asset *asset)
{
    const char *list = http_request_header(request, "If-None-Match");
    if (!list)
        return 0;
    if (strcmp(list, "*") == 0)
        return 1;
    for (const char *at = strstr(list, asset->etag); at; at = strstr(at + 1, asset->etag)) {
        char after = at[strlen(asset->etag)];
        if (after == '\0' || after == ',' || after == ' ')
            return 1;
    }
    return 0;
}

static void not_found(http_request *request)
{
    http_respond_problem(
        request, &(http_problem){.status = 404,
                                 .type = "not-found",
                                 .title = "There is no such page",
                                 .detail = "The page is at /; /livez, /readyz, /metrics and "
                                           "/api/v1/ are beside it."});
}

static void respond_asset(http_request *request, const page_asset *asset)
{
    int gzip = takes_gzip(request);
    if (!gzip && !asset->plain) {
        http_respond_problem(request, &(http_problem){.status = 406,
                                                      .type = "not-acceptable",
                                                      .title = "This file is stored compressed",
                                                      .detail = "Ask for it with the header "
                                                                "Accept-Encoding: gzip"});
        return;
    }
    int known = has_it(request, asset);
    const http_header headers[] = {
        {"Content-Type", asset->type},
        {"ETag", asset->etag},
        {"Vary", "Accept-Encoding"},
        {"Cache-Control", asset->keep ? "public, max-age=31536000, immutable" : "no-cache"},
        {gzip && !known ? "Content-Encoding" : NULL, "gzip"},
        {0},
    };
    http_response response = {.status = known ? 304 : 200, .headers = headers, .is_static = 1};
    if (!known) {
        response.body = gzip ? asset->gzip : asset->plain;
        response.len = gzip ? asset->gzip_len : asset->plain_len;
    }
    http_respond(request, &response);
}

static void respond_without_page(http_request *request)
{
    const char *text = region_printf(http_request_memory(request),
                                     "This semel was built without its page; /metrics and the "
                                     "commands work.\nWhy: %s.\n",
                                     page_missing);
    const http_header headers[] = {{"Content-Type", "text/plain; charset=utf-8"}, {0}};
    http_respond(
        request,
        &(http_response){.status = 200, .headers = headers, .body = text, .len = strlen(text)});
}

int page_handle(http_request *request)
{
    const char *method = http_request_method(request), *path = http_request_path(request);
    const page_asset *asset = find(path);
    int is_page = asset || (page_missing && strcmp(path, "/") == 0);
    if (!is_page)
        not_found(request);
    else if (strcmp(method, "GET") != 0 && strcmp(method, "HEAD") != 0)
        http_respond_problem(request, &(http_problem){.status = 405,
                                                      .type = "method-not-allowed",
                                                      .title = "The page is read with GET"});
    else if (asset)
        respond_asset(request, asset);
    else
        respond_without_page(request);
    return 1;
}
