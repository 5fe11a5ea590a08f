/* See aws_credentials.h. Expiry is a time of the calendar, so it is compared with the host's wall
 * clock: that decides only when credentials are asked for anew. A host whose clock is wrong hears
 * from the service that they have expired, and asks then. */
#include "cloud/aws_credentials.h"

#include "base/mem.h"
#include "base/seam.h"
#include "base/wait.h"

#include <openssl/crypto.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum {
    EARLY_MS = 5 * 60 * 1000, /* before they expire */
    LAST_MS = 10 * 1000,      /* then they are not used any more */
    AGAIN_MS = 20 * 1000,     /* after an attempt that failed, while there are some */
    WAIT_MS = 30 * 1000       /* for the thread that asks */
};

struct aws_credentials {
    cloud_http *http;
    const char *profile;
    const semel_seam *seam;
    pthread_mutex_t lock; /* for what follows */
    pthread_cond_t asked;
    aws_keys keys;
    int known;
    int asking;
    int64_t not_before_ms; /* steady: the next attempt, while there are some */
};

semel_status aws_credentials_open(aws_credentials **out, cloud_http *http, const char *profile,
                                  const semel_seam *seam, semel_error *err)
{
    aws_credentials *chain = mem_alloc(sizeof *chain);
    if (!chain)
        return semel_fail(err, SEMEL_ENOMEM, "out of memory for credentials");
    chain->http = http;
    chain->profile = profile;
    chain->seam = seam;
    int failed = pthread_mutex_init(&chain->lock, NULL);
    if (!failed && wait_condition_init(&chain->asked)) {
        (void)pthread_mutex_destroy(&chain->lock);
        failed = 1;
    }
    if (failed) {
        mem_free(chain);
        return semel_fail(err, SEMEL_ENOMEM, "no mutex for credentials");
    }
    *out = chain;
    return SEMEL_OK;
}

void aws_credentials_close(aws_credentials *chain)
{
    if (!chain)
        return;
    OPENSSL_cleanse(&chain->keys, sizeof chain->keys);
    (void)pthread_cond_destroy(&chain->asked);
    (void)pthread_mutex_destroy(&chain->lock);
    mem_free(chain);
}

/* --- the places ------------------------------------------------------------------------------- */

static const char *setting(const char *name)
{
    const char *value = getenv(name);
    return value && *value ? value : NULL;
}

static semel_status copy_setting(char *out, size_t room, const char *name, semel_error *err)
{
    const char *value = setting(name);
    size_t len = value ? strlen(value) : 0;
    if (len >= room)
        return semel_fail(err, SEMEL_ESTORE, "%s has more than %zu bytes", name, room - 1);
    memcpy(out, value ? value : "", len + 1);
    return SEMEL_OK;
}

static semel_status read_environment(aws_keys *out, int *found, semel_error *err)
{
    int id = setting("AWS_ACCESS_KEY_ID") != NULL;
    int secret = setting("AWS_SECRET_ACCESS_KEY") != NULL;
    *found = id && secret;
    if (id != secret)
        return semel_fail(err, SEMEL_ESTORE,
                          "AWS credentials: the environment has %s but not %s; set both or none",
                          id ? "AWS_ACCESS_KEY_ID" : "AWS_SECRET_ACCESS_KEY",
                          id ? "AWS_SECRET_ACCESS_KEY" : "AWS_ACCESS_KEY_ID");
    if (!*found)
        return SEMEL_OK;
    semel_status status = copy_setting(out->id, sizeof out->id, "AWS_ACCESS_KEY_ID", err);
    if (!status)
        status = copy_setting(out->secret, sizeof out->secret, "AWS_SECRET_ACCESS_KEY", err);
    return status ? status : copy_setting(out->token, sizeof out->token, "AWS_SESSION_TOKEN", err);
}

static semel_status check_profile(const aws_profile *p, const char *name, semel_error *err)
{
    if (!p->found)
        return semel_fail(err, SEMEL_ESTORE,
                          "AWS credentials: there is no profile \"%s\" in the shared files "
                          "(~/.aws/credentials, ~/.aws/config)",
                          name);
    if (p->other[0])
        return semel_fail(err, SEMEL_ESTORE,
                          "AWS credentials: profile \"%s\" gets them by %s, which semel does not "
                          "do; run semel with what `aws configure export-credentials --profile %s "
                          "--format env` prints, or on a role of the container or instance",
                          name, p->other, name);
    return semel_fail(err, SEMEL_ESTORE,
                      "AWS credentials: profile \"%s\" has no aws_access_key_id and "
                      "aws_secret_access_key",
                      name);
}

/* A profile that the environment names must be there; "default" need not. */
static semel_status read_files(aws_keys *out, int *found, const char *named, semel_error *err)
{
    aws_profile profile;
    const char *name = named ? named : "default";
    semel_status status = aws_profile_read(&profile, name, err);
    *found = !status && profile.keys.id[0] && profile.keys.secret[0];
    if (*found)
        *out = profile.keys;
    else if (!status && (named || profile.other[0]))
        status = check_profile(&profile, name, err);
    OPENSSL_cleanse(&profile, sizeof profile);
    return status;
}

static semel_status none_found(semel_error *err)
{
    if (setting("AWS_WEB_IDENTITY_TOKEN_FILE"))
        return semel_fail(err, SEMEL_ESTORE,
                          "AWS credentials: AWS_WEB_IDENTITY_TOKEN_FILE is set, which semel does "
                          "not use; give the pod its role by EKS Pod Identity, or set "
                          "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY");
    return semel_fail(err, SEMEL_ESTORE,
                      "there are no AWS credentials: set AWS_ACCESS_KEY_ID and "
                      "AWS_SECRET_ACCESS_KEY, or AWS_PROFILE, or give the container or instance a "
                      "role (an emulator takes any)");
}

static semel_status find_keys(const aws_credentials *chain, aws_keys *out, semel_error *err)
{
    int found = 0;
    semel_status status = SEMEL_OK;
    *out = (aws_keys){0};
    if (!chain->profile)
        status = read_environment(out, &found, err);
    if (!status && !found)
        status =
            read_files(out, &found, chain->profile ? chain->profile : setting("AWS_PROFILE"), err);
    if (!status && !found)
        status = aws_container_read(out, &found, chain->http, err);
    if (!status && !found)
        status = aws_instance_read(out, &found, chain->http, err);
    return status || found ? status : none_found(err);
}

/* --- the one that is kept --------------------------------------------------------------------- */

static int lives(const aws_credentials *chain, int64_t margin_ms)
{
    return chain->known && (!chain->keys.expires_ms ||
                            chain->keys.expires_ms - margin_ms > seam_wall_ms(chain->seam));
}

/* Good enough without asking: fresh, or alive while another thread asks or has just failed. */
static int serves(const aws_credentials *chain)
{
    if (lives(chain, EARLY_MS))
        return 1;
    return lives(chain, LAST_MS) && (chain->asking || wait_clock_ms() < chain->not_before_ms);
}

/* Called and returns with the lock. */
static semel_status ask(aws_credentials *chain, semel_error *err)
{
    aws_keys keys;
    chain->asking = 1;
    (void)pthread_mutex_unlock(&chain->lock);
    semel_status status = find_keys(chain, &keys, err);
    (void)pthread_mutex_lock(&chain->lock);
    chain->asking = 0;
    if (!status) {
        chain->keys = keys;
        chain->known = 1;
    }
    chain->not_before_ms = status ? wait_clock_ms() + AGAIN_MS : 0;
    OPENSSL_cleanse(&keys, sizeof keys);
    (void)pthread_cond_broadcast(&chain->asked);
    return status && lives(chain, LAST_MS) ? SEMEL_OK : status;
}

semel_status aws_credentials_get(aws_credentials *chain, aws_keys *out, semel_error *err)
{
    semel_status status = SEMEL_OK;
    struct timespec until = wait_until(wait_clock_ms() + WAIT_MS);
    (void)pthread_mutex_lock(&chain->lock);
    int late = 0;
    while (!serves(chain) && chain->asking && !late)
        late = pthread_cond_timedwait(&chain->asked, &chain->lock, &until) != 0;
    if (!serves(chain))
        status = chain->asking ? semel_fail(err, SEMEL_EUNAVAILABLE,
                                            "AWS credentials: another thread has waited for them "
                                            "for %d ms",
                                            WAIT_MS)
                               : ask(chain, err);
    if (!status)
        *out = chain->keys;
    (void)pthread_mutex_unlock(&chain->lock);
    return status;
}

void aws_credentials_refused(aws_credentials *chain, const aws_keys *keys)
{
    (void)pthread_mutex_lock(&chain->lock);
    if (chain->known && strcmp(chain->keys.id, keys->id) == 0 &&
        strcmp(chain->keys.token, keys->token) == 0)
        chain->known = 0;
    (void)pthread_mutex_unlock(&chain->lock);
}
