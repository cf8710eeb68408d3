-- Sends the paths of a file one after the other, over and over; prints the figures as JSON.
local prepared, turn = {}, 0

function init(arguments)
  for path in io.lines(arguments[1]) do
    prepared[#prepared + 1] = wrk.format("GET", path)
  end
end

function request()
  turn = turn % #prepared + 1
  return prepared[turn]
end

function done(summary, latency, requests)
  local errors = summary.errors
  local figures = {
    { "requests", summary.requests },
    { "microseconds", summary.duration },
    { "bytes", summary.bytes },
    { "mean", latency.mean },
    { "p50", latency:percentile(50) },
    { "p95", latency:percentile(95) },
    { "p99", latency:percentile(99) },
    { "connect", errors.connect },
    { "read", errors.read },
    { "write", errors.write },
    { "timeout", errors.timeout },
    { "status", errors.status },
  }
  local parts = {}
  for _, figure in ipairs(figures) do
    parts[#parts + 1] = string.format('"%s": %.3f', figure[1], figure[2])
  end
  io.write("\n{" .. table.concat(parts, ", ") .. "}\n")
end
