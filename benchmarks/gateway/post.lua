-- The request that a file holds: wrk -s post.lua URL -- FILE TYPE
function init(arguments)
  local file = assert(io.open(arguments[1], "rb"))
  wrk.method, wrk.body = "POST", file:read("*a")
  wrk.headers["Content-Type"] = arguments[2]
  file:close()
end

-- Anything but an answer would be counted as one, and is quicker.
function done(summary)
  local errors = summary.errors
  local failed = errors.connect + errors.read + errors.write + errors.status + errors.timeout
  io.write(string.format("%d %d\n", summary.requests, failed))
end
