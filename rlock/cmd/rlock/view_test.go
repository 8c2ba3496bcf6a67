package main

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/rlock"
	"github.com/rlock-go/toolkit/rlock/rlockadmin"
)

// heldBy is a lock that one holder has.
func heldBy(owner string, left time.Duration, waiters ...string) rlockadmin.State {
	state := rlockadmin.State{
		Key: "backup", Mode: rlockadmin.Exclusive, Remaining: left,
		Holders: []rlockadmin.Holder{{Owner: owner, Remaining: left}},
	}
	for _, w := range waiters {
		state.Waiters = append(state.Waiters, rlockadmin.Waiter{Owner: w})
	}
	return state
}

func TestLineOfWaiting(t *testing.T) {
	t.Parallel()
	const pod = "web-3 pid 4711 rlock: pg_dump"
	full := view{
		want: "backup", waited: 62*time.Second + 1, patience: 5 * time.Minute,
		state: heldBy(pod, 29*time.Second, "", "", ""), place: 2, held: 42 * time.Second, extended: true,
	}
	change := func(how func(*view)) view {
		v := full
		how(&v)
		return v
	}
	readers := heldBy("a", time.Minute)
	readers.Mode, readers.Holders = rlockadmin.Readers, append(readers.Holders, rlockadmin.Holder{Owner: "b"})
	for name, c := range map[string]struct {
		view  view
		width int
		want  string
	}{
		"all of it": {full, 199, "waiting for backup, 1m2s of 5m, place 2/3; " +
			"held by web-3 pid 4711 rlock: pg_dump, 29s left, extended, for over 42s"},
		"without what goes without saying": {full, 100, "backup, 1m2s of 5m, place 2/3; " +
			"by web-3 pid 4711 rlock: pg_dump, 29s left, extended"},
		"with less of the owner": {full, 79, "backup, 1m2s of 5m, place 2/3; " +
			"by web-3 pid 4711 rlock: ..., 29s left, extended"},
		"cut":            {full, 50, "backup, 1m2s of 5m, place 2/3; by web-3 ..., 29..."},
		"only the key":   {full, 12, "backup, 1..."},
		"nearly nothing": {full, 5, "ba..."},
		"no room":        {full, 2, ".."},
		"none":           {full, 0, ""},
		"below none":     {full, -1, ""},
		"wide letters, which may need two columns": {
			change(func(v *view) { v.want = "日本語" }), 20, "日本語, 1m2s of 5...",
		},
		"a long key": {
			change(func(v *view) {
				v.want, v.state = strings.Repeat("k", 90), heldBy("me", time.Second, "a", "b")
			}), 100,
			strings.Repeat("k", 48) + "..., 1m2s of 5m, place 2/2; by me, 1s left, extended",
		},
		"for ever": {
			change(func(v *view) { v.patience = 0 }), 50, "backup, 1m2s, place 2/3; by web-3 ..., 29s left...",
		},
		"no place": {
			change(func(v *view) { v.place, v.extended, v.held = 0, false, 0 }), 199,
			"waiting for backup, 1m2s of 5m, 3 waiting; held by " + pod + ", 29s left",
		},
		"no owner, no end": {
			change(func(v *view) { v.state, v.place, v.extended = heldBy("", rlock.NoExpiry), 0, false }), 199,
			"waiting for backup, 1m2s of 5m; held, never expires, for over 42s",
		},
		"free": {view{want: "backup"}, 199, "waiting for backup, 0s"},
		"readers": {
			view{want: "a share of backup", state: readers}, 199,
			"waiting for a share of backup, 0s; in use: 2 readers: a, b, 1m0s left",
		},
		"silence": {
			change(func(v *view) { v.silent = 5 * time.Second }), 199,
			"waiting for backup, 1m2s of 5m; the server has not answered for 5s",
		},
	} {
		got := c.view.line(c.width)
		require.LessOrEqual(t, columns(got), max(c.width, 0), name)
		require.Equal(t, c.want, got, name)
	}
	for width := range 200 {
		require.LessOrEqual(t, columns(full.line(width)), width)
	}
}

func TestPlace(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		owner   string
		waiters []string
		want    int
	}{
		"alone":            {"me", []string{"me"}, 1},
		"behind":           {"me", []string{"a", "me"}, 2},
		"two of that name": {"me", []string{"me", "me"}, 0},
		"nobody":           {"me", nil, 0},
		"no name":          {"", []string{""}, 0},
	} {
		require.Equal(t, c.want, placeOf(c.owner, heldBy("h", time.Second, c.waiters...)), name)
	}
}

// A lease counts as extended only if its end has moved for certain, however late an answer came.
func TestExtendedIsCertain(t *testing.T) {
	t.Parallel()
	type look struct{ after, trip, left time.Duration }
	const s = time.Second
	for name, c := range map[string]struct {
		looks []look
		want  bool
	}{
		"it runs down":         {[]look{{0, 0, 10 * s}, {s, 0, 9 * s}}, false},
		"a late first answer":  {[]look{{0, 3 * s, 7 * s}, {s, 0, 9 * s}}, false},
		"a late second answer": {[]look{{0, 0, 10 * s}, {s, 4 * s, 9 * s}}, false},
		"extended":             {[]look{{0, 0, 3 * s}, {s, 0, 10 * s}}, true},
		"and stays so":         {[]look{{0, 0, 3 * s}, {s, 0, 10 * s}, {s, 0, 9 * s}}, true},
		"never ends":           {[]look{{0, 0, rlock.NoExpiry}, {s, 0, rlock.NoExpiry}}, false},
		"ends no more":         {[]look{{0, 0, 10 * s}, {s, 0, rlock.NoExpiry}}, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := &watcher{program: &program{}, style: live, keys: []string{"backup"}, want: quote}
			for _, l := range c.looks {
				time.Sleep(l.after)
				sent := time.Now()
				time.Sleep(l.trip)
				w.take(answer{state: heldBy("h", l.left), sent: sent})
			}
			require.Equal(t, c.want, w.extended, name)
			time.Sleep(time.Hour) // rlock was suspended
			for range 2 {
				w.ask(time.Now())
				require.Zero(t, w.view(time.Now()).silent)
				time.Sleep(patienceToAnswer - 1)
				w.take(answer{err: &exit{exitFailed, rlock.ErrNoAnswer}})
				w.ask(time.Now())
				time.Sleep(time.Second)
				require.Equal(t, patienceToAnswer+time.Second-1, w.view(time.Now()).silent)
				w.take(answer{state: heldBy("h", time.Minute), sent: time.Now()})
			}
			w.ask(time.Now())
			time.Sleep(patienceToAnswer)
			w.take(answer{err: errors.New("NOPERM")})
			require.Zero(t, w.view(time.Now()).silent)
		})
	}
}

// Of a set, the line tells of the key that is held.
func TestKeyInTheWay(t *testing.T) {
	t.Parallel()
	w := &watcher{program: &program{}, style: live, keys: []string{"a", "b", "backup"}, want: quote}
	w.start = time.Now()
	for range 2 {
		w.take(answer{state: rlockadmin.State{Key: w.keys[w.key]}, sent: time.Now()})
	}
	for range 2 {
		w.take(answer{state: heldBy("h", time.Minute), sent: time.Now()})
		require.Contains(t, w.view(time.Now()).line(99), "for backup, 0s; held by h")
	}
}

func TestStyle(t *testing.T) {
	t.Parallel()
	p := &program{stderr: new(strings.Builder), getenv: func(string) string { return "xterm" }}
	require.Equal(t, mute, p.style(&waiting{}))
	p.verbose = true
	require.Equal(t, once, p.style(&waiting{}))
	require.Equal(t, mute, p.style(&waiting{none: true}))
	p.json = true
	require.Equal(t, once, p.style(&waiting{}))
}

func TestTable(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("k", 90)
	table := &table{head: []string{"KEY", "LEFT", "OWNER", "WAITING"}, rows: [][]string{
		{"job:1", "29s", "web-3", "2"},
		{"schlüssel", "never expires", "", ""},
		{long, "1.5s", strings.Repeat("o", 50), "1"},
	}}
	require.Equal(t, `KEY        LEFT           OWNER  WAITING
job:1      29s            web-3  2
schlüssel  never expires
`+long+`
           1.5s           `+strings.Repeat("o", 50)+`  1
`, table.text(80))
	wide := table.text(300)
	require.Contains(t, wide, "\n"+long+"  1.5s           "+strings.Repeat("o", 50)+"  1\n")
	require.Contains(t, wide,
		"\njob:1"+strings.Repeat(" ", 85)+"  29s            web-3"+strings.Repeat(" ", 45)+"  2\n")
	table.rows = nil
	require.Empty(t, table.text(80))
}
