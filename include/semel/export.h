/* SEMEL_API marks the symbols that the library exports. All other symbols are hidden.
 * SPDX-License-Identifier: MIT */
#ifndef SEMEL_EXPORT_H
#define SEMEL_EXPORT_H

#if defined(__GNUC__)
#define SEMEL_API                 __attribute__((visibility("default")))
#define SEMEL_PRINTF(text, first) __attribute__((format(printf, text, first)))
#else
#define SEMEL_API
#define SEMEL_PRINTF(text, first)
#endif

#if defined(__cplusplus)
#define SEMEL_BEGIN_DECLS extern "C" {
#define SEMEL_END_DECLS   }
#else
#define SEMEL_BEGIN_DECLS
#define SEMEL_END_DECLS
#endif

#endif
