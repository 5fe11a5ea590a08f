/* Requests to the API of the admin server: the target with its query, and the body of a change.
 *
 * - A target is refused with a reason, or its parts are UTF-8 without NUL, within their limits,
 * and each parameter is there once and found by its name. - A body is refused with a reason, or
 * it is JSON, it names a change that is known, and its texts are within their limits. - The same
 * input is read in the same way twice. */
#include "program/admin/api_query.h"
#include "program/support/encoding.h"
#include "program/support/strict_json.h"
#include "property.h"

static void check_text(const char *text, size_t most)
{
    HOLDS(!text || strlen(text) <= most);
    HOLDS(!text || encoding_is_text(text, strlen(text)));
}

static void check_query(const char *target)
{
    region memory = {0};
    api_query q, again;
    const char *wrong = api_query_parse(&q, &memory, target);
    const char *twice = api_query_parse(&again, &memory, target);
    HOLDS((wrong == NULL) == (twice == NULL));
    for (size_t i = 0; !wrong && i < q.segment_count; i++)
        check_text(q.segments[i], API_TARGET_MAX);
    for (size_t i = 0; !wrong && i < q.pair_count; i++) {
        const api_pair *pair = &q.pairs[i];
        const char *found = api_query_get(&q, pair->name);
        check_text(pair->name, API_TARGET_MAX);
        check_text(pair->value, API_VALUE_MAX);
        HOLDS(*pair->value ? found && strcmp(found, pair->value) == 0 : !found);
        HOLDS(strcmp(pair->name, again.pairs[i].name) == 0);
    }
    HOLDS(wrong || (q.segment_count <= API_SEGMENTS_MAX && q.pair_count <= API_PAIRS_MAX));
    region_free(&memory);
}

static void check_action(semel_bytes body)
{
    enum { DEPTH = 4 };
    region memory = {0};
    api_action a, again;
    const char *wrong = api_action_parse(&a, &memory, body);
    const char *twice = api_action_parse(&again, &memory, body);
    HOLDS((wrong == NULL) == (twice == NULL));
    if (!wrong) {
        HOLDS(strict_json_check(body, DEPTH, NULL));
        HOLDS(a.verb > 0 && a.verb < API_VERBS && a.verb == again.verb);
        HOLDS(a.id_count <= API_IDS_MAX && a.id_count == again.id_count);
        HOLDS(a.count >= -1 && a.until_id >= 0);
        check_text(a.reason, API_REASON_MAX);
        check_text(a.who, API_WHO_MAX);
        check_text(a.key, API_VALUE_MAX);
        check_text(a.since, API_VALUE_MAX);
        HOLDS(strlen(api_action_text(&memory, &a)) > 0);
    }
    region_free(&memory);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    void *copy = exact_copy(data, size);
    char *target = exact_text(data, size);
    int64_t number = 0;
    check_action((semel_bytes){copy, size});
    check_query(target);
    HOLDS(!api_query_number(&number, target) || number >= 0);
    free(target);
    free(copy);
    return 0;
}
