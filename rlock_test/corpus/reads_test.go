package corpus_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/redislua"
	"github.com/rlock-go/toolkit/rlock_test/corpus/bindings"
)

// Scores add up, and ranks and rows follow them.
func leaderboard(t *testing.T, e target) {
	board := e.key("board")
	add := func(player string, points float64) bindings.LeaderboardAddResult {
		return ask(t, e, e.LeaderboardAdd,
			bindings.LeaderboardAddParams{Board: board, Player: player, Points: points})
	}
	require.Equal(t, bindings.LeaderboardAddResult{Score: 1.5, Rank: 1}, add("ann", 1.5))
	require.Equal(t, bindings.LeaderboardAddResult{Score: 3, Rank: 1}, add("bob", 3))
	require.Equal(t, bindings.LeaderboardAddResult{Score: 0.25, Rank: 3}, add("cid", 0.25))
	require.Equal(t, bindings.LeaderboardAddResult{Score: 3.5, Rank: 1}, add("ann", 2))

	around := bindings.LeaderboardAroundParams{Board: board, Player: "bob", Radius: 1}
	require.Equal(t, bindings.LeaderboardAroundResult{
		Rank: some(int64(2)), Rows: [][]string{{"ann", "3.5"}, {"bob", "3"}, {"cid", "0.25"}},
	}, ask(t, e, e.LeaderboardAround, around))
	around.Player = "ann"
	require.Len(t, ask(t, e, e.LeaderboardAround, around).Rows, 2)
	around.Player = "nobody"
	require.Equal(t, bindings.LeaderboardAroundResult{Rows: [][]string{}},
		ask(t, e, e.LeaderboardAround, around))

	top := ask(t, e, e.LeaderboardTop, bindings.LeaderboardTopParams{Board: board, Most: 2})
	require.Equal(t, bindings.LeaderboardTopResult{Scores: map[string]float64{"ann": 3.5, "bob": 3}, Players: 3},
		top)
}

// Fractions and absent members come through as the server has them.
func weights(t *testing.T, e target) {
	e.set(t, "ZADD", e.key("weights"), "0.1", "a", "-inf", "b")
	p := bindings.WeightsReadParams{Weights: e.key("weights"), One: "a"}
	r := ask(t, e, e.WeightsRead, p)
	require.Equal(t, some(0.1), r.One)
	require.Len(t, r.All, 2)
	require.Less(t, r.All["b"], -1e308)
	p.One = "none"
	require.False(t, ask(t, e, e.WeightsRead, p).One.Valid)
}

// What was added is found; most of the rest is not.
func bloomFilter(t *testing.T, e target) {
	add := bindings.BloomAddParams{Filter: e.key("filter"), Bits: 10_000, Hashes: 5,
		Items: []string{"a", "b", "a"}}
	require.Equal(t, []bool{true, true, false}, ask(t, e, e.BloomAdd, add))
	add.Items = nil
	for i := range 500 {
		add.Items = append(add.Items, fmt.Sprint("in", i))
	}
	ask(t, e, e.BloomAdd, add)

	var tests []bindings.BloomTestParams
	for i := range 500 {
		for _, prefix := range []string{"in", "out"} {
			item := fmt.Sprint(prefix, i)
			tests = append(tests, bindings.BloomTestParams{Filter: add.Filter, Bits: add.Bits, Hashes: add.Hashes,
				Item: item})
		}
	}
	require.True(t, ask(t, e, e.BloomTest, tests[0]))
	found := map[string]int{}
	for i, reply := range e.BloomTestBatch(t.Context(), e.client, tests) {
		require.NoError(t, reply.Err)
		if reply.Value {
			found[tests[i].Item[:2]]++
		}
	}
	require.Equal(t, 500, found["in"])
	require.Less(t, found["ou"], 15, "about one in a thousand is expected")
}

// Of many who miss, one refreshes; a stale value beats none.
func cacheStampede(t *testing.T, e target) {
	value, refresh := e.key("value"), e.key("refresh")
	now := time.UnixMilli(1_700_000_000_000)
	fetch := bindings.CacheFetchParams{Value: value, Refresh: refresh, Now: now, Lease: time.Hour}
	require.Equal(t, bindings.CacheFetchResult{Refresh: true}, ask(t, e, e.CacheFetch, fetch))
	require.Equal(t, bindings.CacheFetchResult{}, ask(t, e, e.CacheFetch, fetch))

	content := []byte("\x00v")
	tell(t, e, e.CacheStore, bindings.CacheStoreParams{Value: value, Refresh: refresh, Content: content,
		FreshUntil: now.Add(time.Second), Keep: time.Hour})
	require.Equal(t, bindings.CacheFetchResult{Value: some(content)}, ask(t, e, e.CacheFetch, fetch))
	e.lives(t, value, time.Hour)
	fetch.Now = now.Add(time.Second)
	require.Equal(t, bindings.CacheFetchResult{Value: some(content), Refresh: true},
		ask(t, e, e.CacheFetch, fetch))
	require.Equal(t, bindings.CacheFetchResult{Value: some(content)}, ask(t, e, e.CacheFetch, fetch))
}

// An id counts once in a window, however often it comes.
func deduplication(t *testing.T, e target) {
	now := time.UnixMilli(1_700_000_000_000)
	p := bindings.DedupWindowParams{Seen: e.key("seen"), Now: now, Length: time.Minute,
		IDs: []string{"a", "b", "a"}}
	require.Equal(t, []bool{true, true, false}, ask(t, e, e.DedupWindow, p))
	e.lives(t, p.Seen, time.Minute)
	p.Now, p.IDs = now.Add(time.Minute-time.Millisecond), []string{"a", "c"}
	require.Equal(t, []bool{false, true}, ask(t, e, e.DedupWindow, p))
	p.Now = now.Add(time.Minute)
	require.Equal(t, []bool{true, false}, ask(t, e, e.DedupWindow, p))
}

// The expired go first, then those that expire next.
func cacheEviction(t *testing.T, e target) {
	for i := range 5 {
		name := fmt.Sprint("n", i)
		e.set(t, "ZADD", e.key("expiry"), fmt.Sprint(1000+i), name)
		e.set(t, "HSET", e.key("entries"), name, "v")
	}
	p := bindings.CacheEvictParams{Expiry: e.key("expiry"), Entries: e.key("entries"), Now: time.UnixMilli(1000),
		Most: 5}
	require.Equal(t, []string{"n0"}, ask(t, e, e.CacheEvict, p))
	require.Empty(t, ask(t, e, e.CacheEvict, p))
	p.Now, p.Most = time.UnixMilli(1001), 2
	require.Equal(t, []string{"n1", "n2"}, ask(t, e, e.CacheEvict, p))
	require.Equal(t, int64(2), e.number(t, "HLEN", e.key("entries")))
}

// Members always meet in the same shard.
func shards(t *testing.T, e target) {
	p := bindings.ShardAddParams{Shards: e.keys("0", "1", "2")}
	total := int64(0)
	for i := range 30 {
		p.Member = fmt.Sprint(i)
		first, again := ask(t, e, e.ShardAdd, p), ask(t, e, e.ShardAdd, p)
		require.True(t, first.Added)
		require.False(t, again.Added)
		require.Equal(t, first.Shard, again.Shard)
	}
	for _, shard := range p.Shards {
		size := e.number(t, "SCARD", shard)
		require.Positive(t, size)
		total += size
	}
	require.Equal(t, int64(30), total)
}

// A visitor of two buckets is one visitor.
func uniqueVisitors(t *testing.T, e target) {
	p := bindings.UniqueVisitorsParams{Current: e.key("monday"), Visitor: "a", Keep: time.Hour}
	require.Equal(t, int64(1), ask(t, e, e.UniqueVisitors, p))
	e.lives(t, p.Current, time.Hour)
	p.Current, p.Earlier = e.key("tuesday"), e.keys("monday")
	require.Equal(t, int64(1), ask(t, e, e.UniqueVisitors, p))
	p.Visitor = "b"
	require.Equal(t, int64(2), ask(t, e, e.UniqueVisitors, p))
}

// The nearest place comes first.
func geo(t *testing.T, e target) {
	e.set(t, "GEOADD", e.key("places"), "13.361389", "38.115556", "Palermo", "15.087269", "37.502669", "Catania")
	p := bindings.GeoNearbyParams{Places: e.key("places"), Longitude: 15, Latitude: 37, Radius: 200_000, Most: 5}
	r := ask(t, e, e.GeoNearby, p)
	require.Equal(t, []string{"Catania", "Palermo"}, r.Names)
	require.InDeltaSlice(t, []float64{56_441, 190_442}, r.Meters, 10)
	p.Radius = 1
	require.Empty(t, ask(t, e, e.GeoNearby, p).Names)
}

// Since when and for how long, and nothing of those who are away.
func presence(t *testing.T, e target) {
	e.set(t, "SET", e.key("on"), "1700000000000", "EX", "3600")
	r := ask(t, e, e.Presence, bindings.PresenceParams{Users: e.keys("off", "on")})
	require.Equal(t, []redislua.Null[time.Time]{{}, some(time.UnixMilli(1_700_000_000_000))}, r.Since)
	require.False(t, r.Left[0].Valid)
	require.InDelta(t, time.Hour, r.Left[1].V, float64(time.Minute))
}

// Days in a row count up to the one that is asked for.
func checkin(t *testing.T, e target) {
	for i, step := range []struct {
		day  int64
		want bindings.CheckinResult
	}{
		{0, bindings.CheckinResult{First: true, Streak: 1}},
		{2, bindings.CheckinResult{First: true, Streak: 1}},
		{1, bindings.CheckinResult{First: true, Streak: 2}},
		{2, bindings.CheckinResult{First: false, Streak: 3}},
	} {
		require.Equal(t, step.want, ask(t, e, e.Checkin,
			bindings.CheckinParams{Year: e.key("year"), Day: step.day}), i)
	}
}
