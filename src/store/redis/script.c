/* The scripts. Redis runs one at a time and nothing in between, which is what makes an apply() all
 * or nothing; but it takes nothing back: what was written before an error stays. So the script of
 * apply() checks everything before it writes anything, and its order of writing is this:
 *
 *   1. The application's commands. One that fails leaves nothing of its own, and the commands
 *      before it are undone: each key was kept (DUMP) before, if it has at most UNDO_MAX elements
 *      or UNDO_BYTES bytes. The types of larger keys were looked at before. So what is left, for
 *      large keys alone, is a command that fails by its values (HINCRBY of a text); the answer
 *      tells.
 *   2. The records, HSET first. It is the one that could still be refused as the first write
 *      (no memory, no disk, no replica, no right), and then nothing has been written. Redis refuses
 *      no later one for these reasons.
 *
 * WAIT and WAITAOF wait for the last write of their own connection. Where one follows, a request
 * that changes nothing writes the head of a record once more, as it is: so what the answer tells
 * (this is done already) has been stored as well when the wait is over, whoever wrote it. That
 * matters for a commit whose answer was lost, and for copies of a message.
 *
 * A first command that is refused because the server is in trouble (no memory, a replica) is no
 * failure of the application's: the answer is then the server's own error.
 *
 * Rights to single commands are looked at when the store is opened (SCRIPT_RIGHTS), by calls that
 * change nothing. pcall() in place of call() keeps the code of an error in Redis 6.2, too.
 *
 * All keys that are written are declared. Redis and Valkey replicate and log the effects of a
 * script, so TIME in it is allowed. */
#include "store/redis/redis.h"

#include <string.h>

/* KEYS: records, then indexes, then keys of commands.
 * ARGV: number of records, channel (or nothing), 1 if WAIT or WAITAOF follows, then for each record
 *       CODE [EXPECTED] [HEAD VALUE [BODY]]
 *         CODE: W write, R remove, C check; A absent, V version, G guard; b with a body, k keep it,
 *               n none; the number of the index
 *         EXPECTED: a version; or 8 bytes of a guard, and the time at which it must live
 *       then the number of commands, and for each: number of keys, type, keys, number of words,
 *       words.
 * Answer: seconds, microseconds; then nothing, or for each refused record its number, head and
 * value; or "F", number of the command, of keys that could not be undone, error. */
static const char apply_first[] =
    "local K, A, call, pcall, sub, byte = KEYS, ARGV, redis.call, redis.pcall, string.sub, "
    "string.byte\n"
    "local function later(a, b)\n" /* Lua's numbers have 53 bits */
    " local x, y = tonumber(sub(a, 1, 10)), tonumber(sub(b, 1, 10))\n"
    " return x > y or x == y and tonumber(sub(a, 11)) > tonumber(sub(b, 11))\n"
    "end\n"
    "local n, t, p, out, there = tonumber(A[1]), call('TIME'), 4, nil, nil\n"
    "local function touch(i)\n"
    " local r = pcall('HSET', K[i], 'h', call('HGET', K[i], 'h'))\n"
    " return type(r) == 'table' and r or nil\n"
    "end\n"
    "for i = 1, n do\n"
    " local kind, expect, body = byte(A[p], 1, 3)\n"
    " local h, ok = call('HGET', K[i], 'h'), false\n"
    " p = p + 1\n"
    " if expect == 65 then\n"
    "  ok = not h\n"
    " else\n"
    "  local e = A[p]\n"
    "  p = p + 1\n"
    "  if h and expect == 86 then\n"
    "   ok = sub(h, 1, 16) == e\n"
    "  elseif h then\n"
    "   ok = sub(h, 17, 24) == sub(e, 1, 8) and (#e == 8 or later(sub(h, 25), sub(e, 9)))\n"
    "  end\n"
    " end\n"
    " if not ok then\n"
    "  out = out or {t[1], t[2]}\n"
    "  local m = #out\n"
    "  there = there or h and i\n"
    "  out[m + 1], out[m + 2], out[m + 3] = i, h or '', h and call('HGET', K[i], 'd') or ''\n"
    " end\n"
    " if kind == 87 then p = p + (body == 98 and 3 or 2) end\n"
    "end\n"
    "if out then return there and A[3] == '1' and touch(there) or out end\n"
    "local function troubled(r)\n"
    " local code = string.match(r.err, '^%-?(%u+)') or '?'\n"
    " return string.find(' OOM READONLY NOREPLICAS MISCONF MASTERDOWN ', ' ' .. code .. ' ', 1, "
    "true)\n"
    "end\n"
    "local commands = tonumber(A[p])\n"
    "if commands == 1 then\n" /* nothing is to be undone if it fails */
    " local from = p + 4 + tonumber(A[p + 1])\n"
    " local r = pcall(unpack(A, from, from + tonumber(A[from - 1]) - 1))\n"
    " if type(r) == 'table' and r.err then\n"
    "  return troubled(r) and r or {t[1], t[2], 'F', 1, 0, r.err}\n"
    " end\n"
    "elseif commands > 1 then\n"
    " local list, kept = {}, {}\n"
    " p = p + 1\n"
    " for j = 1, commands do\n"
    "  local c = {keys = {}, words = {}, kind = A[p + 1]}\n"
    "  local count = tonumber(A[p])\n"
    "  p = p + 2\n"
    "  for k = 1, count do c.keys[k] = A[p]; p = p + 1 end\n"
    "  count = tonumber(A[p])\n"
    "  for k = 1, count do c.words[k] = A[p + k] end\n"
    "  p = p + 1 + count\n"
    "  list[j] = c\n"
    " end\n"
    " local sizes = {string = 'STRLEN', list = 'LLEN', set = 'SCARD', zset = 'ZCARD',\n"
    "  hash = 'HLEN', stream = 'XLEN'}\n"
    " local kinds = {}\n"
    " for j = 1, commands do\n"
    "  for _, key in ipairs(list[j].keys) do\n"
    "   local kind, known = kinds[key], true\n"
    "   if not kind then kind, known = call('TYPE', key).ok, false; kinds[key] = kind end\n"
    "   if list[j].kind ~= '' and kind ~= 'none' and kind ~= list[j].kind then\n"
    "    return {t[1], t[2], 'F', j, 0, 'WRONGTYPE the key holds a ' .. kind .. ', not a ' ..\n"
    "     list[j].kind}\n"
    "   end\n"
    "   if not known and j < commands then\n"
    "    local size = sizes[kind] and call(sizes[kind], key) or 0\n"
    "    if kind == 'none' then\n"
    "     kept[key] = {}\n"
    "    elseif size <= (kind == 'string' and 65536 or 512) then\n"
    "     local dump = pcall('DUMP', key)\n"
    "     if type(dump) == 'string' then kept[key] = {dump, call('PTTL', key)} end\n"
    "    end\n"
    "   end\n"
    "  end\n"
    " end\n"
    " for j = 1, commands do\n"
    "  local r = pcall(unpack(list[j].words))\n"
    "  if type(r) == 'table' and r.err then\n"
    "   if j == 1 and troubled(r) then return r end\n"
    "   local torn, done = 0, {}\n"
    "   for i = 1, j - 1 do\n"
    "    for _, key in ipairs(list[i].keys) do\n"
    "     local was, failed = kept[key], nil\n"
    "     if not done[key] then\n"
    "      if was and was[1] then\n"
    "       failed = pcall('RESTORE', key, was[2] > 0 and was[2] or 0, was[1], 'REPLACE')\n"
    "       failed = failed.err\n"
    "      elseif was then\n"
    "       pcall('DEL', key)\n"
    "      end\n"
    "      if failed or not was then torn = torn + 1 end\n"
    "      done[key] = true\n"
    "     end\n"
    "    end\n"
    "   end\n"
    "   return {t[1], t[2], 'F', j, torn, r.err}\n"
    "  end\n"
    " end\n"
    "end\n";

/* Its second half: the records. C promises no longer string than 4095 bytes. */
static const char apply_second[] =
    "p = 4\n"
    "local removed, wrote\n"
    "for i = 1, n do\n"
    " local c = A[p]\n"
    " local kind, expect, body = byte(c, 1, 3)\n"
    " p = p + (expect == 65 and 1 or 2)\n"
    " wrote = wrote or kind ~= 67\n"
    " if kind == 87 then\n"
    "  local r\n"
    "  if body == 98 then\n"
    "   r = pcall('HSET', K[i], 'h', A[p], 'd', A[p + 1], 'b', A[p + 2])\n"
    "   p = p + 3\n"
    "  else\n"
    "   r = pcall('HSET', K[i], 'h', A[p], 'd', A[p + 1])\n"
    "   p = p + 2\n"
    "  end\n"
    "  if type(r) == 'table' then return r end\n"
    "  if expect == 65 then\n"
    "   local index = K[n + tonumber(sub(c, 4))]\n"
    "   call('ZADD', index, 0, sub(K[i], #index + 2))\n"
    "  elseif body == 110 then\n"
    "   call('HDEL', K[i], 'b')\n"
    "  end\n"
    " elseif kind == 82 then\n"
    "  removed = removed or {}\n"
    "  removed[#removed + 1] = i\n"
    "  removed[#removed + 1] = tonumber(sub(c, 4))\n"
    " end\n"
    "end\n"
    "for m = 1, removed and #removed or 0, 2 do\n"
    " local key, index = K[removed[m]], K[n + removed[m + 1]]\n"
    " local r = pcall('DEL', key)\n"
    " if type(r) == 'table' then return r end\n"
    " call('ZREM', index, sub(key, #index + 2))\n"
    "end\n"
    "if A[3] == '1' and not wrote and commands == 0 then\n"
    " for i = 1, n do\n"
    "  if call('HGET', K[i], 'h') then return touch(i) or t end\n"
    " end\n"
    "end\n"
    "if A[2] ~= '' then pcall('PUBLISH', A[2], '') end\n"
    "return t\n";

/* KEYS: an index. ARGV: a ascending or d descending, two bounds, limit, 1 with bodies.
 * Answer: seconds, microseconds, then for each record key, head, value and, if wanted, body. */
static const char scan_text[] =
    "local K, A, call = KEYS[1], ARGV, redis.call\n"
    "local t, bodies = call('TIME'), A[5] == '1'\n"
    "local keys = call(A[1] == 'a' and 'ZRANGEBYLEX' or 'ZREVRANGEBYLEX', K, A[2], A[3],\n"
    " 'LIMIT', 0, A[4])\n"
    "local out, m = {t[1], t[2]}, 2\n"
    "for i = 1, #keys do\n"
    " local r\n"
    " if bodies then r = call('HMGET', K .. ':' .. keys[i], 'h', 'd', 'b')\n"
    " else r = call('HMGET', K .. ':' .. keys[i], 'h', 'd') end\n"
    " if r[1] then\n"
    "  out[m + 1], out[m + 2], out[m + 3] = keys[i], r[1], r[2]\n"
    "  m = m + 3\n"
    "  if bodies then out[m + 1] = r[3]; m = m + 1 end\n"
    " end\n"
    "end\n"
    "return out\n";

/* Which of these may not be called, though none of them changes anything: KEYS[1] is never there.
 * Answer: name and error of the first; else nothing. */
static const char rights_text[] =
    "local calls = {{'TIME'}, {'HGET', KEYS[1], 'h'}, {'HMGET', KEYS[1], 'h', 'd'},\n"
    " {'ZCARD', KEYS[1]}, {'ZRANGEBYLEX', KEYS[1], '-', '+'},\n"
    " {'ZREVRANGEBYLEX', KEYS[1], '+', '-'}, {'HDEL', KEYS[1], 'b'},\n"
    " {'ZADD', KEYS[1], 'XX', '0', 'm'}, {'ZREM', KEYS[1], 'm'}, {'DEL', KEYS[1]}}\n"
    "for _, one in ipairs(calls) do\n"
    " local r = redis.pcall(unpack(one))\n"
    " if type(r) == 'table' and r.err then return {one[1], r.err} end\n"
    "end\n"
    "return {}\n";

semel_status redis_scripts_prepare(redis_store *store, semel_error *err)
{
    size_t first = strlen(apply_first), second = strlen(apply_second);
    char *both = arena_alloc(&store->arena, first + second + 1);
    if (!both)
        return semel_fail(err, SEMEL_ENOMEM, "out of memory for a script");
    memcpy(both, apply_first, first);
    memcpy(both + first, apply_second, second + 1);
    semel_status status = redis_script_prepare(&store->scripts[SCRIPT_APPLY], both, err);
    if (!status)
        status = redis_script_prepare(&store->scripts[SCRIPT_SCAN], scan_text, err);
    return status ? status : redis_script_prepare(&store->scripts[SCRIPT_RIGHTS], rights_text, err);
}
