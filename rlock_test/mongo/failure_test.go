package mongo_test

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/rlock-go/toolkit/rlock"
	"github.com/rlock-go/toolkit/rlock/rlockmongo"
)

// once is a rule for the first command of a name.
func once(name string) func(c command) bool {
	var done atomic.Bool
	return func(c command) bool { return c.name == name && done.CompareAndSwap(false, true) }
}

// A command whose answer is lost may be done. Its caller learns that nobody knows, and may repeat it.
func TestLostAnswers(t *testing.T) {
	t.Parallel()
	p, _, b := opened(t)

	p.set(rules{lose: once("update")})
	_, _, err := b.Acquire(t.Context(), "k", "a", time.Hour)
	require.True(t, mongo.IsNetworkError(err), "%v", err)
	require.Equal(t, []string{"update"}, p.names())
	acquire(t, b, "k", "b", time.Hour, false)
	acquire(t, b, "k", "a", time.Hour, true)
	require.Equal(t, "hello", p.names()[0], "after an error, the server is asked for its clock")

	p.set(rules{lose: once("update")})
	_, err = b.Extend(t.Context(), "k", "a", time.Hour)
	require.True(t, mongo.IsNetworkError(err), "%v", err)
	held, err := b.Extend(t.Context(), "k", "a", time.Hour)
	require.NoError(t, err)
	require.True(t, held)

	p.set(rules{lose: once("delete")})
	_, err = b.Release(t.Context(), "k", "a")
	require.True(t, mongo.IsNetworkError(err), "%v", err)
	released, err := b.Release(t.Context(), "k", "a")
	require.NoError(t, err)
	require.False(t, released, "the first one did it")
	acquire(t, b, "k", "b", time.Hour, true)

	first, err := b.Fence(t.Context(), "k")
	require.NoError(t, err)
	p.set(rules{lose: once("findAndModify")})
	_, err = b.Fence(t.Context(), "k")
	require.True(t, mongo.IsNetworkError(err), "%v", err)
	third, err := b.Fence(t.Context(), "k")
	require.NoError(t, err)
	require.Greater(t, third, first+1, "a fence that nobody has got is not given again")
}

// A Locker whose commands lose their answers has the lock all the same, and nothing stays locked.
func TestLockerWithLostAnswers(t *testing.T) {
	t.Parallel()
	p, _, b := opened(t)
	locker, err := rlock.NewWithBackend(b)
	require.NoError(t, err)
	defer locker.Close()
	for _, name := range []string{"update", "findAndModify", "delete"} {
		p.set(rules{lose: once(name)})
		ran := 0
		err := locker.Do(t.Context(), "k", func(context.Context, *rlock.Lock) error { ran++; return nil })
		require.NoError(t, err, name)
		require.Equal(t, 1, ran, name)
		require.Eventually(t, func() bool {
			token, _, err := b.Holder(t.Context(), "k")
			return err == nil && token == ""
		}, time.Minute, 10*time.Millisecond, name)
	}
}

// fails answers the first n commands of a name with an error, or all if n is negative.
func fails(name string, n int32, answer bson.D) func(c command) (bson.D, bool) {
	var left atomic.Int32
	left.Store(n)
	return func(c command) (bson.D, bool) {
		if c.name != name || n >= 0 && left.Add(-1) < 0 {
			return nil, false
		}
		return answer, true
	}
}

func document(t *testing.T, json string) (d bson.D) {
	t.Helper()
	require.NoError(t, bson.UnmarshalExtJSON([]byte(json), false, &d))
	return d
}

// What a server has refused is not repeated. What it could not do at the moment is.
func TestRefusalsEndAnAcquisition(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		answer  string
		refused bool
	}{
		"no right":    {`{"ok": 0, "errmsg": "no", "code": 13, "codeName": "Unauthorized"}`, true},
		"no primary":  {`{"ok": 0, "errmsg": "no", "code": 10107, "codeName": "NotWritablePrimary"}`, false},
		"interrupted": {`{"ok": 0, "errmsg": "no", "code": 11601, "codeName": "Interrupted"}`, false},
		"validation":  {`{"ok": 1, "n": 0, "writeErrors": [{"index": 0, "code": 121, "errmsg": "no"}]}`, true},
		"no majority": {`{"ok": 1, "n": 1, "writeConcernError": {"code": 64, "errmsg": "timed out"}}`, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, _, b := opened(t)
			locker, err := rlock.NewWithBackend(b)
			require.NoError(t, err)
			defer locker.Close()
			p.set(rules{answer: fails("update", 2, document(t, test.answer))})
			lock, err := locker.Acquire(t.Context(), "k")
			updates := slices.DeleteFunc(p.names(), func(name string) bool { return name != "update" })
			var answer mongo.ServerError
			if test.refused {
				require.ErrorAs(t, err, &answer)
				require.Len(t, updates, 1)
				return
			}
			require.NoError(t, err)
			require.Len(t, updates, 3)
			require.NoError(t, lock.Release(t.Context()))
		})
	}
}

// A fence that a majority has not got may be given again after a failover, so it is none.
func TestFenceWithoutAMajority(t *testing.T) {
	t.Parallel()
	p, _, b := opened(t)
	p.set(rules{answer: fails("findAndModify", 1, document(t,
		`{"ok": 1, "value": {"value": 7}, "writeConcernError": {"code": 64, "errmsg": "timed out"}}`))})
	_, err := b.Fence(t.Context(), "k")
	require.ErrorContains(t, err, "timed out")
}

func acquires(ctx context.Context, b rlock.Backend, key string) error {
	_, _, err := b.Acquire(ctx, key, "a", time.Hour)
	return err
}

func extends(ctx context.Context, b rlock.Backend, key string) error {
	_, err := b.Extend(ctx, key, "a", time.Hour)
	return err
}

func releases(ctx context.Context, b rlock.Backend, key string) error {
	_, err := b.Release(ctx, key, "a")
	return err
}

// Each call ends with its context, also while the server is silent, and its error says why.
func TestSilentServer(t *testing.T) {
	t.Parallel()
	for name, silent := range map[string]func(c command) bool{
		"from the clock on": func(command) bool { return true },
		"after the clock":   func(c command) bool { return c.name != "hello" },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, _, b := opened(t)
			end := make(chan struct{})
			defer close(end)
			p.set(rules{hold: func(c command) {
				if silent(c) {
					<-end
				}
			}})
			for name, call := range map[string]func(ctx context.Context) error{
				"Acquire": func(ctx context.Context) error { return acquires(ctx, b, "k") },
				"Extend":  func(ctx context.Context) error { return extends(ctx, b, "k") },
				"Release": func(ctx context.Context) error { return releases(ctx, b, "k") },
				"Holder":  func(ctx context.Context) error { _, _, err := b.Holder(ctx, "k"); return err },
				"Fence":   func(ctx context.Context) error { _, err := b.Fence(ctx, "k"); return err },
			} {
				ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
				require.ErrorIs(t, call(ctx), context.DeadlineExceeded, name)
				cancel()
				ctx, cancel = context.WithCancel(t.Context())
				time.AfterFunc(100*time.Millisecond, cancel)
				require.ErrorIs(t, call(ctx), context.Canceled, name)
			}
		})
	}
}

// A call that was given up arrives when another has the key, and changes nothing.
func TestGivenUpCallArrivesLate(t *testing.T) {
	t.Parallel()
	p, locks, _ := opened(t)
	other := open(t, collection(t, startProxy(t, ferret).uri(), locks.Name()))
	late := open(t, locks)
	for name, call := range map[string]struct {
		command string
		do      func(ctx context.Context) error
	}{
		"Acquire": {"update", func(ctx context.Context) error { return acquires(ctx, late, "Acquire") }},
		"Extend":  {"update", func(ctx context.Context) error { return extends(ctx, late, "Extend") }},
		"Release": {"delete", func(ctx context.Context) error { return releases(ctx, late, "Release") }},
	} {
		arrived, pass, passed := make(chan struct{}), make(chan struct{}), make(chan struct{})
		first := once(call.command)
		p.set(rules{
			hold: func(c command) {
				if first(c) {
					close(arrived)
					<-pass
				}
			},
			lose: func(c command) bool {
				if c.name == call.command {
					close(passed)
				}
				return c.name == call.command
			},
		})
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			<-arrived
			cancel()
		}()
		err := call.do(ctx)
		require.ErrorIs(t, err, context.Canceled, name)
		acquire(t, other, name, "b", time.Hour, true)
		close(pass)
		<-passed
		p.set(rules{})
		token, _, err := other.Holder(t.Context(), name)
		require.NoError(t, err)
		require.Equal(t, "b", token, name)
	}
}

// New says what is wrong at the start.
func TestNewFails(t *testing.T) {
	t.Parallel()
	p, locks, _ := opened(t)
	p.set(rules{answer: fails("createIndexes", -1, document(t, `{"ok": 0, "errmsg": "no", "code": 13}`))})
	_, err := rlockmongo.New(t.Context(), locks)
	var answer mongo.ServerError
	require.ErrorAs(t, err, &answer)
	require.True(t, answer.HasErrorCode(13))

	p.set(rules{answer: fails("hello", -1, document(t, `{"ok": 1}`))})
	_, err = rlockmongo.New(t.Context(), locks)
	require.ErrorContains(t, err, "rlockmongo: the server does not say what time it is")

	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("it is over"))
	_, err = rlockmongo.New(ctx, locks)
	require.ErrorIs(t, err, context.Canceled)
}
