package rlocktest_test

import (
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/rlock/rlocktest"
)

// Whatever two clients read and write at the same time, once they stop neither
// is left with a value that is not there. That is looked at often, because a
// later write would hide a missing invalidation.
func TestCachesConverge(t *testing.T) {
	t.Parallel()
	const goroutines, steps = 8, 10
	s := rlocktest.Start(t)
	clients := []rueidis.Client{newClient(t, s), newClient(t, s)}
	keys := []string{"a", "b", "c"}

	rounds := 0
	for start := time.Now(); time.Since(start) < time.Second; rounds++ {
		var wg sync.WaitGroup
		for i := range goroutines {
			c := clients[i%len(clients)]
			wg.Go(func() {
				for step := range steps {
					key := keys[rand.IntN(len(keys))]
					value := strconv.Itoa(rounds) + "/" + strconv.Itoa(i) + "/" + strconv.Itoa(step)
					if err := readOrWrite(t, c, key, value); err != nil && !rueidis.IsRedisNil(err) {
						t.Errorf("%s: %v", key, err)
					}
				}
			})
		}
		wg.Wait()
		for _, key := range keys {
			for _, c := range clients {
				require.Eventually(t, func() bool {
					got, want := cached(t, c, key), do(t, c, "GET", key)
					return got.String() != "" && text(got) == text(want)
				}, soon, time.Millisecond)
			}
		}
	}
	t.Logf("%d rounds", rounds)
}

// readOrWrite reads through the cache most of the time.
func readOrWrite(t *testing.T, c rueidis.Client, key, value string) error {
	switch rand.IntN(20) {
	case 0:
		return do(t, c, "SET", key, value).Error()
	case 1:
		return do(t, c, "SET", key, value, "PX", "5").Error()
	case 2:
		return do(t, c, "DEL", key).Error()
	case 3:
		return do(t, c, "EVAL", "return redis.call('SET', KEYS[1], ARGV[1])", "1", key, value).Error()
	case 4:
		rs := c.DoMulti(t.Context(), c.B().Multi().Build(),
			c.B().Append().Key(key).Value("+").Build(), c.B().Exec().Build())
		return rs[len(rs)-1].Error()
	default:
		return cached(t, c, key).Error()
	}
}

// text is the value of a reply, or what is wrong with it.
func text(r rueidis.RedisResult) string {
	got, err := r.ToString()
	if err != nil {
		return "error: " + err.Error()
	}
	return got
}
