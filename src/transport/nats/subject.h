/* Subjects of NATS: tokens between dots. */
#ifndef SEMEL_TRANSPORT_NATS_SUBJECT_H
#define SEMEL_TRANSPORT_NATS_SUBJECT_H

/* 1 if a message can be published there: no empty token, no space, no control character, and no
 * token that is a wildcard. */
int jet_subject_is_plain(const char *subject);

/* The same for what a stream takes or a consumer filters by, where a token may be * and the last
 * one may be >. */
int jet_subject_is_pattern(const char *subject);

/* 1 if it may name a stream or a consumer: one token, without slashes. */
int jet_name_is_valid(const char *name);

#endif
