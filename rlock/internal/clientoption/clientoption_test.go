package clientoption_test

import (
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/rlock/internal/clientoption"
	"github.com/rlock-go/toolkit/rlock/internal/clock"
	"github.com/rlock-go/toolkit/rlock/internal/renew"
	"github.com/rlock-go/toolkit/rlock/internal/terms"
)

// What the user has set stays, and the rest fits the lease.
func TestComplete(t *testing.T) {
	t.Parallel()
	const second = time.Second
	for name, c := range map[string]struct {
		ttl                    time.Duration
		keepAlive, timeOut     time.Duration // of the user
		ping, answer, shortest time.Duration
		fits                   bool
	}{
		"the default":   {10 * second, 0, 0, second, 2333 * time.Millisecond, 7026 * time.Millisecond, true},
		"a short lease": {3 * second, 0, 0, 300 * time.Millisecond, second, 2595 * time.Millisecond, true},
		"a shorter one": {2 * second, 0, 0, 200 * time.Millisecond, second, 2270 * time.Millisecond, false},
		"a long one":    {time.Hour, 0, 0, second, 5 * second, 11351 * time.Millisecond, true},
		"no end":        {clock.NoExpiry, 0, 0, second, 5 * second, 11351 * time.Millisecond, true},
		"a pause": {10 * second, 2 * second, 0, 2 * second, 1333 * time.Millisecond,
			8648 * time.Millisecond, true},
		"a time-out":  {10 * second, 0, 10 * second, second, 10 * second, 19459 * time.Millisecond, false},
		"no pings":    {10 * second, -1, 0, 0, 3333 * time.Millisecond, clock.NoExpiry, false},
		"no time-out": {10 * second, 0, -1, second, 0, clock.NoExpiry, false},
		"a very short one": {time.Millisecond, 0, 0, 100 * time.Millisecond, second, 1946 * time.Millisecond,
			false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var o rueidis.ClientOption
			o.Dialer.KeepAlive, o.ConnWriteTimeout = c.keepAlive, c.timeOut
			got := clientoption.Complete(&o, c.ttl)
			require.Equal(t, clientoption.TimeOuts{Ping: c.ping, Answer: c.answer}, got)
			require.Equal(t, c.shortest, got.ShortestLease())
			require.Equal(t, c.fits, got.Short(c.ttl) == nil)
			if c.keepAlive >= 0 {
				require.Equal(t, c.ping, o.Dialer.KeepAlive)
			}
			if c.timeOut >= 0 {
				require.Equal(t, c.answer, o.ConnWriteTimeout)
			}
		})
	}
}

// The shortest lease is what the schedule of renewals makes of it.
func TestShortestLease(t *testing.T) {
	t.Parallel()
	times := clientoption.TimeOuts{Ping: time.Second, Answer: 3 * time.Second}
	ttl := times.ShortestLease()
	left := ttl - ttl/terms.Renewals - renew.RetryPause(ttl)
	require.InDelta(t, times.Notices(), left, float64(10*time.Millisecond))
}

// Whoever does not know the time-outs of a client says nothing about them.
func TestUnknownTimeOuts(t *testing.T) {
	t.Parallel()
	var unknown *clientoption.TimeOuts
	require.NoError(t, unknown.Short(time.Millisecond))
}

// Nothing is known of a client that is wrapped.
func TestSendsAgainOfAWrappedClient(t *testing.T) {
	t.Parallel()
	for _, client := range []rueidis.Client{struct{ rueidis.Client }{}, &struct{ rueidis.Client }{}, nil} {
		does, known := clientoption.SendsAgain(client)
		require.False(t, does)
		require.False(t, known)
	}
}

func TestLone(t *testing.T) {
	t.Parallel()
	one := func(change func(*rueidis.ClientOption)) bool {
		o := rueidis.ClientOption{InitAddress: []string{"here:6379"}}
		change(&o)
		_, may := clientoption.Lone(&o, clientoption.Complete(&o, 10*time.Second))
		return may
	}
	require.True(t, one(func(*rueidis.ClientOption) {}))
	for name, change := range map[string]func(*rueidis.ClientOption){
		"two addresses": func(o *rueidis.ClientOption) {
			o.InitAddress = append(o.InitAddress, "there:6379")
		},
		"Sentinel": func(o *rueidis.ClientOption) { o.Sentinel.MasterSet = "master" },
		"replicas": func(o *rueidis.ClientOption) {
			o.Standalone.ReplicaAddress = []string{"there:6379"}
		},
		"tracking": func(o *rueidis.ClientOption) { o.ClientTrackingOptions = []string{"OPTIN"} },
		"no pings": func(o *rueidis.ClientOption) { o.Dialer.KeepAlive = -1 },
		"new credentials": func(o *rueidis.ClientOption) {
			o.AuthCredentialsFn = func(rueidis.AuthCredentialsContext) (c rueidis.AuthCredentials, err error) {
				return c, nil
			}
		},
	} {
		require.False(t, one(change), name)
	}
}
