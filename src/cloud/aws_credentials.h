/* The credentials for AWS, from where all of its tools find them, in this order:
 *
 *     AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN
 *     a profile (AWS_PROFILE, or "default") of ~/.aws/credentials and ~/.aws/config
 *     the endpoint of a container (AWS_CONTAINER_CREDENTIALS_RELATIVE_URI or _FULL_URI)
 *     the metadata service of the instance, version 2 only
 *
 * The last two expire, and are asked for anew five minutes before. One thread asks; the others go
 * on with what is there while it lives. What does not work is said by name of the place, and no
 * value of a key or token is in an error. */
#ifndef SEMEL_CLOUD_AWS_CREDENTIALS_H
#define SEMEL_CLOUD_AWS_CREDENTIALS_H

#include "cloud/aws_sign.h"
#include "cloud/http.h"

#include <semel/store.h>

typedef struct aws_credentials aws_credentials;

/* `profile` names one, and then nothing else is looked at; NULL: the order above. It and the seam
 * are borrowed. */
semel_status aws_credentials_open(aws_credentials **out, cloud_http *http, const char *profile,
                                  const semel_seam *seam, semel_error *err);
void aws_credentials_close(aws_credentials *chain); /* NULL is a no-op */

/* ESTORE if there are none, or if what there is cannot be used; EUNAVAILABLE if an endpoint that
 * should have them does not answer. The caller clears *out when it is done. */
semel_status aws_credentials_get(aws_credentials *chain, aws_keys *out, semel_error *err);

/* The service says that these have expired: if they are the ones that are kept, the next call asks
 * anew. */
void aws_credentials_refused(aws_credentials *chain, const aws_keys *keys);

/* --- its parts -------------------------------------------------------------------------------- */

enum { AWS_SETTING_MAX = AWS_TOKEN_MAX };

/* What one profile says. */
typedef struct aws_profile {
    aws_keys keys;
    char region[64];
    char other[64]; /* a way to get credentials that is not supported: "role_arn"; "": none */
    int found;
} aws_profile;

/* Reads the profile from both files. A file that is not there is empty. */
semel_status aws_profile_read(aws_profile *out, const char *name, semel_error *err);

/* *found is 0 if the environment names no container endpoint, or if there is no metadata service,
 * or no role there. */
semel_status aws_container_read(aws_keys *out, int *found, cloud_http *http, semel_error *err);
semel_status aws_instance_read(aws_keys *out, int *found, cloud_http *http, semel_error *err);

/* The JSON document of both: AccessKeyId, SecretAccessKey, Token, Expiration. EINVAL if it is not
 * that. */
semel_status aws_keys_parse(aws_keys *out, semel_bytes json, semel_error *err);

#endif
