package observe

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/rlock"
	"github.com/rlock-go/toolkit/rlock_test/env"
)

// anyToken is what a token of rlock's looks like, unless it is the name of Probe's key.
var anyToken = regexp.MustCompile(`(^|[^:])[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-`)

// shared is a writer for many goroutines.
type shared struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (s *shared) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(p)
}

func (s *shared) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

// noToken fails if a text has one, or the beginning of one.
func noToken(t *testing.T, text string, tokens ...string) {
	t.Helper()
	require.NotRegexp(t, anyToken, text)
	for _, token := range tokens {
		require.NotContains(t, text, token[:min(len(token), 8)])
	}
}

// A server that does not know EVALSHA quotes its arguments.
func TestErrorsOfAServerThatQuotesArguments(t *testing.T) {
	t.Parallel()
	const mine = "SECRET-TOKEN"
	env.Each(t, func(t *testing.T, e env.Engine) {
		t.Parallel()
		server := e.Start(t, "--rename-command", "EVALSHA", "")
		log := &shared{}
		logger := slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))
		locker := env.NewLocker(t, server.Client(t), rlock.WithOwner("Somebody"),
			rlock.WithObserver(rlock.SlogObserver(logger)))
		ctx := t.Context()
		write := func(_ any, err error) {
			t.Helper()
			require.ErrorContains(t, err, "unknown command 'EVALSHA'")
			var said *rueidis.RedisError
			require.ErrorAs(t, err, &said)
			noToken(t, fmt.Sprintf("%v %+v %q %v", err, err, err, said), mine, "Somebody")
		}
		write(locker.TryAcquire(ctx, "j", rlock.WithToken(mine)))
		write(locker.TryAcquire(ctx, "j"))
		write(locker.Acquire(ctx, "j", rlock.WithFence(false)))
		write(locker.AcquireAll(ctx, []string{"a", "b"}))
		write(nil, locker.Do(ctx, "j", func(context.Context, *rlock.Lock) error { return nil }))
		write(nil, env.Admin(locker).ForceRelease(ctx, "j", mine))
		write(locker.Attach(ctx, env.NewHandoff(t, mine, 1, "j")))
		results, err := locker.TryAcquireEach(ctx, []string{"j", "k"})
		require.NoError(t, err)
		for _, r := range results {
			write(nil, r.Err)
		}
		report, err := locker.Probe(ctx)
		require.NoError(t, err)
		require.Error(t, report.Err())
		noToken(t, fmt.Sprint(report, report.Err()), "Somebody")
		require.Contains(t, log.String(), "unknown command")
		noToken(t, log.String(), mine, "Somebody")
	})
}

// A proxy may quote in other words whatever it refuses, of held locks too.
func TestErrorsOfAProxyThatQuotesArguments(t *testing.T) {
	t.Parallel()
	for name, quote := range map[string]func(words []string) string{
		"quoted": func(words []string) string { return fmt.Sprintf("ERR refused: %q", words) },
		"plain":  func(words []string) string { return "ERR refused: " + strings.Join(words, " ") },
		"cut": func(words []string) string {
			return fmt.Sprintf("ERR refused: %.120q",
				strings.Join(words[3:], " "))
		},
		"in ticks": func(words []string) string { return "ERR refused `" + strings.Join(words, "` `") + "`" },
	} {
		for _, mine := range []string{"SECRET-TOKEN", "s3", "with \"quotes\" and ö"} {
			t.Run(name+"/"+mine, func(t *testing.T) {
				t.Parallel()
				log := &shared{}
				logger := slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))
				f, locker, _ := env.NewFaulty(t, env.Engines(t)[0], rlock.WithObserver(rlock.SlogObserver(logger)))
				ctx := t.Context()
				take := func(key string, opts ...rlock.Option) *rlock.Lock {
					lock, err := locker.Acquire(ctx, key, opts...)
					require.NoError(t, err)
					return lock
				}
				own, plain, each := take("own", rlock.WithToken(mine)), take("plain"), take("each")
				tokens := []string{own.Token(), plain.Token(), each.Token()}
				renewed := take("renewed", rlock.WithAutoExtend(true), rlock.WithTTL(4*time.Second))
				renewed2 := take("renewed2", rlock.WithAutoExtend(true), rlock.WithTTL(4*time.Second))
				f.When(func(words []string,
					_ func() rueidis.RedisResult) rueidis.RedisResult {
					return f.Refuse(quote(words))
				})
				write := func(err error) {
					t.Helper()
					require.ErrorContains(t, err, "refused")
					text := fmt.Sprintf("%v %+v", err, err)
					noToken(t, text)
					for _, token := range tokens {
						require.NotContains(t, text, token)
					}
				}
				_, err := locker.TryAcquire(ctx, "free", rlock.WithToken(mine))
				write(err)
				_, err = locker.AcquireAll(ctx, []string{"x", "y"})
				write(err)
				write(own.Extend(ctx, time.Minute))
				write(plain.Extend(ctx, time.Minute))
				write(plain.Extend(ctx, time.Second)) // with two tokens
				_, err = locker.Attach(ctx, env.NewHandoff(t, mine, 1, "own"))
				write(err)
				for _, err := range locker.ExtendEach(ctx, []*rlock.Lock{own, each}, time.Minute) {
					write(err)
				}
				write(env.Admin(locker).ForceRelease(ctx, "own", mine))
				write(own.Release(ctx))
				write(plain.Release(ctx))
				write(locker.ReleaseEach(ctx, []*rlock.Lock{each})[0])
				env.Receive(t, renewed.Context().Done())
				env.Receive(t, renewed2.Context().Done())
				f.When(nil)
				require.Contains(t, log.String(), "extend_failed")
				noToken(t, log.String())
				for _, token := range tokens {
					if len(token) > 2 {
						require.NotContains(t, log.String(), token)
					}
				}
			})
		}
	}
}
