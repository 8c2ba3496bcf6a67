package peers

import (
	"context"
	"errors"
	"strconv"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/redis/rueidis"
)

// floor has only what every lock needs: a token, SET NX PX, and a script that frees a lock with the
// right token. It does not wait for a push and has no fence.
type floor struct {
	client rueidis.Client
	lease  time.Duration
	script *rueidis.Lua // nil: SET by itself
}

var compareAndDelete = rueidis.NewLuaScript(
	`if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0`)

var setIfFree = rueidis.NewLuaScript(`return redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2])`)

func openFloor(tb testing.TB, address string, lease time.Duration) locker {
	return &floor{rueidisClient(tb, address), lease, nil}
}

// openFloorInScripts opens the floor of libraries that take locks in a script.
func openFloorInScripts(tb testing.TB, address string, lease time.Duration) locker {
	return &floor{rueidisClient(tb, address), lease, setIfFree}
}

// floorLock is what a release needs.
type floorLock struct {
	floor      *floor
	key, token string
}

func (f *floor) acquire(ctx context.Context, key string) (holding, error) {
	token := uuid.NewString()
	for {
		err := f.take(ctx, key, token)
		switch {
		case err == nil:
			return &floorLock{f, key, token}, nil
		case !rueidis.IsRedisNil(err):
			return nil, err
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(time.Millisecond):
		}
	}
}

func (f *floor) take(ctx context.Context, key, token string) error {
	ms := f.lease.Milliseconds()
	if f.script != nil {
		return f.script.Exec(ctx, f.client, []string{key}, []string{token, strconv.FormatInt(ms, 10)}).Error()
	}
	return f.client.Do(ctx, f.client.B().Set().Key(key).Value(token).Nx().PxMilliseconds(ms).Build()).Error()
}

func (l *floorLock) Release(ctx context.Context) error {
	n, err := compareAndDelete.Exec(ctx, l.floor.client, []string{l.key}, []string{l.token}).AsInt64()
	if err == nil && n == 0 {
		err = errors.New("the lock was lost")
	}
	return err
}

func (f *floor) check(ctx context.Context, key string) (bool, error) {
	return isHeld(f.client.DoCache(ctx, f.client.B().Get().Key(key).Cache(), time.Minute))
}

func (f *floor) ask(ctx context.Context, key string, _ holding) (bool, error) {
	return isHeld(f.client.Do(ctx, f.client.B().Get().Key(key).Build()))
}

func isHeld(reply rueidis.RedisResult) (bool, error) {
	err := reply.Error()
	if rueidis.IsRedisNil(err) {
		return false, nil
	}
	return err == nil, err
}

// rueidisClient is the client of the floor and of the libraries on rueidis.
func rueidisClient(tb testing.TB, address string) rueidis.Client {
	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{address}})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(client.Close)
	return client
}
