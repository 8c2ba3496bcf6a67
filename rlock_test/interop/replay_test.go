package interop

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"
)

// replayed is the commands of a library that Go and npm cannot install.
type replayed struct {
	token   func() string
	release string // the script, which gets the key and the token
	extend  string // and the milliseconds by which to extend; empty: the library cannot
}

// gemRedisExpLock is gem redis_exp_lock 0.1.1, lib/redis_exp_lock.rb: try_lock sends SET
// with NX and PX and a UUID of SecureRandom, unlock runs the script LUA[:delequal].
var gemRedisExpLock = replayed{
	token: uuid.NewString,
	release: `
      local deleted = 0
      if redis.call('GET', KEYS[1]) == ARGV[1] then
        return redis.call('DEL', KEYS[1])
      end
      return 0
    `,
}

// redisPy is redis-py's redis/lock.py: do_acquire sends SET with NX and PX and the hex
// digits of a uuid1, release and extend run LUA_RELEASE_SCRIPT and LUA_EXTEND_SCRIPT.
var redisPy = replayed{
	token: func() string {
		id := uuid.Must(uuid.NewUUID())
		return hexDigits(id)
	},
	release: `
        local token = redis.call('get', KEYS[1])
        if not token or token ~= ARGV[1] then
            return 0
        end
        redis.call('del', KEYS[1])
        return 1
    `,
	extend: `
        local token = redis.call('get', KEYS[1])
        if not token or token ~= ARGV[1] then
            return 0
        end
        local expiration = redis.call('pttl', KEYS[1])
        if not expiration then
            expiration = 0
        end
        if expiration < 0 then
            return 0
        end
        redis.call('pexpire', KEYS[1], expiration + ARGV[2])
        return 1
    `,
}

func hexDigits(id uuid.UUID) string {
	text := ""
	for _, b := range id {
		text += strconv.FormatUint(uint64(b)+0x100, 16)[1:]
	}
	return text
}

func openReplay(commands replayed) func(testing.TB, string) locker {
	return func(tb testing.TB, address string) locker {
		client, err := rueidis.NewClient(
			rueidis.ClientOption{InitAddress: []string{address}, ForceSingleClient: true})
		require.NoError(tb, err)
		tb.Cleanup(client.Close)
		return replay{client, commands}
	}
}

type replay struct {
	client   rueidis.Client
	commands replayed
}

func (r replay) try(ctx context.Context, name string, ttl time.Duration) (holding, error) {
	token := r.commands.token()
	err := r.client.Do(ctx, r.client.B().Set().Key(name).Value(token).Nx().PxMilliseconds(
		ttl.Milliseconds()).Build()).Error()
	if rueidis.IsRedisNil(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	h := replayHolding{r, name, token}
	if r.commands.extend == "" {
		return h, nil
	}
	return replayExtender{h}, nil
}

type replayHolding struct {
	replay
	name, token string
}

func (h replayHolding) run(ctx context.Context, script string, args ...string) (bool, error) {
	args = append([]string{h.token}, args...)
	return h.client.Do(ctx, h.client.B().Eval().Script(script).Numkeys(1).Key(h.name).Arg(
		args...).Build()).AsBool()
}

func (h replayHolding) release(ctx context.Context) (bool, error) {
	return h.run(ctx, h.commands.release)
}

type replayExtender struct{ replayHolding }

func (h replayExtender) extend(ctx context.Context, ttl time.Duration) (bool, error) {
	return h.run(ctx, h.commands.extend, strconv.FormatInt(ttl.Milliseconds(), 10))
}
