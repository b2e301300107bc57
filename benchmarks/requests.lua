-- The whole requests that files hold, one after the other: wrk -s requests.lua URL -- FILE ...
local requests, last = {}, 0

function init(files)
  for i, name in ipairs(files) do
    local file = assert(io.open(name, "rb"))
    requests[i] = file:read("*a")
    file:close()
  end
end

function request()
  last = last % #requests + 1
  return requests[last]
end

-- Anything but an answer would be counted as one, and is quicker.
function done(summary, latency)
  local errors = summary.errors
  local failed = errors.connect + errors.read + errors.write + errors.status + errors.timeout
  local p50, p99 = latency:percentile(50), latency:percentile(99)
  io.write(string.format("%d %d %d %d\n", summary.requests, failed, p50, p99))
end
