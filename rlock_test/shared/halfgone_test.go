package shared

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/rlock"
	"github.com/rlock-go/toolkit/rlock_test/env"
)

// Whoever frees a shared key by its value leaves no set of holders behind, and neither does who releases a
// whole lock after a stranger has deleted the key of a share without an end, or the one who had that share. A
// set of a share without an end has no expiry, so that nothing else would remove it.
func TestNoSetOutlivesItsKey(t *testing.T) {
	onScripts(t, func(r raw) {
		for name, end := range map[string]func(){
			"force by the value": func() { require.True(r.t, r.release(env.Get(r.t, r.client, key))) },
			"force while another waits": func() {
				r.joins("w")
				require.True(r.t, r.release(env.Get(r.t, r.client, key)))
				require.True(r.t, r.write("heartbeat", "w").Granted)
				require.True(r.t, r.release("w"))
			},
			"a whole lock after a DEL": func() {
				require.NoError(r.t, r.do("DEL", key).Error())
				require.True(r.t, r.write("try", "w").Granted)
				require.True(r.t, r.release("w"))
			},
			"the holder after a DEL": func() {
				require.NoError(r.t, r.do("DEL", key).Error())
				require.False(r.t, r.release(reader("a")))
			},
			"the holder after a DEL, while another has the lock": func() {
				require.NoError(r.t, r.do("DEL", key).Error())
				require.NoError(r.t, r.do("SET", key, "stranger").Error())
				require.False(r.t, r.release(reader("a")))
				require.NoError(r.t, r.do("DEL", key).Error())
			},
		} {
			r.t.Log(name)
			r.takes(reader("a"), 0)
			r.takes(reader("b"), minute)
			end()
			r.nothingLeft()
		}
	})
}

// The set lasts as long as the leases in it, although a stranger has given the key a longer life, or an
// endless one: the holders would lose their shares, and nobody else could get one.
func TestSetLastsThoughTheKeyHasALongLife(t *testing.T) {
	onScripts(t, func(r raw) {
		for _, change := range [][]string{{"PEXPIRE", key, "3600000"}, {"PERSIST", key}} {
			for name, use := range map[string]func(){
				"extend": func() { require.True(r.t, r.extend(share(2, 1, "a"), 10*minute)) },
				"attach": func() { require.True(r.t, r.extend(share(2, 1, "a2"), 10*minute, share(2, 1, "a"))) },
				"join":   func() { r.takes(share(2, 1, "b"), 10*minute) },
			} {
				r.takes(share(2, 1, "a"), minute)
				require.NoError(r.t, r.do(change...).Error())
				use()
				require.Greater(r.t, env.TTL(r.t, r.client, holders), 9*minute, "%s after %v", name, change)
				require.Greater(r.t, env.TTL(r.t, r.client, key), 9*minute, "%s after %v", name, change)
				require.NoError(r.t, r.do("FLUSHALL").Error())
			}
		}
	})
}

// The last who lives gives up its permit while the leases of more than one script removes are over. The
// lock is free then, and the next who waits has it in a phase of its own, with a key and a set that end.
func TestReleaseAmongManyDead(t *testing.T) {
	onScripts(t, func(r raw) {
		for _, dead := range []int{1, 63, 64, 65, 200} {
			r.takes(share(500, 450, "live"), minute)
			r.joins(share(500, 100, "next"))
			words := []string{"ZADD", holders}
			phase := strings.TrimPrefix(env.Get(r.t, r.client, key), "rlock:permits ")
			for i := range dead {
				words = append(words, "100000000001", fmt.Sprint(phase, " 1 ", share(500, 1, fmt.Sprint("dead", i))))
			}
			require.NoError(r.t, r.do(words...).Error())
			require.NoError(r.t, r.do("ZADD", holders, "XX", fmt.Sprint(dead+450), phase).Error())
			require.True(r.t, r.release(share(500, 450, "live")))
			require.True(r.t, r.beats(share(500, 100, "next")), dead)
			require.Contains(r.t, env.Get(r.t, r.client, key), "rlock:permits ", dead)
			require.Len(r.t, r.inspect().Members, 1, dead)
			for _, name := range []string{key, holders} {
				require.Greater(r.t, env.TTL(r.t, r.client, name), time.Duration(0), dead)
			}
			require.True(r.t, r.release(share(500, 100, "next")))
			r.nothingLeft()
		}
	})
}

// While the set is lost, nobody gets in before the key ends, and who asks is told when that is.
func TestLostSetEndsWithItsKey(t *testing.T) {
	onScripts(t, func(r raw) {
		r.takes(share(2, 1, "a"), minute)
		require.NoError(r.t, r.do("DEL", holders).Error())
		for _, token := range []string{share(2, 1, "b"), reader("b"), "w"} {
			remaining := r.refused(token).Remaining
			require.Greater(r.t, remaining, time.Duration(0), token)
			require.LessOrEqual(r.t, remaining, 2*minute, token)
		}
	})
}

// A set gets a key when the leases of those who shared it are over, although the key lasts for longer.
func TestSetAfterSharesThatAreOver(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		t.Parallel()
		server := e.Start(t)
		client := server.Client(t)
		l, other := env.OpenOn(t, server), env.OpenOn(t, server)
		lock := env.MustLock(t)(l.AcquireShared(t.Context(), "k", rlock.WithTTL(3*time.Second)))
		_, err := other.TryAcquireAll(t.Context(), []string{"j", "k"})
		var refused *rlock.AcquireError
		require.ErrorAs(t, err, &refused)
		require.ErrorIs(t, err, rlock.ErrHeld)
		require.Equal(t, "k", refused.Key)
		require.LessOrEqual(t, refused.Remaining, 3*time.Second, "the key lasts for longer")
		require.Positive(t, refused.Remaining)
		env.Detach(t, lock)
		require.NoError(t, env.Do(t, client, "PEXPIRE", "k", "3600000").Error()) // however busy the machine is
		time.Sleep(refused.Remaining)
		set := env.MustLock(t)(other.TryAcquireAll(t.Context(), []string{"j", "k"}))
		require.NoError(t, set.Release(t.Context()))
		idle(t, client)
	})
}
