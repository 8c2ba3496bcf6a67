package corpus_test

import (
	"encoding/json"
	"math"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/redislua"
	"github.com/rlock-go/toolkit/rlock_test/corpus/bindings"
)

// One try does the work; the others wait for its receipt, or for its end.
func idempotency(t *testing.T, e target) {
	begin := bindings.IdempotencyBeginParams{Operation: e.key("op"), Owner: "a", GiveUp: time.Hour}
	started := bindings.IdempotencyBeginResult{Started: true}
	require.Equal(t, started, ask(t, e, e.IdempotencyBegin, begin))
	require.Equal(t, started, ask(t, e, e.IdempotencyBegin, begin), "repeated after a lost reply")
	e.lives(t, begin.Operation, time.Hour)
	begin.Owner = "b"
	require.Equal(t, bindings.IdempotencyBeginResult{}, ask(t, e, e.IdempotencyBegin, begin))

	receipt := bindings.Receipt{Number: "R-1", Cents: math.MaxInt64}
	finish := bindings.IdempotencyFinishParams{Operation: e.key("op"), Owner: "b", Receipt: receipt,
		Keep: 24 * time.Hour}
	require.ErrorIs(t, e.IdempotencyFinish(t.Context(), e.client, finish), bindings.ErrNotOwner)
	finish.Owner = "a"
	tell(t, e, e.IdempotencyFinish, finish)
	e.lives(t, finish.Operation, 24*time.Hour)
	require.Equal(t, bindings.IdempotencyBeginResult{Receipt: some(receipt)},
		ask(t, e, e.IdempotencyBegin, begin))
}

// Only the first addition starts the clock.
func counter(t *testing.T, e target) {
	p := bindings.CounterAddParams{Counter: e.key("counter"), By: 5}
	require.Equal(t, int64(5), ask(t, e, e.CounterAdd, p))
	require.Equal(t, int64(-1), e.number(t, "PTTL", p.Counter))
	p.By, p.Keep = -7, time.Hour
	require.Equal(t, int64(-2), ask(t, e, e.CounterAdd, p))
	p.Keep = 2 * time.Hour
	require.Equal(t, int64(-9), ask(t, e, e.CounterAdd, p))
	e.lives(t, p.Counter, time.Hour)
}

// Each field counts by itself.
func counters(t *testing.T, e target) {
	p := bindings.CountersBumpParams{Hits: e.key("hits"), Fields: []string{"a", "b"}}
	require.Equal(t, map[string]int64{"a": 1, "b": 1}, ask(t, e, e.CountersBump, p))
	p.Fields = []string{"b"}
	require.Equal(t, map[string]int64{"b": 2}, ask(t, e, e.CountersBump, p))
	p.Fields = nil
	require.Empty(t, ask(t, e, e.CountersBump, p))
}

// A session lives as long as it is used, and no longer than it may.
func session(t *testing.T, e target) {
	touch := bindings.SessionTouchParams{Session: e.key("session")}
	refused(t, e, bindings.ErrNoSession, e.SessionTouch, touch)

	now := time.Now().Truncate(time.Millisecond)
	open := bindings.SessionOpenParams{Session: touch.Session, User: "u", At: now, Idle: time.Hour}
	tell(t, e, e.SessionOpen, open)
	e.lives(t, open.Session, time.Hour)
	e.set(t, "HSET", open.Session, "theme", "dark")
	e.set(t, "PEXPIRE", touch.Session, "60000")
	r := ask(t, e, e.SessionTouch, touch)
	require.Equal(t, "u", r.Fields["user"])
	require.Equal(t, "dark", r.Fields["theme"])
	require.Empty(t, r.Fields["until"])
	require.WithinDuration(t, now.Add(time.Hour), r.Ends, time.Minute)

	open.Until = now.Add(30 * time.Minute)
	tell(t, e, e.SessionOpen, open)
	e.lives(t, open.Session, 30*time.Minute)
	r = ask(t, e, e.SessionTouch, touch)
	require.True(t, open.Until.Equal(r.Ends))
	require.NotContains(t, r.Fields, "theme", "it was opened anew")
}

// An order takes all that it asks for, or nothing.
func inventory(t *testing.T, e target) {
	stock := e.keys("apples", "pears")
	e.set(t, "SET", stock[0], "5")
	e.set(t, "SET", stock[1], "1")
	p := bindings.InventoryReserveParams{Stock: stock, Wanted: []int64{2, 1}}
	require.Equal(t, []int64{3, 0}, ask(t, e, e.InventoryReserve, p))
	for _, test := range []struct {
		stock  []string
		wanted []int64
		err    error
	}{
		{stock, []int64{1, 1}, bindings.ErrNoStock},
		{e.keys("plums"), []int64{1}, bindings.ErrNoStock},
		{stock, []int64{1}, bindings.ErrBadOrder},
		{stock, []int64{1, -1}, bindings.ErrBadOrder},
	} {
		refused(t, e, test.err, e.InventoryReserve,
			bindings.InventoryReserveParams{Stock: test.stock, Wanted: test.wanted})
	}

	report := ask(t, e, e.StockReport, bindings.StockReportParams{Stock: append(stock, e.key("plums"))})
	require.Equal(t, []redislua.Null[int64]{some(int64(3)), some(int64(0)), {}}, report.Counts)
	require.Equal(t, int64(2), report.Known)
}

// What one account loses the other gains; a refused transfer moves nothing.
func transfer(t *testing.T, e target) {
	from, to := e.key("from"), e.key("to")
	e.set(t, "SET", from, "100")
	e.set(t, "SET", to, "0")
	p := bindings.TransferParams{From: from, To: to, Amount: 60}
	require.Equal(t, bindings.TransferResult{FromBalance: 40, ToBalance: 60}, ask(t, e, e.Transfer, p))
	for want, p := range map[error]bindings.TransferParams{
		bindings.ErrNoFunds:   {From: from, To: to, Amount: 41},
		bindings.ErrNoAccount: {From: from, To: e.key("nobody"), Amount: 1},
		bindings.ErrBadAmount: {From: from, To: to, Amount: -1},
	} {
		refused(t, e, want, e.Transfer, p)
	}
	require.Equal(t, int64(40), e.number(t, "GET", from))
}

// Ranges follow each other without overlap, and numbers start anew each day.
func numbers(t *testing.T, e target) {
	p := bindings.IDRangeParams{Sequence: e.key("sequence"), Size: 100}
	require.Equal(t, bindings.IDRangeResult{First: 1, Last: 100}, ask(t, e, e.IDRange, p))
	require.Equal(t, bindings.IDRangeResult{First: 101, Last: 200}, ask(t, e, e.IDRange, p))
	p.Size = 1<<53 - 200
	require.Equal(t, bindings.IDRangeResult{First: 201, Last: 1 << 53}, ask(t, e, e.IDRange, p),
		"exact to the end")

	for _, step := range [][2]string{{"20240131", "20240131-0001"}, {"20240131", "20240131-0002"},
		{"20240201", "20240201-0001"}} {
		require.Equal(t, step[1], ask(t, e, e.DailyNumber,
			bindings.DailyNumberParams{Prefix: e.key("invoice"), Day: step[0]}))
	}
	e.lives(t, e.key("invoice:20240131"), 48*time.Hour)
}

// A swap needs the value that was read.
func swap(t *testing.T, e target) {
	p := bindings.SwapIfParams{Value: e.key("value"), Before: []byte("a"), After: []byte{0xff, 0}}
	require.Equal(t, bindings.SwapIfResult{}, ask(t, e, e.SwapIf, p))
	e.set(t, "SET", p.Value, "a", "EX", "100")
	require.Equal(t, bindings.SwapIfResult{Swapped: true, Present: some([]byte{0xff, 0})},
		ask(t, e, e.SwapIf, p))
	require.Equal(t, bindings.SwapIfResult{Present: some([]byte{0xff, 0})}, ask(t, e, e.SwapIf, p))
	require.Positive(t, e.number(t, "PTTL", p.Value), "it keeps its lease")
}

// Whatever is in the key, a wrong value has one name.
func safeIncrement(t *testing.T, e target) {
	p := bindings.SafeIncrementParams{Counter: e.key("counter"), By: 0.1}
	require.InDelta(t, 0.1, ask(t, e, e.SafeIncrement, p), 1e-15)
	p.By = -1e-3
	require.InDelta(t, 0.099, ask(t, e, e.SafeIncrement, p), 1e-15)

	e.set(t, "SET", p.Counter, "many")
	refused(t, e, bindings.ErrNotANumber, e.SafeIncrement, p)
	e.set(t, "RPUSH", e.key("list"), "x")
	p.Counter = e.key("list")
	refused(t, e, bindings.ErrNotANumber, e.SafeIncrement, p)
}

// Doubles pass both ways with all their digits.
func mean(t *testing.T, e target) {
	p := bindings.MeanAddParams{Series: e.key("series"), Value: math.Pi}
	require.Equal(t, bindings.MeanAddResult{Count: 1, Mean: math.Pi, Least: math.Pi, Most: math.Pi},
		ask(t, e, e.MeanAdd, p))
	p.Value = -math.Pi
	require.Equal(t, bindings.MeanAddResult{Count: 2, Mean: 0, Least: -math.Pi, Most: math.Pi},
		ask(t, e, e.MeanAdd, p))
}

// Quantities add up, and a cart without items is a cart.
func cart(t *testing.T, e target) {
	p := bindings.CartMergeParams{Cart: e.key("cart")}
	require.Equal(t, bindings.Cart{Items: map[string]int{}}, ask(t, e, e.CartMerge, p))
	p.Guest.Items = map[string]int{"pear": 1, "plum": 2}
	ask(t, e, e.CartMerge, p)
	p.Guest.Items = map[string]int{"plum": 3}
	require.Equal(t, map[string]int{"pear": 1, "plum": 5}, ask(t, e, e.CartMerge, p).Items)

	e.set(t, "SET", p.Cart, `{"items":{"pear":"one"}}`)
	_, err := e.CartMerge(t.Context(), e.client, p)
	var wrong *redislua.ReplyError
	require.ErrorAs(t, err, &wrong, "a text is no quantity")
}

// A null removes a field, anything else sets it.
func document(t *testing.T, e target) {
	p := bindings.DocumentPatchParams{Document: e.key("document"),
		Patch: map[string]any{"a": 1, "b": []string{"x"}}}
	require.JSONEq(t, `{"a":1,"b":["x"]}`, string(ask(t, e, e.DocumentPatch, p)))
	p.Patch = json.RawMessage(`{"a":null,"c":{"d":true}}`)
	require.JSONEq(t, `{"b":["x"],"c":{"d":true}}`, string(ask(t, e, e.DocumentPatch, p)))

	p.Patch = make(chan int)
	_, err := e.DocumentPatch(t.Context(), e.client, p)
	var wrong *redislua.ParamError
	require.ErrorAs(t, err, &wrong)
	require.Equal(t, "patch", wrong.Param)
}

// The latest events stay, the oldest first.
func eventHistory(t *testing.T, e target) {
	at := time.UnixMilli(1_700_000_000_123)
	p := bindings.EventPackParams{History: e.key("history"), Most: 2, At: at}
	for _, p.Kind = range []string{"a", "b"} {
		ask(t, e, e.EventPack, p)
	}
	p.Kind = "c"
	require.Equal(t, []bindings.Event{{Kind: "b", At: at.UnixMilli()}, {Kind: "c", At: at.UnixMilli()}},
		ask(t, e, e.EventPack, p))
}

// A right that is withdrawn is gone, even if it is granted in the same call.
func rights(t *testing.T, e target) {
	p := bindings.RightsGrantParams{Rights: e.key("rights"), Grant: 0b0110, Wanted: 0b0110}
	require.Equal(t, bindings.RightsGrantResult{Has: 0b0110, All: true}, ask(t, e, e.RightsGrant, p))
	p.Grant, p.Withdraw = 0b0001, 0b0011
	require.Equal(t, bindings.RightsGrantResult{Has: 0b0100}, ask(t, e, e.RightsGrant, p))
}

// A ban holds until its end; who is admitted is remembered.
func addressAdmission(t *testing.T, e target) {
	now := time.UnixMilli(1_700_000_000_000)
	good, bad := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("2001:db8::1")
	e.set(t, "HSET", e.key("bans"), `"2001:db8::1"`, "1700000000001")
	p := bindings.AddressAdmitParams{Bans: e.key("bans"), Recent: e.key("recent"), Address: good, Now: now}
	require.Equal(t, []netip.Addr{good}, ask(t, e, e.AddressAdmit, p).Recent)
	p.Address = bad
	r := ask(t, e, e.AddressAdmit, p)
	require.True(t, r.BannedUntil.Valid)
	require.True(t, r.BannedUntil.V.Equal(now.Add(time.Millisecond)))
	require.Empty(t, r.Recent)
	p.Now = now.Add(time.Millisecond)
	require.Equal(t, bindings.AddressAdmitResult{Recent: []netip.Addr{bad, good}}, ask(t, e, e.AddressAdmit, p))
	for range 9 {
		ask(t, e, e.AddressAdmit, p)
	}
	require.NotContains(t, ask(t, e, e.AddressAdmit, p).Recent, good, "ten are remembered")
}
