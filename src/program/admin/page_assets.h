/* The files of the page, compiled into the program; a generated file (page/build.mjs) has them. */
#ifndef SEMEL_PROGRAM_ADMIN_PAGE_ASSETS_H
#define SEMEL_PROGRAM_ADMIN_PAGE_ASSETS_H

#include <stddef.h>

typedef struct page_asset {
    const char *path; /* "/", "/assets/app-0123456789abcdef.js" */
    const char *type;
    const char *etag; /* in quotes */
    int keep;         /* the name has a digest of the content: a browser may keep it for ever */
    const unsigned char *gzip;
    size_t gzip_len;
    const unsigned char *plain; /* NULL: stored compressed only */
    size_t plain_len;
} page_asset;

extern const page_asset page_assets[]; /* the last one has no path */
extern const char
    *const page_missing; /* why the program was built without the page; NULL: it was not */

#endif
