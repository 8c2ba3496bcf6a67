package corpus_test

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/redislua"
	"github.com/rlock-go/toolkit/rlock_test/corpus/bindings"
	"github.com/rlock-go/toolkit/rlock_test/env"
)

const callers = 8

func onEach(t *testing.T, test func(t *testing.T, e target)) {
	t.Helper()
	t.Parallel()
	env.Each(t, func(t *testing.T, engine env.Engine) {
		t.Parallel()
		test(t, target{bindings.New(), engine.Start(t).Client(t), "test", true})
	})
}

// together runs work in several goroutines until it returns false.
func together(work func() bool) {
	var group sync.WaitGroup
	for range callers {
		group.Go(func() {
			for work() {
			}
		})
	}
	group.Wait()
}

// A bucket pays its capacity and what has run in since, and not one token more.
func TestTokenBucketNeverOverAdmits(t *testing.T) {
	onEach(t, func(t *testing.T, e target) {
		p := bindings.TokenBucketParams{Bucket: e.key("bucket"), Capacity: 20, Rate: 50, Cost: 1}
		var granted, refused atomic.Int64
		start := time.Now()
		end := start.Add(400 * time.Millisecond)
		together(func() bool {
			r, err := e.TokenBucket(t.Context(), e.client, p)
			if !assert.NoError(t, err) {
				return false
			}
			if r.Granted {
				granted.Add(1)
			} else {
				refused.Add(1)
			}
			return time.Now().Before(end) || refused.Load() == 0 && time.Since(start) < 20*time.Second
		})
		// One more, as the server counts whole milliseconds.
		filled := float64(p.Capacity) + p.Rate*time.Since(start).Seconds() + 1
		require.LessOrEqual(t, float64(granted.Load()), filled)
		require.Greater(t, granted.Load(), p.Capacity, "it has been refilled")
		require.Positive(t, refused.Load(), "there was more demand than tokens")
	})
}

// Everything is sold once, and nothing twice.
func TestInventoryNeverOversells(t *testing.T) {
	onEach(t, func(t *testing.T, e target) {
		stock := e.keys("apples", "pears")
		e.set(t, "SET", stock[0], "1000")
		e.set(t, "SET", stock[1], "450")
		p := bindings.InventoryReserveParams{Stock: stock, Wanted: []int64{2, 1}}
		var sold atomic.Int64
		together(func() bool {
			left, err := e.InventoryReserve(t.Context(), e.client, p)
			if errors.Is(err, bindings.ErrNoStock) {
				return false
			}
			if !assert.NoError(t, err) || !assert.GreaterOrEqual(t, min(left[0], left[1]), int64(0)) {
				return false
			}
			sold.Add(1)
			return true
		})
		require.Equal(t, int64(450), sold.Load())
		require.Equal(t, int64(100), e.number(t, "GET", stock[0]))
		require.Equal(t, int64(0), e.number(t, "GET", stock[1]))
	})
}

// A batch answers each call by itself, whether or not the server knows the script.
func TestBatchAnswersEachCall(t *testing.T) {
	onEach(t, func(t *testing.T, e target) {
		for _, loaded := range []string{"no", "yes"} {
			var params []bindings.TransferParams
			for i := range 20 {
				from, to := e.key(fmt.Sprint(loaded, "from", i)), e.key(fmt.Sprint(loaded, "to", i))
				e.set(t, "SET", to, "0")
				if i%2 == 0 {
					e.set(t, "SET", from, fmt.Sprint(i))
				}
				params = append(params, bindings.TransferParams{From: from, To: to, Amount: 10})
			}
			for i, reply := range e.TransferBatch(t.Context(), e.client, params) {
				switch {
				case i%2 == 1:
					require.ErrorIs(t, reply.Err, bindings.ErrNoAccount)
				case i < 10:
					require.ErrorIs(t, reply.Err, bindings.ErrNoFunds)
				default:
					require.NoError(t, reply.Err)
					require.Equal(t, bindings.TransferResult{FromBalance: int64(i - 10), ToBalance: 10}, reply.Value)
				}
			}
		}
	})
}

// In a batch, what cannot be sent fails alone.
func TestBatchSendsWhatItCan(t *testing.T) {
	onEach(t, func(t *testing.T, e target) {
		replies := e.FixedWindowBatch(t.Context(), e.client, []bindings.FixedWindowParams{
			{Window: e.key("window"), Limit: 2, Length: time.Hour},
			{Window: e.key("window"), Limit: 2, Length: time.Microsecond},
			{Window: e.key("window"), Limit: 2, Length: time.Hour},
		})
		require.Len(t, replies, 3)
		require.NoError(t, replies[0].Err)
		require.Equal(t, int64(1), replies[0].Value.Remaining)
		var wrong *redislua.ParamError
		require.ErrorAs(t, replies[1].Err, &wrong)
		require.NoError(t, replies[2].Err)
		require.Equal(t, int64(0), replies[2].Value.Remaining)
		require.Empty(t, e.FixedWindowBatch(t.Context(), e.client, nil))
	})
}

// Every server of a cluster can be taught the scripts before their first use, and
// keys that no server has together are refused before anything is sent.
func TestLoadAndSlotsOnACluster(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, engine env.Engine) {
		client := engine.StartCluster(t).Client(t)
		scripts := bindings.New()
		require.NoError(t, scripts.Load(t.Context(), client))
		requireAllKnown(t, client)

		_, err := scripts.Transfer(t.Context(), client, bindings.TransferParams{From: "a", To: "b", Amount: 1})
		var apart *redislua.CrossSlotError
		require.ErrorAs(t, err, &apart)
	})
}
