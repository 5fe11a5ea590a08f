/* A client: where its server is, and what TLS needs. */
#include "redis/client.h"

#include <openssl/evp.h>
#include <stdio.h>
#include <string.h>

semel_status redis_client_init(redis_client *client, const redis_role *role,
                               const redis_links *links, const redis_address *at, semel_error *err)
{
    client->role = role;
    client->links = links;
    client->at = at;
    client->port = at->port;
    (void)snprintf(client->host, sizeof client->host, "%s", at->host);
    semel_status status = redis_tls_prepare(&client->tls, at, err);
    if (status)
        return status;
    int error = pthread_mutex_init(&client->lock, NULL);
    client->ready = !error;
    return error ? semel_fail(err, SEMEL_ENOMEM, "no lock for connections: %s", strerror(error))
                 : SEMEL_OK;
}

void redis_client_free(redis_client *client)
{
    SSL_CTX_free(client->tls);
    client->tls = NULL;
    if (client->ready)
        pthread_mutex_destroy(&client->lock);
    client->ready = 0;
}

/* --- where the slot is ------------------------------------------------------------------------ */

uint64_t redis_place(redis_client *client, char host[256], uint32_t *port)
{
    pthread_mutex_lock(&client->lock);
    (void)snprintf(host, 256, "%s", client->host);
    *port = client->port;
    uint64_t place = client->place;
    pthread_mutex_unlock(&client->lock);
    return place;
}

void redis_place_move(redis_client *client, const char *host, uint32_t port)
{
    pthread_mutex_lock(&client->lock);
    if (strcmp(client->host, host) != 0 || client->port != port) {
        (void)snprintf(client->host, sizeof client->host, "%s", host);
        client->port = port;
        client->place++;
    }
    pthread_mutex_unlock(&client->lock);
}

void redis_place_reset(redis_client *client)
{
    redis_place_move(client, client->at->host, client->at->port);
}

/* --- scripts ---------------------------------------------------------------------------------- */

semel_status redis_script_prepare(redis_script *script, const char *text, semel_error *err)
{
    unsigned char digest[EVP_MAX_MD_SIZE];
    unsigned len = 0;
    script->text = text;
    if (EVP_Digest(text, strlen(text), digest, &len, EVP_sha1(), NULL) != 1 ||
        len * 2 != REDIS_SHA_LEN)
        return semel_fail(err, SEMEL_EUNSUPPORTED,
                          "redis: this OpenSSL has no SHA-1, by which Redis names scripts");
    for (unsigned i = 0; i < len; i++)
        (void)snprintf(script->sha + 2 * (size_t)i, 3, "%02x", digest[i]);
    return SEMEL_OK;
}
