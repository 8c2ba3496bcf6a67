package chaos

import (
	"context"
	"strconv"

	"github.com/redis/rueidis"
)

// resource is what the locks protect: a number for each key, on a server without faults. It
// remembers the largest fence that has written, and refuses smaller fences.
type resource struct{ client rueidis.Client }

var writeFenced = rueidis.NewLuaScript(`
if tonumber(redis.call('HGET', KEYS[1], 'fence') or 0) > tonumber(ARGV[1]) then
  return 0
end
redis.call('HSET', KEYS[1], 'fence', ARGV[1])
redis.call('HINCRBY', KEYS[1], 'writes', 1)
return 1
`)

// write reports whether the write was accepted.
func (r resource) write(ctx context.Context, key string, fence uint64) (bool, error) {
	answer, err := writeFenced.Exec(ctx, r.client, []string{key},
		[]string{strconv.FormatUint(fence, 10)}).AsInt64()
	return answer == 1, err
}
