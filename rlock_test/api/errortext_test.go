package api

import (
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/rlock"
	"github.com/rlock-go/toolkit/rlock_test/env"
)

var lengthOfTime = regexp.MustCompile(`(\d+h)?(\d+m)?\d+(\.\d+)?(ms|µs|s)\b`)

// inScript is how servers say where in a script it was; each has its own words.
var inScript = regexp.MustCompile(` script: [0-9a-f]{40}, on @user_script:\d+\.`)

const otherType = "the key, or a key that rlock keeps beside it, stores something else; choose another " +
	"key, or a prefix"

// slow is a context whose methods take some milliseconds.
type slow struct{ context.Context }

func (s slow) Value(key any) any {
	time.Sleep(3 * time.Millisecond)
	return s.Context.Value(key)
}

// What each way to fail says. Times are shown as <time>.
func TestErrorTexts(t *testing.T) {
	t.Parallel()
	type scene struct {
		t      *testing.T
		ctx    context.Context
		f      *env.Faulty
		locker *rlock.Locker
		direct rueidis.Client
	}
	of := func(_ any, err error) error { return err }
	foreign := func(s scene, words ...string) {
		require.NoError(s.t, env.Do(s.t, s.direct, append([]string{"SET", "job", "foreign"}, words...)...).Error())
	}
	take := func(s scene, opts ...rlock.Option) *rlock.Lock {
		lock, err := s.locker.Acquire(s.ctx, "job", opts...)
		require.NoError(s.t, err)
		return lock
	}
	ended := func(s scene) context.Context {
		ctx, cancel := context.WithCancelCause(s.ctx)
		cancel(errors.New("shutting down"))
		return ctx
	}
	three := rlock.WithRetry(rlock.Fixed(5 * time.Millisecond).MaxAttempts(3))
	silent := func([]string, func() rueidis.RedisResult) rueidis.RedisResult { return env.NoReply() }
	// During a call, a while after the first command or the beginning of the wait that it is to
	// end: so the call has waited for some milliseconds.
	later := func(end func()) { time.AfterFunc(5*time.Millisecond, end) }
	lose := func(s scene) *rlock.Lock {
		lock := take(s)
		require.NoError(s.t, env.Do(s.t, s.direct, "DEL", "job").Error())
		return lock
	}
	for name, test := range map[string]struct {
		fail func(s scene) error
		want string
	}{
		"try, held": {func(s scene) error {
			foreign(s, "PX", "60000")
			return of(s.locker.TryAcquire(s.ctx, "job"))
		}, `rlock: acquire "job": lock is held by another (the holder's lease ends in <time>)`},
		"try, held for ever": {func(s scene) error {
			foreign(s)
			return of(s.locker.TryAcquire(s.ctx, "job"))
		}, `rlock: acquire "job": lock is held by another (the holder's lease never expires)`},
		"try, held here": {func(s scene) error {
			take(s)
			return of(s.locker.TryAcquire(s.ctx, "job"))
		},
			`rlock: acquire "job": lock is held by another (the holder is a lock of this Locker; its lease ends in <time>)`},
		"try, a set": {func(s scene) error {
			foreign(s, "PX", "60000")
			return of(s.locker.TryAcquireAll(s.ctx, []string{"a", "job"}))
		}, `rlock: acquire "job": lock is held by another (the holder's lease ends in <time>)`},
		"try, the context had ended": {func(s scene) error {
			return of(s.locker.TryAcquire(ended(s), "job"))
		}, `rlock: acquire "job": ended before the answer: context canceled: shutting down`},
		"try, no answer": {func(s scene) error {
			s.f.When(silent)
			return of(s.locker.TryAcquire(s.ctx, "job"))
		}, `rlock: acquire "job": the server has not answered: unexpected EOF`},
		"try, no answer in time": {func(s scene) error {
			ctx, end := env.Deadline(s.ctx)
			s.f.When(func([]string, func() rueidis.RedisResult) rueidis.RedisResult {
				end()
				return env.NoReply()
			})
			return of(s.locker.TryAcquire(ctx, "job"))
		},
			`rlock: acquire "job": ended before the answer: context deadline exceeded: unexpected EOF; the server has not answered for <time>`},
		"of another type": {func(s scene) error {
			require.NoError(s.t, env.Do(s.t, s.direct, "LPUSH", "job", "x").Error())
			return of(s.locker.Acquire(s.ctx, "job"))
		}, `rlock: acquire "job": WRONGTYPE Operation against a key holding the wrong kind of value (` + otherType +
			`)`},
		"gave up, by the context": {func(s scene) error {
			foreign(s, "PX", "60000")
			ctx, end := env.Deadline(s.ctx)
			s.f.When(func(_ []string, run func() rueidis.RedisResult) rueidis.RedisResult {
				defer later(end)
				return run()
			})
			return of(s.locker.Acquire(ctx, "job"))
		},
			`rlock: acquire "job": gave up waiting: context deadline exceeded (after <n> attempts in <time>; the holder's lease ends in <time>)`},
		"gave up, by the policy": {func(s scene) error {
			foreign(s)
			return of(s.locker.Acquire(s.ctx, "job", three))
		}, `rlock: acquire "job": gave up waiting (after 3 attempts in <time>; the holder's lease never expires)`},
		"gave up, behind a holder here": {func(s scene) error {
			take(s)
			return of(s.locker.Acquire(s.ctx, "job", three))
		},
			`rlock: acquire "job": gave up waiting (after 1 attempt in <time>; the holder is a lock of this Locker; its lease ends in <time>)`},
		"gave up, the context had ended": {func(s scene) error {
			return of(s.locker.Acquire(ended(s), "job"))
		}, `rlock: acquire "job": gave up waiting: context canceled: shutting down`},
		"gave up, the context had ended, on a slow machine": {func(s scene) error {
			return of(s.locker.Acquire(slow{ended(s)}, "job"))
		}, `rlock: acquire "job": gave up waiting: context canceled: shutting down`},
		"gave up, no answer": {func(s scene) error {
			s.f.When(silent)
			return of(s.locker.Acquire(s.ctx, "job", three))
		},
			`rlock: acquire "job": gave up waiting: the server has not answered for <time>: unexpected EOF (after 3 attempts in <time>)`},
		"gave up, not ready": {func(s scene) error {
			s.f.RefuseAll()
			return of(s.locker.Acquire(s.ctx, "job", three))
		},
			`rlock: acquire "job": gave up waiting: the server cannot serve yet for <time>: LOADING later (after 3 attempts in <time>; the server has just started; try again soon)`},
		"gave up, the holder was seen long ago": {func(s scene) error {
			foreign(s, "PX", "60000")
			calls := 0
			s.f.When(func(_ []string, run func() rueidis.RedisResult) rueidis.RedisResult {
				if calls++; calls == 1 {
					return run()
				}
				return env.NoReply()
			})
			return of(s.locker.Acquire(s.ctx, "job", three))
		},
			`rlock: acquire "job": gave up waiting: the server has not answered for <time>: unexpected EOF (after 3 attempts in <time>)`},
		"already held": {func(s scene) error {
			return of(s.locker.Acquire(take(s).Context(), "job"))
		}, `rlock: acquire "job": this context already holds the key`},
		"answered too late": {func(s scene) error {
			s.f.When(func(_ []string, run func() rueidis.RedisResult) rueidis.RedisResult {
				answer := run()
				time.Sleep(30 * time.Millisecond)
				return answer
			})
			return of(s.locker.TryAcquire(s.ctx, "job", rlock.WithTTL(20*time.Millisecond)))
		},
			`rlock: acquire "job": lease expired before it was extended: the lease of <time> was over <time> before the grant arrived; use a longer TTL`},
		"closed": {func(s scene) error {
			s.locker.Close()
			return of(s.locker.Acquire(s.ctx, "job"))
		}, `rlock: acquire "job": locker is closed`},
		"wait, held": {func(s scene) error {
			foreign(s)
			return s.locker.WaitFree(s.ctx, "job", three)
		}, `rlock: wait for "job": gave up waiting (after 3 attempts in <time>; the holder's lease never expires)`},
		"wait, by its holder": {func(s scene) error {
			return s.locker.WaitFree(take(s).Context(), "job")
		}, `rlock: wait for "job": this context already holds the key`},
		"wait, of another type": {func(s scene) error {
			require.NoError(s.t, env.Do(s.t, s.direct, "LPUSH", "job", "x").Error())
			return s.locker.WaitFree(s.ctx, "job")
		}, `rlock: wait for "job": WRONGTYPE Operation against a key holding the wrong kind of value (` +
			otherType + `)`},
		"wait, closed": {func(s scene) error {
			s.locker.Close()
			return s.locker.WaitFree(s.ctx, "job")
		}, `rlock: wait for "job": locker is closed`},
		"extend, lost": {func(s scene) error { return lose(s).Extend(s.ctx, time.Minute) },
			`rlock: extend "job": lock was lost: its key is gone or has another token`},
		"extend, no answer": {func(s scene) error {
			lock := take(s)
			ctx, end := env.Deadline(s.ctx)
			s.f.When(func([]string, func() rueidis.RedisResult) rueidis.RedisResult {
				end()
				return env.NoReply()
			})
			return lock.Extend(ctx, time.Minute)
		}, `rlock: extend "job": the server has not answered: context deadline exceeded: unexpected EOF`},
		"verify, not ready": {func(s scene) error {
			lock := take(s)
			s.f.RefuseAll()
			return lock.Verify(s.ctx)
		},
			`rlock: verify "job": the server cannot serve yet: LOADING later (the server has just started; try again soon)`},
		"inspect, not ready": {func(s scene) error {
			s.f.RefuseAll()
			return of(env.Admin(s.locker).Inspect(s.ctx, "job"))
		},
			`rlock: inspect "job": the server cannot serve yet: LOADING later (the server has just started; try again soon)`},
		"check, closed": {func(s scene) error {
			s.locker.Close()
			return of(s.locker.Check(s.ctx, "job"))
		}, `rlock: check "job": locker is closed`},
		"a key twice": {func(s scene) error {
			return of(s.locker.AcquireAll(s.ctx, []string{"a", "job", "a"}))
		}, `rlock: keys: "a" stands twice in the list; name every key once`},
		"gave up, while waiting in the queue": {func(s scene) error {
			take(s)
			ctx, end := env.Deadline(s.ctx)
			go func() {
				defer later(end)
				for s.locker.Stats().Waiting == 0 && s.ctx.Err() == nil {
					time.Sleep(time.Millisecond)
				}
			}()
			return of(s.locker.Acquire(ctx, "job"))
		},
			`rlock: acquire "job": gave up waiting: context deadline exceeded (after <time>; the holder is a lock of this Locker; its lease ends in <time>)`},
		"verify, lost": {func(s scene) error { return lose(s).Verify(s.ctx) },
			`rlock: verify "job": lock was lost: its key is gone or has another token`},
		"release, lost": {func(s scene) error { return lose(s).Release(s.ctx) },
			`rlock: release "job": lock was lost: its key is gone or has another token`},
		"release, again": {func(s scene) error {
			lock := take(s)
			require.NoError(s.t, lock.Release(s.ctx))
			return lock.Release(s.ctx)
		}, `rlock: release "job": lock was released`},
		"detach, released": {func(s scene) error {
			lock := take(s)
			require.NoError(s.t, lock.Release(s.ctx))
			return of(lock.Detach())
		}, `rlock: detach "job": lock was released`},
		"attach, not held": {func(s scene) error {
			handoff, err := take(s).Detach()
			require.NoError(s.t, err)
			require.NoError(s.t, env.Do(s.t, s.direct, "DEL", "job").Error())
			return of(s.locker.Attach(s.ctx, handoff))
		}, `rlock: attach "job": lock was lost: its key is gone or has another token`},
		"force, not held": {func(s scene) error { return env.Admin(s.locker).ForceRelease(s.ctx, "job", "token") },
			`rlock: force release "job": lock was lost: its key is gone or has another token`},
		"do, its own error": {func(s scene) error {
			return s.locker.Do(s.ctx, "job", func(context.Context, *rlock.Lock) error { return errors.New("no") })
		}, `no`},
		"do, lost": {func(s scene) error {
			return s.locker.Do(s.ctx, "job", func(ctx context.Context, lock *rlock.Lock) error {
				require.NoError(s.t, env.Do(s.t, s.direct, "DEL", "job").Error())
				return nil
			})
		}, `rlock: release "job": lock was lost: its key is gone or has another token`},
		"do, lost, and told so": {func(s scene) error {
			return s.locker.Do(s.ctx, "job", func(ctx context.Context, lock *rlock.Lock) error {
				require.NoError(s.t, env.Do(s.t, s.direct, "DEL", "job").Error())
				err := lock.Verify(ctx)
				require.ErrorIs(s.t, context.Cause(ctx), rlock.ErrLost)
				return err
			})
		}, `rlock: verify "job": lock was lost: its key is gone or has another token`},
		"do, lost, and an error of its own": {func(s scene) error {
			return s.locker.Do(s.ctx, "job", func(ctx context.Context, lock *rlock.Lock) error {
				require.NoError(s.t, env.Do(s.t, s.direct, "DEL", "job").Error())
				return errors.New("no")
			})
		}, `no; rlock: release "job": lock was lost: its key is gone or has another token`},
		"an argument": {func(s scene) error { return of(s.locker.Acquire(s.ctx, "")) }, `rlock: key: it is empty`},
		"a nil lock": {func(s scene) error { return (*rlock.Lock)(nil).Release(s.ctx) },
			`rlock: lock: it is nil or the zero Lock; use one that an acquisition or Attach has returned`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f, locker, direct := env.NewFaulty(t, env.Engines(t)[0], rlock.WithTTL(time.Minute))
			err := test.fail(scene{t, t.Context(), f, locker, direct})
			f.When(nil)
			require.Error(t, err)
			text := inScript.ReplaceAllString(lengthOfTime.ReplaceAllString(err.Error(), "<time>"), "")
			if strings.Contains(test.want, "<n>") {
				text = regexp.MustCompile(`\d+ attempts?`).ReplaceAllString(text, "<n> attempts")
			}
			require.Equal(t, test.want, text)
		})
	}
}

// One Err has all that is to be known, for errors.Is.
func TestErrIsJoined(t *testing.T) {
	t.Parallel()
	f, locker, direct := env.NewFaulty(t, env.Engines(t)[0])
	require.NoError(t, env.Do(t, direct, "SET", "job", "foreign").Error())
	ctx, end := env.Deadline(t.Context())
	f.When(func(_ []string, run func() rueidis.RedisResult) rueidis.RedisResult {
		defer end()
		return run()
	})
	_, err := locker.Acquire(ctx, "job")
	var facts *rlock.AcquireError
	require.ErrorAs(t, err, &facts)
	for _, err := range []error{err, facts.Err} {
		for _, is := range []error{rlock.ErrGaveUp, rlock.ErrHeld, context.DeadlineExceeded} {
			require.ErrorIs(t, err, is)
		}
	}
	f.When(func([]string, func() rueidis.RedisResult) rueidis.RedisResult { return env.NoReply() })
	_, err = locker.Acquire(t.Context(), "other", rlock.WithRetry(rlock.Fixed(time.Millisecond).MaxAttempts(2)))
	require.ErrorAs(t, err, &facts)
	require.ErrorIs(t, facts.Err, rlock.ErrGaveUp)
	require.ErrorIs(t, facts.Err, io.ErrUnexpectedEOF)
	require.NotErrorIs(t, err, rlock.ErrHeld, "nobody was seen to hold it")

	_, err = locker.AcquireAll(t.Context(), []string{"a", "a"})
	require.ErrorAs(t, err, new(*rlock.ArgumentError))
	require.ErrorIs(t, err, rlock.ErrDuplicateKey)
	require.ErrorIs(t, err, rlock.ErrInvalid)
	require.NotErrorIs(t, err, rlock.ErrCrossSlot)
}

// A user without rights is told of the operation that was asked for and of what to do, and programs
// find the server's error.
func TestErrorsOfMissingRights(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		server := e.Start(t)
		for user, rules := range map[string][]string{"without_scripts": {"-eval", "-evalsha"},
			"without_their_commands": {"-get", "-set"}} {
			server.Do(t, append([]string{"ACL", "SETUSER", user, "on", ">secret", "~*", "&*", "+@all"}, rules...)...)
			option := server.Option()
			option.Username, option.Password = user, "secret"
			locker := env.OpenLocker(t, option)
			for op, call := range map[string]func() error{
				"acquire": func() error { _, err := locker.Acquire(t.Context(), "job"); return err },
				"inspect": func() error { _, err := env.Admin(locker).Inspect(t.Context(), "job"); return err },
			} {
				err := call()
				require.Regexp(t, `^rlock: `+op+
					` "job": .+ \(.*Locker\.Probe, or rlock probe --prefix, names the missing rights for keys with that prefix\)$`, fmt.Sprint(err), user)
				require.NotContains(t, err.Error(), "gen: ", user)
				require.ErrorAs(t, err, new(*rueidis.RedisError), user)
			}
			report, err := locker.Probe(t.Context())
			require.NoError(t, err)
			require.ErrorAs(t, report.Err(), new(*rueidis.RedisError), user)
			require.NotContains(t, report.String()+report.Err().Error(), "gen: ", user)
		}
	})
}

// An error that a caller has made without a cause says so.
func TestErrorsWithoutACause(t *testing.T) {
	t.Parallel()
	require.Equal(t, `rlock: acquire "x": no cause is given`, (&rlock.AcquireError{Key: "x"}).Error())
	require.Equal(t, `rlock: extend "x": no cause is given`, (&rlock.LockError{Op: "extend", Key: "x"}).Error())
}
