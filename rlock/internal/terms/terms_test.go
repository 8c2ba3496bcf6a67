package terms_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/rlock/internal/clock"
	"github.com/rlock-go/toolkit/rlock/internal/terms"
)

// at is so many seconds after the acquisition was sent.
func at(seconds float64) clock.Instant {
	return clock.Instant(time.Hour + time.Duration(seconds*float64(time.Second)))
}

// minter mints t1, t2 and so on.
func minter() func() string {
	n := 0
	return func() string {
		n++
		return fmt.Sprint("t", n)
	}
}

// started is a lease of 10 seconds with the token t0, sent at 0.
func started() *terms.Terms {
	l := &terms.Terms{}
	l.Prepare(10*time.Second, "")
	l.SetToken("t0")
	l.Start(clock.LeaseEnd(at(0), 10*time.Second))
	return l
}

// end is the deadline of a lease of so many seconds that was sent at sent.
func end(sent, seconds float64) clock.Instant {
	return clock.LeaseEnd(at(sent), time.Duration(seconds*float64(time.Second)))
}

func TestDeadline(t *testing.T) {
	t.Parallel()
	type run struct {
		*terms.Terms
		mint func() string
	}
	begin := func(l run, sent, seconds float64) terms.Extension {
		return l.Begin(at(sent), time.Duration(seconds*float64(time.Second)), l.mint)
	}
	for name, test := range map[string]struct {
		events   func(l run)
		deadline clock.Instant
		token    string
		former   []string
		ttl      time.Duration
		certain  bool
	}{
		"nothing": {
			func(run) {}, end(0, 10), "t0", nil, 10 * time.Second, true,
		},
		"a longer one counts when it is confirmed": {
			func(l run) { begin(l, 1, 20) }, end(0, 10), "t0", nil, 10 * time.Second, false,
		},
		"confirmed": {
			func(l run) { l.Confirm(begin(l, 1, 20), at(2)) }, end(1, 20), "t0", nil, 20 * time.Second, true,
		},
		"confirmed, and the later one before": {
			func(l run) {
				first, second := begin(l, 1, 20), begin(l, 2, 20)
				l.Confirm(second, at(3))
				l.Confirm(first, at(4))
			}, end(2, 20), "t0", nil, 20 * time.Second, true,
		},
		"confirmed when the lease is over": {
			func(l run) { l.Confirm(begin(l, 1, 20), at(11)) }, end(0, 10), "t0", nil, 10 * time.Second, false,
		},
		"refused": {
			func(l run) { l.Refuse(begin(l, 1, 20), at(2)) }, end(0, 10), "t0", nil, 10 * time.Second, false,
		},
		"lost": {
			func(l run) { l.Forget(begin(l, 1, 20)) }, end(0, 10), "t0", nil, 10 * time.Second, false,
		},
		"without an end": {
			func(l run) {
				l.Confirm(l.Begin(at(1), clock.NoExpiry, l.mint),
					at(2))
			}, clock.Never, "t0", nil, clock.NoExpiry, true,
		},
		"a shorter one counts at once": {
			func(l run) { begin(l, 1, 2) }, end(1, 2), "t1", []string{"t0"}, 10 * time.Second, false,
		},
		"a shorter one that ends later": {
			func(l run) { begin(l, 5, 8) }, end(0, 10), "t1", []string{"t0"}, 10 * time.Second, false,
		},
		"a shorter one, confirmed": {
			func(l run) { l.Confirm(begin(l, 1, 2), at(2)) }, end(1, 2), "t1", nil, 2 * time.Second, true,
		},
		"a shorter one, refused": {
			func(l run) { l.Refuse(begin(l, 1, 2), at(2)) }, end(0, 10), "t0", nil, 10 * time.Second, true,
		},
		"a shorter one, refused when the lease is over": {
			func(l run) { l.Refuse(begin(l, 1, 2), at(4)) }, end(1, 2), "t1", []string{"t0"}, 10 * time.Second, false,
		},
		"a shorter one, lost": {
			func(l run) { l.Forget(begin(l, 1, 2)) }, end(1, 2), "t1", []string{"t0"}, 10 * time.Second, false,
		},
		"a shorter one, lost, and the next one confirmed": {
			func(l run) {
				l.Forget(begin(l, 1, 2))
				l.Confirm(begin(l, 1.5, 2), at(2))
			}, end(1.5, 2), "t1", nil, 2 * time.Second, false, // a copy of the lost one may still arrive
		},
		"a shorter one, refused behind a renewal with its token": {
			// The renewal may have given the token to the keys.
			func(l run) {
				e := begin(l, 1, 2)
				l.BeginRenewal(at(1.5), clock.NoExpiry)
				l.Refuse(e, at(2))
			}, end(1, 2), "t1", []string{"t0"}, 10 * time.Second, false,
		},
		"a shorter one, and a renewal confirms its token": {
			func(l run) {
				begin(l, 1, 2)
				l.Confirm(l.BeginRenewal(at(2), clock.NoExpiry), at(2.5))
			}, end(2, 2), "t1", nil, 10 * time.Second, false,
		},
		"a shorter one that has returned without an answer, and a renewal": {
			func(l run) {
				l.Forget(begin(l, 1, 2))
				l.Returned()
				l.Confirm(l.BeginRenewal(at(2), clock.NoExpiry), at(2.5))
			}, end(2, 10), "t1", nil, 10 * time.Second, false,
		},
		"a shorter one that is longer than renewals, and a renewal": {
			// The lease was extended to 60 s and by 40 s with an answer that came last.
			func(l run) {
				second := begin(l, 1, 40)
				l.Confirm(begin(l, 1, 60), at(2))
				l.Confirm(second, at(3))
				begin(l, 4, 50)
				if e := l.BeginRenewal(at(5), clock.NoExpiry); e.TTL < 50*time.Second {
					panic("it would cut the lease on the server to " + e.TTL.String())
				}
				l.Returned()
				if e := l.BeginRenewal(at(6), clock.NoExpiry); e.TTL < 50*time.Second {
					panic("it would cut the lease on the server to " + e.TTL.String())
				}
			}, end(4, 50), "t1", []string{"t0"}, 40 * time.Second, false,
		},
		"what a shorter one has superseded changes nothing": {
			func(l run) {
				long := begin(l, 1, 20)
				begin(l, 2, 3)
				l.Confirm(long, at(3))
			}, end(2, 3), "t1", []string{"t0"}, 10 * time.Second, false,
		},
		"two that shorten": {
			func(l run) {
				begin(l, 1, 5)
				begin(l, 2, 2)
			}, end(2, 2), "t2", []string{"t0", "t1"}, 10 * time.Second, false,
		},
		"two that shorten, the second refused": {
			func(l run) {
				begin(l, 1, 5)
				l.Refuse(begin(l, 2, 2), at(3))
			}, end(1, 5), "t1", []string{"t0"}, 10 * time.Second, false,
		},
		"two that shorten, the first confirmed": {
			func(l run) {
				first := begin(l, 1, 5)
				begin(l, 2, 2)
				l.Confirm(first, at(3))
			}, end(2, 2), "t2", []string{"t0", "t1"}, 10 * time.Second, false,
		},
		"two that shorten, the second confirmed": {
			func(l run) {
				first := begin(l, 1, 5)
				l.Confirm(begin(l, 2, 2), at(3))
				l.Refuse(first, at(3.5))
			}, end(2, 2), "t2", nil, 2 * time.Second, true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := run{started(), minter()}
			test.events(l)
			require.Equal(t, test.deadline, l.Deadline())
			require.Equal(t, test.token, l.Token())
			require.Equal(t, test.former, l.Former())
			require.Equal(t, append(test.former, test.token), l.Tokens())
			require.Equal(t, test.ttl, l.TTL())
			require.Equal(t, test.certain, l.Certain())
		})
	}
}

// An extension without an answer may have made the lease longer, for good: it may arrive after later ones.
func TestUnsure(t *testing.T) {
	t.Parallel()
	l, mint := started(), minter()
	unsure := func(want bool) { t.Helper(); require.Equal(t, want, l.Unsure()) }
	unsure(false)
	e := l.Begin(at(1), 20*time.Second, mint)
	unsure(true)
	l.Refuse(e, at(2))
	unsure(false)
	e = l.BeginRenewal(at(2), clock.NoExpiry)
	unsure(true)
	l.Confirm(e, at(3))
	unsure(false)
	short := l.Begin(at(3), time.Second, mint)
	renewal := l.BeginRenewal(at(3), clock.NoExpiry)
	l.Refuse(renewal, at(3))
	l.Refuse(short, at(3))
	require.NotEmpty(t, l.Former())
	unsure(true)
	l.Confirm(l.BeginRenewal(at(3), clock.NoExpiry), at(3.5))
	unsure(false)
	l.Forget(l.BeginRenewal(at(3.5), clock.NoExpiry))
	unsure(true)
	l.Confirm(l.BeginRenewal(at(3.5), clock.NoExpiry), at(3.6))
	unsure(true)
}

// An extension is sent with what the keys may have at that time.
func TestExtension(t *testing.T) {
	t.Parallel()
	l, mint := started(), minter()
	long := l.Begin(at(1), 20*time.Second, mint)
	require.Equal(t, "t0", long.Token)
	require.Empty(t, long.Former)
	short := l.Begin(at(2), 2*time.Second, mint)
	require.Equal(t, "t1", short.Token)
	require.Equal(t, []string{"t0"}, short.Former)
	require.True(t, l.Superseded(long))
	require.False(t, l.Superseded(short))
	renewal := l.BeginRenewal(at(2), clock.NoExpiry)
	require.Equal(t, 2*time.Second, renewal.TTL, "a longer lease could arrive when Extend has returned")
	require.Equal(t, []string{"t0"}, renewal.Former)
	l.Confirm(short, at(3))
	require.Empty(t, l.BeginRenewal(at(3), clock.NoExpiry).Former)
}

// A lease that is carried on with may have been longer or shorter than its renewals.
func TestResume(t *testing.T) {
	t.Parallel()
	for _, longest := range []time.Duration{5 * time.Second, time.Minute} {
		l := &terms.Terms{}
		l.Prepare(10*time.Second, "t0")
		l.Resume(longest, end(0, 5))
		require.Equal(t, longest, l.Longest())
		require.Equal(t, longest < 10*time.Second, l.Begin(at(1), 6*time.Second, minter()).Token == "t0")
	}
}

func TestLost(t *testing.T) {
	t.Parallel()
	l, mint := started(), minter()
	lost := func(owner string, v terms.Version, is, again bool) {
		t.Helper()
		gotIs, gotAgain := l.Lost(owner, v)
		require.Equal(t, [2]bool{is, again}, [2]bool{gotIs, gotAgain})
	}
	v := l.Version()
	lost("t0", v, false, false)
	lost("", v, true, false)
	lost("foreign", v, true, false)

	e := l.Begin(at(1), time.Second, mint)
	lost("t0", v, false, false)
	lost("t1", v, false, false)
	lost("foreign", v, false, true) // the answer may be older than the token
	lost("foreign", l.Version(), true, false)

	v = l.Version()
	l.Confirm(e, at(1.5))
	lost("t0", v, false, true) // it was read before the key got t1
	lost("t0", l.Version(), true, false)

	v = l.Version()
	l.Refuse(l.Begin(at(1.6), time.Second/2, mint), at(1.7))
	lost("t2", v, false, true)
	lost("t2", l.Version(), true, false)
}

func TestShortened(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		left     float64
		events   func(l *terms.Terms, v terms.Version) terms.Version
		verdict  terms.Verdict
		deadline clock.Instant
	}{
		"all is left":   {9, nil, terms.Unharmed, end(0, 10)},
		"less is left":  {3, nil, terms.Settled, end(1, 3)},
		"nothing is":    {0, nil, terms.Settled, end(1, 0)},
		"a slow answer": {8.95, nil, terms.Unharmed, end(1, 8.95)},
		"out of date": {3, func(l *terms.Terms, v terms.Version) terms.Version {
			l.BeginRenewal(at(1), clock.NoExpiry)
			return v
		}, terms.Settled, end(0, 10)},
		"beside others": {3, func(l *terms.Terms, _ terms.Version) terms.Version {
			l.BeginRenewal(at(0.5), clock.NoExpiry)
			return l.Version()
		}, terms.Unsettled, end(0, 10)},
		"after a lost one": {3, func(l *terms.Terms, _ terms.Version) terms.Version {
			l.Forget(l.BeginRenewal(at(0.5), clock.NoExpiry))
			return l.Version()
		}, terms.Settled, end(1, 3)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := started()
			v := l.Version()
			if test.events != nil {
				v = test.events(l, v)
			}
			require.Equal(t, test.verdict,
				l.Shortened(v, time.Duration(test.left*float64(time.Second)), at(1), at(1.1)))
			require.Equal(t, test.deadline, l.Deadline())
		})
	}
}

func TestNextRenewal(t *testing.T) {
	t.Parallel()
	l, mint := started(), minter()
	require.InDelta(t, float64(at(10./3)), float64(l.NextRenewal(at(0))), float64(10*time.Millisecond))
	l.Forget(l.Begin(at(1), 3*time.Second, mint))
	require.InDelta(t, float64(at(2)), float64(l.NextRenewal(at(1))), float64(10*time.Millisecond),
		"the deadline has come nearer")
	require.Equal(t, at(9), l.NextRenewal(at(9)), "it is over")
	l.Confirm(l.Begin(at(2), clock.NoExpiry, mint), at(3))
	require.Equal(t, clock.Never, l.NextRenewal(at(2)))
}
