/**
 * The Redis function library: every write is one function, so it happens whole or not at all, and everything a function
 * touches lies in one hash slot. Times are Redis's own, so the clocks of the services do not matter. The version is part
 * of every name: a new release loads its library beside the old one while both kinds of pod are up.
 */
export const FUNCTION_VERSION = 'v1';
export const LIBRARY = `yardmaster_${FUNCTION_VERSION}`;

/** The name of one function of this version. */
export const functionName = (name: string) => `ym_${FUNCTION_VERSION}_${name}`;

export const FUNCTION_SOURCE = `#!lua name=${LIBRARY}
local TERMINAL = { completed = true, failed = true, cancelled = true, incomplete = true }

local function now_ms()
  local t = redis.call('TIME')
  return tonumber(t[1]) * 1000 + math.floor(tonumber(t[2]) / 1000)
end

-- Lua writes numbers over 14 digits in scientific form when they are joined to text.
local function int(n) return string.format('%.0f', n) end

local function touch(ttl, ...)
  for _, key in ipairs({...}) do redis.call('PEXPIRE', key, ttl) end
end

-- Does this run still hold its conversation? A record that is gone or terminal does not.
local function is_live(record)
  local state = redis.call('HGET', record, 'state')
  return state and not TERMINAL[state]
end

-- The run that the conversation belongs to, if there is one.
local function active_run(meta, record_prefix)
  local active = redis.call('HGET', meta, 'active')
  if active and active ~= '' and is_live(record_prefix .. active) then return active end
  return nil
end

local function hand_over(meta, queue, record_prefix)
  local waiting
  repeat waiting = redis.call('LPOP', queue) until not waiting or is_live(record_prefix .. waiting)
  redis.call('HSET', meta, 'active', waiting or '')
  return waiting or ''
end

-- Every write compares its fencing token: higher stored = someone took over; lower stored = Redis lost writes.
local function refuse(stored, fence)
  local have, mine = tonumber(stored or 0), tonumber(fence)
  if have > mine then return redis.error_reply('FENCED ' .. int(have)) end
  if have < mine then return redis.error_reply('LOST fence ' .. int(have)) end
  return nil
end

redis.register_function('${functionName('version')}', function() return '${FUNCTION_VERSION}' end)

-- keys: meta, history, record, queue; args: run, delivery sequence, owner, lease ms, history ttl, run ttl, record prefix
redis.register_function('${functionName('acquire')}', function(keys, args)
  local meta, history, record, queue = unpack(keys)
  local run, owner, lease = args[1], args[3], tonumber(args[4])
  local fields = redis.call('HGETALL', record)
  local state = redis.call('HGET', record, 'state')
  if state and TERMINAL[state] then return {'ended', fields} end
  local m = redis.call('HMGET', meta, 'fence', 'seq', 'owner', 'until', 'holder')
  local now = now_ms()
  local left = math.max(0, tonumber(m[4] or 0) - now)
  local active = active_run(meta, args[7])
  if active and active ~= run then
    if state and not redis.call('LPOS', queue, run) then
      redis.call('RPUSH', queue, run)
      touch(args[5], queue)
    end
    return {'busy', m[3] or '', left, active, 1, fields}
  end
  -- Also when the owner asks again: a wake-up of a run that it is working on must not fence its own work.
  if left > 0 then
    return {'busy', m[3], left, m[5], 0, fields}
  end
  local fence = math.max(tonumber(m[1] or 0) + 1, tonumber(args[2]))
  local seq = tonumber(m[2] or 0)
  redis.call('HSETNX', meta, 'created', int(now))
  redis.call('HSET', meta, 'fence', int(fence), 'seq', int(seq), 'owner', owner, 'until', int(now + lease),
    'lease', int(lease), 'holder', run, 'active', run)
  redis.call('LREM', queue, 0, run)
  local started = 0
  if state then
    redis.call('HINCRBY', record, 'attempts', 1)
    -- The first message of a run is written with the lease: one step less before a model is asked.
    local first = state == 'queued' and redis.call('HGET', record, 'first')
    local bytes = first and tonumber(redis.call('HGET', meta, 'bytes') or 0) + #first
    if first and bytes <= tonumber(args[8]) then
      seq = seq + 1
      redis.call('XADD', history, int(seq) .. '-0', 'd', first)
      redis.call('HSET', meta, 'seq', int(seq), 'bytes', int(bytes))
      redis.call('HSET', record, 'state', 'running', 'updated', int(now), 'started', int(now), 'attempts', '0')
      redis.call('HDEL', record, 'first')
      started = 1
    end
    touch(args[6], record)
    fields = redis.call('HGETALL', record)
  end
  touch(args[5], meta, history)
  return {'acquired', fence, seq, fields, started}
end)

-- keys: meta, history; args: fence, lease ms, history ttl
redis.register_function('${functionName('renew')}', function(keys, args)
  local refused = refuse(redis.call('HGET', keys[1], 'fence'), args[1])
  if refused then return refused end
  redis.call('HSET', keys[1], 'until', int(now_ms() + tonumber(args[2])), 'lease', args[2])
  touch(args[3], keys[1], keys[2])
  return 1
end)

-- keys: meta, record; args: fence, run, handed back (1: this delivery does not count as an attempt)
redis.register_function('${functionName('release')}', function(keys, args)
  local m = redis.call('HMGET', keys[1], 'fence', 'holder')
  local refused = refuse(m[1], args[1])
  if refused then return refused end
  redis.call('HDEL', keys[1], 'owner', 'until', 'holder', 'lease')
  if args[3] == '1' and m[2] == args[2] and tonumber(redis.call('HGET', keys[2], 'attempts') or 0) > 0 then
    redis.call('HINCRBY', keys[2], 'attempts', -1)
  end
  return 1
end)

-- The one write: items and record fields together. keys: meta, history, record, queue
-- args: run, fence, expected sequence (or -1: do not compare), release (1), cap in bytes, history ttl, run ttl,
--       record prefix, number of field strings, fields..., items...
-- answers {sequence, state, next run of the conversation}
redis.register_function('${functionName('write')}', function(keys, args)
  local meta, history, record, queue = unpack(keys)
  local m = redis.call('HMGET', meta, 'fence', 'seq', 'bytes', 'active', 'lease')
  local refused = refuse(m[1], args[2])
  if refused then return refused end
  local seq, expected, field_count = tonumber(m[2] or 0), tonumber(args[3]), tonumber(args[9])
  local first_item = 10 + field_count
  local count = #args - first_item + 1
  local current = redis.call('HGET', record, 'state')
  local function answered()
    local active = m[4] or ''
    return {seq, current or '', active ~= args[1] and active or ''}
  end
  if expected >= 0 and seq ~= expected then
    if seq < expected then return redis.error_reply('LOST seq ' .. int(seq)) end
    -- A client that lost the answer sends the same write again: its own items at the tail are its success.
    if count > 0 and seq == expected + count then
      local tail = redis.call('XRANGE', history, int(expected + 1) .. '-0', int(seq) .. '-0')
      local same = #tail == count
      for i = 1, #tail do same = same and tail[i][2][2] == args[first_item + i - 1] end
      if same then return answered() end
    end
    return redis.error_reply('CONFLICT ' .. int(seq))
  end
  if not current then return redis.error_reply('LOST record') end
  local wanted
  for i = 10, 9 + field_count, 2 do if args[i] == 'state' then wanted = args[i + 1] end end
  if TERMINAL[current] then
    if count == 0 and wanted and TERMINAL[wanted] then return answered() end
    return redis.error_reply('ENDED ' .. current)
  end
  local bytes = tonumber(m[3] or 0)
  for i = first_item, #args do bytes = bytes + #args[i] end
  if count > 0 and bytes > tonumber(args[5]) then return redis.error_reply('FULL ' .. int(bytes)) end
  for i = first_item, #args do
    seq = seq + 1
    redis.call('XADD', history, int(seq) .. '-0', 'd', args[i])
  end
  local now = int(now_ms())
  -- Whoever was told "it will be cancelled" must not read "completed" later.
  local state = wanted or current
  if current == 'cancelling' and wanted then state = TERMINAL[wanted] and 'cancelled' or 'cancelling' end
  if field_count > 0 then redis.call('HSET', record, unpack(args, 10, 9 + field_count)) end
  redis.call('HSET', record, 'state', state, 'updated', now)
  if count > 0 then
    redis.call('HSET', meta, 'seq', int(seq), 'bytes', int(bytes))
    redis.call('HSET', record, 'attempts', '0')
  end
  if state == 'running' then redis.call('HSETNX', record, 'started', now) end
  local following = ''
  if TERMINAL[state] then
    redis.call('HSET', record, 'ended', now)
    following = hand_over(meta, queue, args[8])
  end
  if TERMINAL[state] or args[4] == '1' then
    redis.call('HDEL', meta, 'owner', 'until', 'holder', 'lease')
  elseif m[5] then
    redis.call('HSET', meta, 'until', int(tonumber(now) + tonumber(m[5])))
  end
  touch(args[6], meta, history)
  touch(args[7], record)
  return {seq, state, following}
end)

-- Redis fell behind what this run had been told was written: the run ends, the conversation goes on with what is there.
-- keys: meta, history, record, queue; args: run, fence, history ttl, run ttl, record prefix, fields...
redis.register_function('${functionName('lost')}', function(keys, args)
  local meta, history, record, queue = unpack(keys)
  local have = tonumber(redis.call('HGET', meta, 'fence') or 0)
  if have > tonumber(args[2]) then return redis.error_reply('FENCED ' .. int(have)) end
  local state = redis.call('HGET', record, 'state')
  if state and TERMINAL[state] then return {state, ''} end
  local now = int(now_ms())
  redis.call('HSET', record, unpack(args, 6))
  redis.call('HSETNX', record, 'created', now)
  redis.call('HSET', record, 'state', 'failed', 'updated', now, 'ended', now, 'pending', '[]')
  local last = redis.call('XREVRANGE', history, '+', '-', 'COUNT', 1)
  local seq = last[1] and string.match(last[1][1], '^%d+') or '0'
  redis.call('HSETNX', meta, 'created', now)
  redis.call('HSET', meta, 'fence', args[2], 'seq', seq)
  redis.call('HDEL', meta, 'owner', 'until', 'holder', 'lease')
  local active = redis.call('HGET', meta, 'active')
  local following = ''
  if not active or active == '' or active == args[1] then following = hand_over(meta, queue, args[5]) end
  touch(args[3], meta, history)
  touch(args[4], record)
  return {'failed', following}
end)

-- keys: meta, record, queue; args: run, new conversation (1), on busy, history ttl, run ttl, record prefix, fields...
redis.register_function('${functionName('run_create')}', function(keys, args)
  local meta, record, queue = unpack(keys)
  if redis.call('EXISTS', record) == 1 then return {'exists', redis.call('HGETALL', record)} end
  local now = int(now_ms())
  if args[2] == '1' then
    redis.call('HSETNX', meta, 'created', now)
    redis.call('HSETNX', meta, 'seq', '0')
  elseif redis.call('EXISTS', meta) == 0 then
    return {'unknown'}
  end
  local active = active_run(meta, args[6])
  if active and args[3] == 'reject' then return {'busy', active} end
  redis.call('HSET', record, unpack(args, 7))
  redis.call('HSET', record, 'id', args[1], 'state', 'queued', 'created', now, 'updated', now)
  touch(args[5], record)
  if active then
    redis.call(args[3] == 'interrupt' and 'LPUSH' or 'RPUSH', queue, args[1])
    touch(args[4], queue)
  else
    redis.call('HSET', meta, 'active', args[1])
  end
  touch(args[4], meta)
  return {active and 'waiting' or 'started', active or '', now}
end)

-- keys: record; args: reason
redis.register_function('${functionName('run_cancel')}', function(keys, args)
  local state = redis.call('HGET', keys[1], 'state')
  if not state then return {'unknown', ''} end
  if TERMINAL[state] then return {'ended', state} end
  if state == 'cancelling' then return {'already', state} end
  local now = int(now_ms())
  redis.call('HSET', keys[1], 'state', 'cancelling', 'cancel', now, 'cancel_reason', args[1], 'updated', now)
  return {'requested', state}
end)

-- Ends a run that waits behind another one of its conversation and has written nothing.
-- keys: meta, record, queue; args: run
redis.register_function('${functionName('run_cancel_waiting')}', function(keys, args)
  if redis.call('HGET', keys[1], 'active') == args[1] then return 0 end
  if redis.call('HGET', keys[2], 'state') ~= 'cancelling' then return 0 end
  local now = int(now_ms())
  redis.call('LREM', keys[3], 0, args[1])
  redis.call('HSET', keys[2], 'state', 'cancelled', 'updated', now, 'ended', now)
  return 1
end)

-- keys: record; args: text, most that may wait
redis.register_function('${functionName('run_steer')}', function(keys, args)
  local r = redis.call('HMGET', keys[1], 'state', 'steer_n', 'steer_done')
  if not r[1] then return redis.error_reply('UNKNOWN') end
  if TERMINAL[r[1]] or r[1] == 'cancelling' then return redis.error_reply('ENDED ' .. r[1]) end
  local n = tonumber(r[2] or 0) + 1
  if n - tonumber(r[3] or 0) > tonumber(args[2]) then return redis.error_reply('FULL ' .. int(n)) end
  redis.call('HSET', keys[1], 'steer_n', int(n), 'steer:' .. int(n), args[1])
  return n
end)

-- The first decision wins, and only over the calls that were shown. keys: record; args: call, pending as read, decision
redis.register_function('${functionName('run_decide')}', function(keys, args)
  local r = redis.call('HMGET', keys[1], 'state', 'pending')
  if r[1] ~= 'waiting_approval' then return redis.error_reply('ENDED ' .. (r[1] or '')) end
  if r[2] ~= args[2] then return redis.error_reply('CONFLICT pending') end
  return redis.call('HSETNX', keys[1], 'decision:' .. args[1], args[3])
end)

-- keys: record; sets published once
redis.register_function('${functionName('run_published')}', function(keys)
  if redis.call('EXISTS', keys[1]) == 0 then return 0 end
  return redis.call('HSETNX', keys[1], 'published', int(now_ms()))
end)

-- Keeps the lists of a tenant's runs. keys: all runs, tenant's states..., more lists (agent, conversation)...
-- args: run, index of the run's state among the states (1-based), number of states, oldest id to keep, ttl,
--       first (1: a run that is in the lists already has moved on)
redis.register_function('${functionName('run_index')}', function(keys, args)
  local states = tonumber(args[3])
  if args[6] == '1' and redis.call('ZSCORE', keys[1], args[1]) then return 0 end
  for i, key in ipairs(keys) do
    local is_state = i > 1 and i <= 1 + states
    if is_state and i - 1 ~= tonumber(args[2]) then
      redis.call('ZREM', key, args[1])
    else
      redis.call('ZADD', key, 0, args[1])
      redis.call('ZREMRANGEBYLEX', key, '-', '(' .. args[4])
      touch(args[5], key)
    end
  end
  return 1
end)

-- keys: meta, history, queue; args: record prefix, force (1)
redis.register_function('${functionName('conversation_delete')}', function(keys, args)
  if redis.call('EXISTS', keys[1]) == 0 then return {'unknown'} end
  local active = active_run(keys[1], args[1])
  if active and args[2] ~= '1' then return {'busy', active} end
  redis.call('UNLINK', keys[1], keys[2], keys[3])
  return {'deleted'}
end)

-- keys: meta; args: ttl
redis.register_function('${functionName('conversation_create')}', function(keys, args)
  redis.call('HSETNX', keys[1], 'created', int(now_ms()))
  redis.call('HSETNX', keys[1], 'seq', '0')
  touch(args[1], keys[1])
  return tonumber(redis.call('HGET', keys[1], 'created'))
end)

-- A summary stands for everything up to a sequence; the items themselves stay until the conversation expires.
-- keys: meta, history; args: up to sequence, summary item, record prefix, history ttl, fence ('' = only when nobody works)
redis.register_function('${functionName('compact')}', function(keys, args)
  local m = redis.call('HMGET', keys[1], 'seq', 'fence', 'sumto')
  if not m[1] then return redis.error_reply('UNKNOWN') end
  if args[5] ~= '' then
    local refused = refuse(m[2], args[5])
    if refused then return refused end
  else
    local active = active_run(keys[1], args[3])
    if active then return redis.error_reply('BUSY ' .. active) end
  end
  local upto = tonumber(args[1])
  if upto > tonumber(m[1]) or upto <= tonumber(m[3] or 0) then return redis.error_reply('CONFLICT ' .. m[1]) end
  redis.call('HSET', keys[1], 'sumto', args[1], 'sum', args[2])
  touch(args[4], keys[1], keys[2])
  return 1
end)

-- keys: record of the key; args: run, conversation, body hash, ttl; answers {new (1), run, conversation, body hash, time}
redis.register_function('${functionName('idempotency')}', function(keys, args)
  local have = redis.call('HMGET', keys[1], 'run', 'conversation', 'body', 'at')
  if have[1] then return {0, have[1], have[2], have[3], have[4]} end
  local now = int(now_ms())
  redis.call('HSET', keys[1], 'run', args[1], 'conversation', args[2], 'body', args[3], 'at', now)
  touch(args[4], keys[1])
  return {1, args[1], args[2], args[3], now}
end)

-- Token bucket. keys: bucket; args: tokens a second, size, cost; answers {allowed, tokens left, ms until it would be}
redis.register_function('${functionName('take')}', function(keys, args)
  local rate, size, cost = tonumber(args[1]), tonumber(args[2]), tonumber(args[3])
  local now = now_ms()
  local b = redis.call('HMGET', keys[1], 'tokens', 'at')
  local tokens = math.min(size, tonumber(b[1] or size) + math.max(0, now - tonumber(b[2] or now)) * rate / 1000)
  local allowed = tokens >= cost
  if allowed then tokens = tokens - cost end
  redis.call('HSET', keys[1], 'tokens', tostring(tokens), 'at', int(now))
  touch(math.ceil(size / rate * 1000) + 1000, keys[1])
  return {allowed and 1 or 0, math.floor(tokens), allowed and 0 or math.ceil((cost - tokens) / rate * 1000)}
end)

-- Adds to counters. keys: counter; args: ttl, field, amount, ...; answers the new amounts
redis.register_function('${functionName('count')}', function(keys, args)
  local totals = {}
  for i = 2, #args, 2 do totals[#totals + 1] = redis.call('HINCRBYFLOAT', keys[1], args[i], args[i + 1]) end
  touch(args[1], keys[1])
  return totals
end)

-- keys: timers; args: member, ms from now
redis.register_function('${functionName('timer_add')}', function(keys, args)
  return redis.call('ZADD', keys[1], int(now_ms() + tonumber(args[2])), args[1])
end)

-- What is due, hidden from the next reader for a while: whoever dies before it is done loses nothing.
-- keys: timers; args: most, hide for ms
redis.register_function('${functionName('timer_due')}', function(keys, args)
  local now = now_ms()
  local due = redis.call('ZRANGE', keys[1], '-inf', int(now), 'BYSCORE', 'LIMIT', 0, args[1])
  for _, member in ipairs(due) do redis.call('ZADD', keys[1], int(now + tonumber(args[2])), member) end
  return due
end)

-- keys: lease; args: owner, ms; answers {mine (1), owner, ms left}
redis.register_function('${functionName('lead')}', function(keys, args)
  local owner = redis.call('GET', keys[1])
  if not owner or owner == args[1] then
    redis.call('SET', keys[1], args[1], 'PX', args[2])
    return {1, args[1], tonumber(args[2])}
  end
  return {0, owner, redis.call('PTTL', keys[1])}
end)

-- keys: lease; args: owner
redis.register_function('${functionName('resign')}', function(keys, args)
  if redis.call('GET', keys[1]) ~= args[1] then return 0 end
  return redis.call('DEL', keys[1])
end)
`;
