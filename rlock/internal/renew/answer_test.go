package renew_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/redislua"
	"github.com/rlock-go/toolkit/rlock/internal/clock"
	"github.com/rlock-go/toolkit/rlock/internal/renew"
	"github.com/rlock-go/toolkit/rlock/internal/terms"
	"github.com/rlock-go/toolkit/rlock/internal/wire"
)

// An answer to an extension by 20 s of a lease of 10 s, or to one by 5 s, which changes the token.
func TestTake(t *testing.T) {
	t.Parallel()
	const ttl = 10 * time.Second
	refused := wire.Extended{Err: &redislua.ParamError{}}
	silence := wire.Extended{Err: errors.New("no answer")}
	gone := wire.Extended{Lost: "job"}
	for name, c := range map[string]struct {
		by         time.Duration
		answer     wire.Extended
		ended      bool
		superseded bool
		result     renew.Result
		token      string
		lasts      time.Duration // the lease, from now on
	}{
		"done":                       {by: 2 * ttl, result: renew.Extended, token: "a", lasts: 2 * ttl},
		"done, shorter":              {by: ttl / 2, result: renew.Extended, token: "b", lasts: ttl / 2},
		"done, of a lock that ended": {by: 2 * ttl, ended: true, result: renew.Extended, token: "a", lasts: ttl},
		"done, and superseded": {by: 2 * ttl, superseded: true, result: renew.Superseded, token: "b",
			lasts: ttl / 4},
		"lost": {by: 2 * ttl, answer: gone, result: renew.Lost, token: "a", lasts: ttl},
		"lost, and superseded": {by: 2 * ttl, answer: gone, superseded: true, result: renew.Superseded,
			token: "b", lasts: ttl / 4},
		"no answer": {by: 2 * ttl, answer: silence, result: renew.Failed, token: "a", lasts: ttl},
		"no answer, shorter": {by: ttl / 2, answer: silence, result: renew.Failed, token: "b",
			lasts: ttl / 2},
		"refused":          {by: 2 * ttl, answer: refused, result: renew.Failed, token: "a", lasts: ttl},
		"refused, shorter": {by: ttl / 2, answer: refused, result: renew.Failed, token: "a", lasts: ttl},
		"refused, of one that ended": {by: ttl / 2, answer: refused, ended: true, result: renew.Failed, token: "b",
			lasts: ttl / 2},
		"refused, and superseded": {by: 2 * ttl, answer: refused, superseded: true, result: renew.Failed,
			token: "b", lasts: ttl / 4},
		"lost, of a lock that ended": {by: 2 * ttl, answer: gone, ended: true, result: renew.Lost, token: "a",
			lasts: ttl},
		"no answer, one that expired": {by: 2 * ttl, answer: silence, ended: true, result: renew.Failed, token: "a",
			lasts: ttl},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var l terms.Terms
				l.Prepare(ttl, "a")
				now := clock.Now()
				l.Start(clock.LeaseEnd(now, ttl))
				mint := func() string { return "b" }
				e := l.Begin(now, c.by, mint)
				if c.superseded {
					l.Begin(now, ttl/4, mint)
				}
				require.Equal(t, c.result, renew.Take(&l, e, c.answer, c.ended))
				require.Equal(t, c.token, l.Token())
				require.Equal(t, clock.LeaseEnd(now, c.lasts), l.Deadline())
			})
		})
	}
}
