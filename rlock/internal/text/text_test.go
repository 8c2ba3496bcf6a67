package text_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/rlock/internal/clock"
	"github.com/rlock-go/toolkit/rlock/internal/text"
)

func TestQuote(t *testing.T) {
	t.Parallel()
	k80 := strings.Repeat("k", 80)
	for key, want := range map[string]struct{ quoted, plain string }{
		"":         {`""`, ``},
		"job":      {`"job"`, `job`},
		"a job":    {`"a job"`, `a job`},
		`"job"`:    {`"\"job\""`, `"\"job\""`},
		"\xff\n":   {`"\xff\n"`, `"\xff\n"`},
		k80:        {`"` + k80 + `"`, k80},
		k80 + "k":  {`"` + k80 + `"…`, `"` + k80 + `"…`},
		"…" + k80:  {`"…` + k80[:77] + `"…`, `"…` + k80[:77] + `"…`},
		`back\key`: {`"back\\key"`, `"back\\key"`},
	} {
		require.Equal(t, want.quoted, text.Quote(key), key)
		require.Equal(t, want.plain, text.Plain(key), key)
	}
}

func TestKeys(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		n            int
		fence        uint64
		text, logged string
	}{
		"one":                {1, 0, `"job"`, `key=job`},
		"one with a fence":   {1, 7, `"job", fence 7`, `key=job fence=7`},
		"three with a fence": {3, 7, `"job" and 2 more, fence 7`, `key=job keys=3 fence=7`},
		"three without one":  {3, 0, `"job" and 2 more`, `key=job keys=3`},
	} {
		require.Equal(t, c.text, text.Keys("job", c.n, c.fence), name)
		require.Equal(t, c.logged, logged(text.KeysAttrs("job", c.n, c.fence)...), name)
	}
}

func TestHolder(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		held, shared bool
		owner        string
		remaining    time.Duration
		text, logged string
	}{
		"free": {false, false, "", 0, `lock "job": free`, `key=job held=false`},
		"held": {true, false, "", 1500600 * time.Microsecond, `lock "job": held, 1.501s left`,
			`key=job held=true remaining=1.5006s`},
		"with an owner": {true, false, "web-3", time.Second, `lock "job": held by "web-3", 1s left`,
			`key=job held=true owner=web-3 remaining=1s`},
		"without an end": {true, false, "", clock.NoExpiry, `lock "job": held, never expires`,
			`key=job held=true remaining="never expires"`},
		"shared": {
			true, true, "", time.Second, `lock "job": shared, 1s left`,
			`key=job held=true shared=true remaining=1s`,
		},
	} {
		require.Equal(t, c.text, text.Holder("job", c.held, c.shared, c.owner, c.remaining), name)
		require.Equal(t, c.logged, logged(text.HolderAttrs("job", c.held, c.shared, c.owner, c.remaining)...), name)
	}
}

func TestOwnShare(t *testing.T) {
	t.Parallel()
	require.Equal(t, "a reader's share", text.OwnShare(1, 0))
	require.Equal(t, "1 of 1 permit", text.OwnShare(1, 1))
}

// Errors are told without what no caller has asked for.
func TestCause(t *testing.T) {
	t.Parallel()
	for given, want := range map[string]string{
		"rlock: gave up waiting": "gave up waiting",
		"gen: Join: NOPERM no":   "NOPERM no",
		"the server cannot serve yet, for 1s now: gen: AcquireAll: LOADING later": "the server cannot serve yet, " +
			"for 1s now: LOADING later",
		"ERR no such oxygen: pressure": "ERR no such oxygen: pressure",
	} {
		require.Equal(t, want, text.Cause(errors.New(given)))
	}
}

func TestTTL(t *testing.T) {
	t.Parallel()
	require.Equal(t, "1m30s", text.TTL(90*time.Second))
	require.Equal(t, "NoExpiry", text.TTL(clock.NoExpiry))
}

func TestDurationAttr(t *testing.T) {
	t.Parallel()
	require.Equal(t, "left=1.5s", logged(text.DurationAttr("left", 1500*time.Millisecond)))
	require.Equal(t, `left="never expires"`, logged(text.DurationAttr("left", clock.NoExpiry)))
}

// logged returns what slog writes of attributes.
func logged(attrs ...slog.Attr) string {
	var b bytes.Buffer
	slog.New(slog.NewTextHandler(&b, nil)).LogAttrs(context.Background(), slog.LevelInfo, "", attrs...)
	_, line, _ := strings.Cut(b.String(), `msg="" `)
	return strings.TrimSpace(line)
}

// What failed is told with the facts that are known.
func TestFailure(t *testing.T) {
	t.Parallel()
	err := errors.New("rlock: gave up waiting")
	for want, got := range map[string]string{
		`rlock: acquire "job": gave up waiting`: text.Failure("acquire", "job", err, "",
			""),
		`rlock: acquire "a b": gave up waiting (after 1 attempt)`: text.Failure("acquire", "a b", err,
			text.Effort(1, 400*time.Microsecond, true), ""),
		`rlock: acquire "job": gave up waiting (after 2 attempts in 3ms)`: text.Failure("acquire", "job", err,
			text.Effort(2, 3*time.Millisecond, false)),
		`rlock: acquire "job": gave up waiting (after 1s; the holder's lease ends in 1ms)`: text.Failure("acquire",
			"job", err,
			text.Effort(0, time.Second, true), text.HeldBy(false, time.Microsecond)),
		`rlock: acquire "job": gave up waiting (the holder's lease never expires)`: text.Failure("acquire", "job",
			err,
			text.Effort(0, time.Second, false), text.HeldBy(false, clock.NoExpiry)),
		`rlock: extend "job": EOF`: text.Failure("extend", "job", io.EOF),
	} {
		require.Equal(t, want, got)
	}
}
