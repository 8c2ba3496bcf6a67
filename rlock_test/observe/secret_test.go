package observe

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/rlock"
	"github.com/rlock-go/toolkit/rlock_test/env"
)

// Tokens are version 4 UUIDs: none comes twice, six of their bits say so, and each of
// the others is a fair coin.
func TestTokensAreUnpredictable(t *testing.T) {
	t.Parallel()
	const (
		batches, batch = 100, 1000
		tokens         = batches * batch
	)
	locker := env.NewLocker(t, env.Start(t).Client(t), rlock.WithTTL(rlock.NoExpiry), rlock.WithFence(false))
	keys := make([]string, batch)
	for i := range keys {
		keys[i] = fmt.Sprint("job:", i)
	}
	seen := make(map[string]bool, tokens)
	var set [128]int // how many tokens have the bit
	for range batches {
		results, err := locker.TryAcquireEach(t.Context(), keys)
		require.NoError(t, err)
		var locks []*rlock.Lock
		for _, r := range results {
			require.NoError(t, r.Err)
			locks = append(locks, r.Lock)
			token := r.Lock.Token()
			seen[token] = true
			id, err := uuid.Parse(token)
			require.NoError(t, err)
			for bit := range set {
				set[bit] += int(id[bit/8]>>(7-bit%8)) & 1
			}
		}
		require.NoError(t, errors.Join(locker.ReleaseEach(t.Context(), locks)...))
	}
	require.Len(t, seen, tokens, "no token comes twice")
	fixed := map[int]int{48: 0, 49: tokens, 50: 0, 51: 0, 64: tokens, 65: 0} // version and variant
	for bit, n := range set {
		if want, is := fixed[bit]; is {
			require.Equal(t, want, n, "bit %d", bit)
			continue
		}
		// Six standard deviations: chance leaves that once in four million runs.
		require.InDelta(t, tokens/2, n, 950, "bit %d", bit)
	}
}

// notebook is everything that a program may write down.
type notebook struct {
	mu   sync.Mutex
	text bytes.Buffer
	logs []*slog.Logger
}

func newNotebook() *notebook {
	n := &notebook{}
	all := &slog.HandlerOptions{Level: slog.LevelDebug, AddSource: true}
	n.logs = []*slog.Logger{slog.New(slog.NewTextHandler(n, all)), slog.New(slog.NewJSONHandler(n, all))}
	return n
}

func (n *notebook) Write(text []byte) (int, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.text.Write(text)
}

// put writes things down in every way that package fmt and slog know.
func (n *notebook) put(things ...any) {
	for _, thing := range things {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%d", "%t"} {
			fmt.Fprintf(n, verb+"\n", thing)
			fmt.Fprintf(n, verb+"\n", []any{thing})
		}
		for _, log := range n.logs {
			log.Error("it is", "thing", thing, "things", []any{thing})
		}
		if err, is := thing.(error); is {
			n.put(causes(err)...)
		}
	}
}

// causes are the errors that an error wraps.
func causes(err error) (list []any) {
	switch e := err.(type) {
	case interface{ Unwrap() error }:
		if inner := e.Unwrap(); inner != nil {
			list = append(list, inner)
		}
	case interface{ Unwrap() []error }:
		for _, inner := range e.Unwrap() {
			list = append(list, inner)
		}
	}
	return list
}

// Observe writes down what an observer is told, as SlogObserver does and raw.
func (n *notebook) Observe(ctx context.Context, e rlock.Event) {
	for _, log := range n.logs {
		rlock.SlogObserver(log).Observe(ctx, e)
	}
	n.put(e)
}

// Nothing that a program would log has a token in it: no error, event, count or
// finding, and neither a Lock nor a State as a whole.
func TestTokensAreToldToNobody(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		const (
			theirs = "the-token-of-somebody-else"
			chosen = "the-token-of-my-own-choice"
		)
		server := e.Start(t)
		server.Do(t, "ACL", "SETUSER", "app", "on", ">secret", "~*", "+@all")
		direct := server.Client(t)
		book := newNotebook()
		option := server.Option()
		option.Username, option.Password = "app", "secret"
		locker := env.OpenLocker(t, option, rlock.WithObserver(book), rlock.WithOwner("web-3"))
		tokens := []string{theirs, chosen}
		ctx := t.Context()
		write := func(_ any, err error) {
			t.Helper()
			require.Error(t, err)
			book.put(err)
		}
		// look has everything about a held lock written down, and its token remembered.
		look := func(lock *rlock.Lock, err error) *rlock.Lock {
			t.Helper()
			require.NoError(t, err)
			tokens = append(tokens, env.Get(t, direct, lock.Key()))
			require.Equal(t, lock.Token(), tokens[len(tokens)-1])
			require.NoError(t, lock.Verify(ctx))
			inspected := env.Inspect(t, locker, lock.Key())
			checked, err := locker.Check(ctx, lock.Key())
			require.NoError(t, err)
			book.put(lock, inspected, checked, &inspected, inspected.Holders[0], fmt.Sprint(lock.Context()),
				locker.Locks(), locker.Stats())
			return lock
		}

		job := look(locker.Acquire(ctx, "job"))
		write(locker.TryAcquire(ctx, "job"))
		write(locker.TryAcquire(ctx, "job", rlock.WithToken(chosen)))
		write(locker.TryAcquireAll(ctx, []string{"free", "job"}))
		write(locker.Acquire(job.Context(), "job"))
		write(locker.Acquire(ctx, "job", rlock.WithRetry(rlock.Fixed(time.Millisecond).MaxAttempts(2))))
		ended, cancel := context.WithCancelCause(ctx)
		cancel(errors.New("that is why"))
		write(locker.Acquire(ended, "job"))
		write(locker.Attach(ctx, env.NewHandoff(t, theirs, 1, "job")))
		write(nil, env.Admin(locker).ForceRelease(ctx, "job", theirs))
		write(nil, locker.WaitFree(job.Context(), "job"))
		write(nil, job.Extend(ctx, -1))
		require.NoError(t, job.Extend(ctx, time.Minute))
		require.NoError(t, job.Release(ctx))
		write(nil, job.Extend(ctx, time.Minute))
		write(nil, job.Release(ctx))
		book.put(job)

		set := look(locker.AcquireAll(ctx, []string{"a", "b", "c"}, rlock.WithAutoExtend(true)))
		require.NoError(t, env.Do(t, direct, "SET", "b", theirs).Error())
		write(nil, set.Verify(ctx))
		write(nil, set.Release(ctx))
		book.put(set)

		mine := look(locker.Acquire(ctx, "mine", rlock.WithToken(chosen)))
		require.NoError(t, env.Do(t, direct, "DEL", "mine").Error())
		write(nil, mine.Extend(ctx, time.Minute))

		require.NoError(t, env.Do(t, direct, "SET", "foreign", theirs).Error())
		write(locker.TryAcquire(ctx, "foreign"))
		foreign := env.HolderOf(t, locker, "foreign")
		require.Equal(t, theirs, foreign.Token())
		book.put(foreign)
		require.NoError(t, env.Do(t, direct, "RPUSH", "list", theirs).Error())
		write(locker.Acquire(ctx, "list"))
		write(locker.Check(ctx, "list"))

		results, err := locker.TryAcquireEach(ctx, []string{"x", "foreign", "list"})
		require.NoError(t, err)
		look(results[0].Lock, results[0].Err)
		for _, r := range results {
			book.put(r)
		}
		for _, err := range locker.ExtendEach(ctx, []*rlock.Lock{results[0].Lock, job, nil}, time.Minute) {
			book.put(err)
		}
		env.PassOn(t, locker, "passed on", 10, rlock.WithAutoExtend(true))
		report, err := locker.Probe(ctx)
		require.NoError(t, err)
		book.put(report)

		var kept [5]*rlock.Lock
		for i := range kept {
			kept[i] = look(locker.Acquire(ctx, fmt.Sprint("kept:", i)))
		}
		for i, refusal := range [len(kept)]func(){
			func() { server.Do(t, "ACL", "SETUSER", "app", "-get", "-mget", "-set") },
			func() { server.Do(t, "ACL", "SETUSER", "app", "+get", "-evalsha") },
			func() { server.Do(t, "ACL", "SETUSER", "app", "+evalsha", "resetkeys") },
			func() {
				server.Do(t, "ACL", "SETUSER", "app", "allkeys")
				server.Do(t, "REPLICAOF", "127.0.0.1", "1")
			},
			func() {
				server.Do(t, "REPLICAOF", "NO", "ONE")
				server.Kill()
			},
		} {
			refusal()
			short, cancel := context.WithTimeout(ctx, time.Second)
			write(locker.Acquire(short, "other"))
			write(nil, kept[i].Extend(short, time.Minute))
			write(nil, kept[i].Release(short))
			cancel()
			book.put(kept[i])
		}
		locker.Close()
		write(locker.Acquire(ctx, "other"))
		write(nil, kept[0].Release(ctx))
		book.put(kept, locker.Stats())

		written := book.text.String()
		require.Contains(t, written, `lock "job"`)
		require.Contains(t, written, "web-3")
		for _, event := range []string{"contended", "acquired", "acquire_failed", "extended", "extend_failed",
			"released", "release_failed", "lost"} {
			require.Contains(t, written, `msg="rlock: `+event+`"`)
		}
		require.Len(t, tokens, 6+len(kept))
		for _, token := range tokens {
			for _, part := range []string{token, token[:8], token[len(token)-12:]} {
				at := strings.Index(written, part)
				require.Negative(t, at, "%.300s", written[max(0, at-150):])
			}
		}
	})
}
