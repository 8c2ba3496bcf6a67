package corpus_test

import (
	"context"
	"math"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/redislua"
	"github.com/rlock-go/toolkit/rlock_test/corpus/bindings"
)

// Pairs come as a flat list or as a list of pairs, and mean the same. A reply that is
// not there, and a list in it that is not, are told from empty ones.
func board(t *testing.T, e target) {
	board := e.key("board")
	e.set(t, "ZADD", board, "1.5", "ann", "3", "bob", "2", "cid")

	flat := ask(t, e, e.BoardTop, bindings.BoardTopParams{Board: board, Last: 1})
	require.Equal(t, []bindings.BoardTopItem{{Member: "bob", Score: 3}, {Member: "cid", Score: 2}}, flat)
	pairs := ask(t, e, e.BoardTopPairs, bindings.BoardTopPairsParams{Board: board, Last: 1})
	require.Equal(t, []bindings.BoardTopPairsItem{{Member: "bob", Score: 3}, {Member: "cid", Score: 2}}, pairs)

	pop := bindings.BoardPopParams{Board: board}
	require.Equal(t,
		some(bindings.BoardPopResult{Member: "ann", Score: 1.5, Others: some([]string{"cid", "bob"})}),
		ask(t, e, e.BoardPop, pop))
	ask(t, e, e.BoardPop, pop)
	require.Equal(t, some(bindings.BoardPopResult{Member: "bob", Score: 3}), ask(t, e, e.BoardPop, pop))
	require.Equal(t, redislua.Null[bindings.BoardPopResult]{}, ask(t, e, e.BoardPop, pop))
	require.Empty(t, ask(t, e, e.BoardTop, bindings.BoardTopParams{Board: board}))
	require.Empty(t, ask(t, e, e.BoardTopPairs, bindings.BoardTopPairsParams{Board: board}))
}

// A raw reply is the message as it came.
func anything(t *testing.T, e target) {
	p := bindings.AnythingParams{Any: e.key("any")}
	none := ask(t, e, e.Anything, p)
	require.True(t, none.IsNil())
	e.set(t, "SET", p.Any, "text")
	text := ask(t, e, e.Anything, p)
	require.True(t, text.IsString())
	e.set(t, "DEL", p.Any)
	e.set(t, "HSET", p.Any, "field", "value")
	hash := ask(t, e, e.Anything, p)
	fields, err := hash.AsStrMap()
	require.NoError(t, err)
	require.Equal(t, map[string]string{"field": "value"}, fields)
	e.set(t, "DEL", p.Any)
	e.set(t, "RPUSH", p.Any, "a", "b")
	length := ask(t, e, e.Anything, p)
	n, err := length.ToInt64()
	require.NoError(t, err)
	require.Equal(t, int64(2), n)
}

// Numbers go out so that commands for integers take them, and values are read back as
// they were sent, absent ones included. What no script can use is not sent.
func values(t *testing.T, e target) {
	store := bindings.ValuesStoreParams{
		Whole: e.key("whole"), Broken: e.key("broken"), Record: e.key("record"), By: 1e6, Part: 0.5, Seconds: 1e6,
	}
	require.Equal(t, bindings.ValuesStoreResult{Whole: 1_000_000, Broken: 0.5}, ask(t, e, e.ValuesStore, store))
	e.lives(t, store.Whole, 1_000_000*time.Second)
	fetch := bindings.ValuesFetchParams{Record: store.Record}
	require.Equal(t, bindings.ValuesFetchResult{}, ask(t, e, e.ValuesFetch, fetch))

	store.By, store.Part = 0, 1e15
	store.Flag, store.Lease, store.At = true, 90*time.Second, time.UnixMilli(1_700_000_000_123)
	require.Equal(t, bindings.ValuesStoreResult{Whole: 1_000_000, Broken: 1e15 + 0.5},
		ask(t, e, e.ValuesStore, store))
	require.Equal(t, bindings.ValuesFetchResult{Flag: true, Lease: some(store.Lease), At: some(store.At)},
		ask(t, e, e.ValuesFetch, fetch))

	for param, spoil := range map[string]func(*bindings.ValuesStoreParams){
		"part":   func(p *bindings.ValuesStoreParams) { p.Part = math.Inf(-1) },
		"record": func(p *bindings.ValuesStoreParams) { p.Record = "" },
	} {
		p := store
		spoil(&p)
		_, err := e.ValuesStore(t.Context(), e.client, p)
		var wrong *redislua.ParamError
		require.ErrorAs(t, err, &wrong)
		require.Equal(t, param, wrong.Param)
	}
	require.Equal(t, "1000000", e.text(t, "GET", store.Whole))
	var wrong *redislua.ParamError
	_, err := e.ReadFlagCached(t.Context(), e.client, bindings.ReadFlagParams{}, time.Minute) // by a bare GET
	require.ErrorAs(t, err, &wrong)
	require.ErrorAs(t, e.TagAllBatch(t.Context(), e.client,
		[]bindings.TagAllParams{{Members: []string{"x"}}})[0].Err, &wrong)
}

// A call tells by the command that it chooses, on the channels that it gives.
func announce(t *testing.T, e target) {
	p := bindings.AnnounceParams{Count: e.key("count"), Channel: e.key("channel"),
		How: bindings.AnnounceHowPublish, Text: "x", Copy: e.key("copy")}
	ctx, stop := context.WithTimeout(t.Context(), 30*time.Second)
	defer stop()
	heard := map[string]chan string{}
	for name, subscribe := range map[string]rueidis.Completed{
		"plain":   e.client.B().Subscribe().Channel(p.Channel).Build(),
		"copy":    e.client.B().Subscribe().Channel(p.Copy).Build(),
		"sharded": e.client.B().Ssubscribe().Channel(p.Channel).Build(),
	} {
		messages := make(chan string, 1000)
		heard[name] = messages
		go func() {
			_ = e.client.Receive(ctx, subscribe,
				func(m rueidis.PubSubMessage) { messages <- m.Message })
		}()
	}
	until := func(names ...string) {
		t.Helper()
		for _, name := range names {
			for len(heard[name]) == 0 {
				require.NoError(t, ctx.Err(), "%s hears nothing", name)
				ask(t, e, e.Announce, p)
				time.Sleep(time.Millisecond) // the subscription may take a while
			}
		}
	}
	until("plain", "copy")
	require.Empty(t, heard["sharded"])
	p.How, p.Copy = bindings.AnnounceHowSpublish, ""
	until("sharded")

	p.How = "SHOUT"
	_, err := e.Announce(t.Context(), e.client, p)
	require.EqualError(t, err, `bindings: Announce: how: "SHOUT" is not one of ["publish" "spublish"]`)
	p.How, p.Channel = bindings.AnnounceHowPublish, ""
	_, err = e.Announce(t.Context(), e.client, p)
	require.EqualError(t, err, "bindings: Announce: channel: it is an empty key; give its name")
}
