/* The scripts. Redis runs one at a time and nothing in between. What was written before an error
 * stays, so each does first what can be refused; pcall() in place of call() keeps the code of an
 * error in Redis 6.2, too. XINFO answers with names and values in turn. */
#include "transport/redis/streams.h"

/* KEYS: the stream. ARGV: for each message the number of its words, and the words.
 * Answer: how many were added, in their order; -1: no group reads the stream, or there is none.
 *
 * Nothing can fail in the middle but for an entry that no stream takes: no memory, no disk, no
 * replica refuse the first write or none. */
static const char publish_text[] =
    "local K, A, pcall = KEYS[1], ARGV, redis.pcall\n"
    "local groups = pcall('XINFO', 'GROUPS', K)\n"
    "if groups.err then\n"
    " return redis.call('EXISTS', K) == 1 and groups or -1\n"
    "end\n"
    "if #groups == 0 then return -1 end\n"
    "local p, n, last = 1, 0, #A\n"
    "while p <= last do\n"
    " local words = tonumber(A[p])\n"
    " local r = pcall('XADD', K, 'NOMKSTREAM', '*', unpack(A, p + 1, p + words))\n"
    " if type(r) == 'table' then return n == 0 and r or n end\n"
    " n, p = n + 1, p + 1 + words\n"
    "end\n"
    "return n\n";

/* With single_active. older(): some that are pending come before what this consumer (A[2]) may have
 * now. Those of others do until they are idle; so do its own, if there are more than it knows of
 * (`held`): it has given some back, or has never got the answer that they were in. */
#define OLDER                                                            \
    "local function older(held, claim_ms)\n"                             \
    " local p = redis.pcall('XPENDING', K, A[1])\n"                      \
    " if p.err then return p end\n"                                      \
    " local own, all = 0, tonumber(p[1])\n"                              \
    " for _, one in ipairs(p[4] or {}) do\n"                             \
    "  if one[1] == A[2] then own = tonumber(one[2]) end\n"              \
    " end\n"                                                             \
    " if own == all and own <= held then return false end\n"             \
    " if not claim_ms then return true end\n"                            \
    " local first = redis.call('XPENDING', K, A[1], '-', '+', 1)[1]\n"   \
    " return first[3] < claim_ms and (first[2] ~= A[2] or own > held)\n" \
    "end\n"

/* KEYS: the stream. ARGV: group, consumer, claim_ms, cursor, count; with single_active how many
 * deliveries the consumer has, else "". With it only those at the beginning are claimed, up to the
 * first that another consumer may still be handling: nothing overtakes that one.
 * Answer: the next cursor, entries, for each how often it was delivered, and how many were pending
 * and are no longer in the stream. An entry is nil if it was removed (Redis 6.2). */
static const char claim_text[] =
    "local K, A, call = KEYS[1], ARGV, redis.call\n" OLDER
    "local waits = A[6] ~= '' and older(tonumber(A[6]), tonumber(A[3]))\n"
    "if waits then return type(waits) == 'table' and waits or {'0-0', {}, {}, 0} end\n"
    "local function claim_first()\n"
    " local ids, there, gone = {}, 0, {}\n"
    " for _, p in ipairs(call('XPENDING', K, A[1], '-', '+', A[5] + A[6])) do\n"
    "  if p[3] >= tonumber(A[3]) then ids[#ids + 1] = p[1] elseif p[2] ~= A[2] then break end\n"
    "  if #ids == 1000 then break end\n" /* Lua hands no more than some thousand on */
    " end\n"
    " local got = #ids > 0 and call('XCLAIM', K, A[1], A[2], A[3], unpack(ids)) or {}\n"
    " for i = 1, #got do\n" /* Redis 6.2 says nil of an entry that was removed, and keeps it */
    "  if got[i] then there = there + 1 else call('XACK', K, A[1], ids[i]) end\n"
    " end\n"
    " for i = 1, #ids - there do gone[i] = 0 end\n"
    " return {'0-0', got, gone}\n"
    "end\n"
    "local r = A[6] ~= '' and claim_first() or\n"
    "          redis.pcall('XAUTOCLAIM', K, A[1], A[2], A[3], A[4], 'COUNT', A[5])\n"
    "if r.err then return r end\n"
    "local counts = {}\n"
    "for i = 1, #r[2] do\n"
    " local e = r[2][i]\n"
    " local p = e and call('XPENDING', K, A[1], e[1], e[1], 1)[1]\n"
    " counts[i] = p and p[4] or 1\n"
    "end\n"
    "return {r[1], r[2], counts, r[3] and #r[3] or 0}\n";

/* KEYS: the stream. ARGV: group, consumer, how many deliveries it has, count.
 * Answer: new entries, if all that are pending are those deliveries, so that entries go to one
 * consumer at a time. If there are no new ones, the last that was read; if older ones are pending,
 * nothing. */
static const char next_text[] =
    "local K, A = KEYS[1], ARGV\n" OLDER "local waits = older(tonumber(A[3]))\n"
    "if waits then return type(waits) == 'table' and waits or {} end\n"
    "local r = redis.pcall('XREADGROUP', 'GROUP', A[1], A[2], 'COUNT', A[4], 'STREAMS', K, '>')\n"
    "if r then return r.err and r or {r[1][2]} end\n"
    "for _, one in ipairs(redis.call('XINFO', 'GROUPS', K)) do\n"
    " local m = {}\n"
    " for i = 1, #one, 2 do m[one[i]] = one[i + 1] end\n"
    " if m.name == A[1] then return {m['last-delivered-id']} end\n"
    "end\n"
    "return {}\n";

/* KEYS: the stream, the dead one. ARGV: group, consumer, what is removed when it is acknowledged
 * (a: if this group is the only one, y: nothing, n: all), then for each delivery: A acknowledge,
 * D reject, C change its idle time; entry, number of deliveries, idle time.
 * Answer: the numbers of those that are no longer this consumer's, or were removed from the stream
 * before they could be copied, from 0 on.
 *
 * Lua hands about 8000 words to a command: of an entry with more, what is behind the first 7000 is
 * one field of its copy. An error in the middle would leave the other deliveries unsettled. */
static const char settle_text[] =
    "local K, A, call = KEYS, ARGV, redis.call\n"
    "local only, failure, lost = nil, nil, {}\n"
    "local function removes()\n"
    " if A[3] ~= 'a' then return A[3] == 'n' end\n"
    " if only == nil then only = #call('XINFO', 'GROUPS', K[1]) == 1 end\n"
    " return only\n"
    "end\n"
    "local function bury(id, at)\n"
    " local e = call('XRANGE', K[1], id, id)[1]\n"
    " if not e then lost[#lost + 1] = at return end\n"
    " local words, rest = e[2], {}\n"
    " for i = #words, 7001, -1 do rest[i - 7000], words[i] = words[i], nil end\n"
    " local n = #words\n"
    " words[n + 1], words[n + 2] = 'semel-dead-stream', K[1]\n"
    " words[n + 3], words[n + 4] = 'semel-dead-entry', id\n"
    " if #rest > 0 then\n"
    "  words[n + 5], words[n + 6] = 'semel-dead-rest', cmsgpack.pack(rest)\n"
    " end\n"
    " local r = redis.pcall('XADD', K[2], '*', unpack(words))\n"
    " return type(r) == 'table' and r\n"
    "end\n"
    "for p = 4, #A, 4 do\n"
    " local verdict, id = A[p], A[p + 1]\n"
    " local there = call('XPENDING', K[1], A[1], id, id, 1)[1]\n"
    " if not there or there[2] ~= A[2] or there[4] ~= tonumber(A[p + 2]) then\n"
    "  lost[#lost + 1] = (p - 4) / 4\n"
    " elseif verdict == 'C' then\n"
    "  call('XCLAIM', K[1], A[1], A[2], 0, id, 'IDLE', A[p + 3], 'JUSTID')\n"
    " else\n"
    "  local refused = verdict == 'D' and bury(id, (p - 4) / 4)\n"
    "  if refused then\n"
    "   failure = refused\n"
    "  else\n"
    "   call('XACK', K[1], A[1], id)\n"
    "   if removes() then call('XDEL', K[1], id) end\n"
    "  end\n"
    " end\n"
    "end\n"
    "return failure or lost\n";

/* KEYS: the stream. ARGV: group.
 * Answer: number of groups (-1: no stream), 1 if the group is there, entries that were removed
 * before it has read them, as far as the server can tell. */
static const char look_text[] = "local function map(list)\n"
                                " local m = {}\n"
                                " for i = 1, #list, 2 do m[list[i]] = list[i + 1] end\n"
                                " return m\n"
                                "end\n"
                                "local function after(a, b)\n"
                                " local x, i = string.match(a, '(%d+)-(%d+)')\n"
                                " local y, j = string.match(b, '(%d+)-(%d+)')\n"
                                " x, y, i, j = tonumber(x), tonumber(y), tonumber(i), tonumber(j)\n"
                                " return x > y or x == y and i > j\n"
                                "end\n"
                                "if redis.call('EXISTS', KEYS[1]) == 0 then return {-1, 0, 0} end\n"
                                "local groups, g = redis.pcall('XINFO', 'GROUPS', KEYS[1]), nil\n"
                                "if groups.err then return groups end\n"
                                "for _, one in ipairs(groups) do\n"
                                " local m = map(one)\n"
                                " if m.name == ARGV[1] then g = m end\n"
                                "end\n"
                                "local lost, s = 0, map(redis.call('XINFO', 'STREAM', KEYS[1]))\n"
                                "local added, read = s['entries-added'], g and g['entries-read']\n"
                                "if added and read then\n"
                                " local first = s['first-entry']\n"
                                " if not first or after(first[1], g['last-delivered-id']) then\n"
                                "  lost = added - s.length - read\n"
                                " end\n"
                                "end\n"
                                "return {#groups, g and 1 or 0, lost}\n";

/* KEYS: the stream. ARGV: group, claim_ms. Answer: entries that nobody has read, and those that are
 * to be claimed; -1: no such group. If nothing is left of what was read, all of the stream is new:
 * the lag would count entries that were trimmed, too. Without a lag (before Redis 7.0, or after a
 * removal in the middle) entries are counted. */
static const char depth_text[] =
    "local K, A, call = KEYS[1], ARGV, redis.call\n"
    "local groups, ready = redis.pcall('XINFO', 'GROUPS', K), nil\n"
    "if groups.err then return call('EXISTS', K) == 1 and groups or -1 end\n"
    "local function count(...)\n"
    " local n, words = 0, {...}\n"
    " local place = words[#words]\n"
    " words[#words] = nil\n"
    " repeat\n"
    "  local page = call(unpack(words))\n"
    "  n = n + #page\n"
    "  if #page > 0 then words[place] = '(' .. page[#page][1] end\n"
    " until #page < 1000\n"
    " return n\n"
    "end\n"
    "for _, one in ipairs(groups) do\n"
    " local m = {}\n"
    " for i = 1, #one, 2 do m[one[i]] = one[i + 1] end\n"
    " if m.name == A[1] then\n"
    "  local last = m['last-delivered-id']\n"
    "  if #call('XRANGE', K, '-', last, 'COUNT', 1) == 0 then\n"
    "   ready = call('XLEN', K)\n"
    "  else\n"
    "   ready = m.lag or count('XRANGE', K, '(' .. last, '+', 'COUNT', 1000, 3)\n"
    "  end\n"
    " end\n"
    "end\n"
    "if not ready then return -1 end\n"
    "return ready + count('XPENDING', K, A[1], 'IDLE', A[2], '-', '+', 1000, 6)\n";

/* KEYS: the stream. ARGV: group, this consumer, the beginning of names that semel gives, idle time.
 * A consumer's name is removed only if it has nothing: its pending entries would be lost with it.
 * One that is alive gets its name back with the next XREADGROUP. */
static const char clean_text[] =
    "local K, A = KEYS[1], ARGV\n"
    "local all = redis.pcall('XINFO', 'CONSUMERS', K, A[1])\n"
    "if all.err then return 0 end\n"
    "for _, one in ipairs(all) do\n"
    " local m = {}\n"
    " for i = 1, #one, 2 do m[one[i]] = one[i + 1] end\n"
    " local old = string.sub(m.name, 1, #A[3]) == A[3] and m.idle > tonumber(A[4])\n"
    " if m.pending == 0 and (m.name == A[2] or old) then\n"
    "  redis.call('XGROUP', 'DELCONSUMER', K, A[1], m.name)\n"
    " end\n"
    "end\n"
    "return 0\n";

semel_status stream_scripts_prepare(streams *self, semel_error *err)
{
    static const char *const texts[STREAM_SCRIPTS] = {
        [STREAM_PUBLISH] = publish_text, [STREAM_CLAIM] = claim_text, [STREAM_NEXT] = next_text,
        [STREAM_SETTLE] = settle_text,   [STREAM_LOOK] = look_text,   [STREAM_DEPTH] = depth_text,
        [STREAM_CLEAN] = clean_text};
    semel_status status = SEMEL_OK;
    for (size_t i = 0; !status && i < STREAM_SCRIPTS; i++)
        status = redis_script_prepare(&self->scripts[i], texts[i], err);
    return status;
}

redis_request stream_request(const streams *self, stream_script script, const char *doing)
{
    redis_request r = {.doing = doing, .script = &self->scripts[script]};
    redis_word_number(&r, script == STREAM_SETTLE ? 2 : 1);
    redis_word_z(&r, self->at.stream);
    if (script == STREAM_SETTLE)
        redis_word_z(&r, self->at.dead);
    return r;
}
