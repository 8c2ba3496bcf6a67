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

func failure(code int32, name string) bson.D {
	return bson.D{{Key: "ok", Value: 0}, {Key: "errmsg", Value: "no"}, {Key: "code", Value: code}, {Key: "codeName", Value: name}}
}

// What a server has refused is not repeated. What it could not do at the moment is.
func TestRefusalsEndAnAcquisition(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		answer  bson.D
		refused bool
	}{
		"no right":    {failure(13, "Unauthorized"), true},
		"no primary":  {failure(10107, "NotWritablePrimary"), false},
		"interrupted": {failure(11602, "InterruptedDueToReplStateChange"), false},
		"validation": {bson.D{{Key: "ok", Value: 1}, {Key: "n", Value: 0}, {Key: "writeErrors", Value: bson.A{
			bson.D{{Key: "index", Value: 0}, {Key: "code", Value: 121}, {Key: "errmsg", Value: "Document failed validation"}},
		}}}, true},
		"no majority": {bson.D{{Key: "ok", Value: 1}, {Key: "n", Value: 1}, {Key: "writeConcernError", Value: bson.D{
			{Key: "code", Value: 64}, {Key: "codeName", Value: "WriteConcernTimeout"}, {Key: "errmsg", Value: "waiting for replication timed out"},
		}}}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, _, b := opened(t)
			locker, err := rlock.NewWithBackend(b)
			require.NoError(t, err)
			defer locker.Close()
			p.set(rules{answer: fails("update", 2, test.answer)})
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
	p.set(rules{answer: fails("findAndModify", 1, bson.D{
		{Key: "ok", Value: 1}, {Key: "value", Value: bson.D{{Key: "value", Value: int64(7)}}},
		{Key: "writeConcernError", Value: bson.D{{Key: "code", Value: 64}, {Key: "errmsg", Value: "timed out"}}},
	})})
	_, err := b.Fence(t.Context(), "k")
	require.ErrorContains(t, err, "timed out")
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
				"Acquire": func(ctx context.Context) error { _, _, err := b.Acquire(ctx, "k", "a", time.Hour); return err },
				"Extend":  func(ctx context.Context) error { _, err := b.Extend(ctx, "k", "a", time.Hour); return err },
				"Release": func(ctx context.Context) error { _, err := b.Release(ctx, "k", "a"); return err },
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
	other := open(t, collection(t, "mongodb://"+startProxy(t, ferret).address+"/?directConnection=true", locks.Name()))
	late := open(t, locks)
	for name, call := range map[string]struct {
		command string
		do      func(ctx context.Context) error
	}{
		"Acquire": {"update", func(ctx context.Context) error { _, _, err := late.Acquire(ctx, "Acquire", "a", time.Hour); return err }},
		"Extend":  {"update", func(ctx context.Context) error { _, err := late.Extend(ctx, "Extend", "a", time.Hour); return err }},
		"Release": {"delete", func(ctx context.Context) error { _, err := late.Release(ctx, "Release", "a"); return err }},
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
	p.set(rules{answer: fails("createIndexes", -1, failure(13, "Unauthorized"))})
	_, err := rlockmongo.New(t.Context(), locks)
	var answer mongo.ServerError
	require.ErrorAs(t, err, &answer)
	require.True(t, answer.HasErrorCode(13))

	p.set(rules{answer: fails("hello", -1, bson.D{{Key: "ok", Value: 1}})})
	_, err = rlockmongo.New(t.Context(), locks)
	require.ErrorContains(t, err, "rlockmongo: the server does not say what time it is")

	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("it is over"))
	_, err = rlockmongo.New(ctx, locks)
	require.ErrorIs(t, err, context.Canceled)
}
