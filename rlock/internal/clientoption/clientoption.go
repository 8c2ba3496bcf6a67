// Package clientoption decides with which options Open builds a client. It refuses some options, and
// chooses how long the client may take to notice that a connection is dead. It does not know what is sent
// on a connection.
package clientoption

import (
	"fmt"
	"reflect"
	"time"

	"github.com/redis/rueidis"

	"github.com/rlock-go/toolkit/rlock/internal/clock"
)

// Refused returns an option that locks do not allow, the reason, and what to do. Two empty texts mean that
// it refuses none.
func Refused(o *rueidis.ClientOption) (name, reason string) {
	switch {
	case o.ReplicaOnly:
		return "ReplicaOnly", "a replica takes no lock; leave it out, and set SendToReplicas if other reads " +
			"should go to replicas"
	case o.ConnLifetime != 0:
		return "ConnLifetime", "when the lifetime of a connection ends before its replies have come, rueidis " +
			"sends all commands again, even if they change data. A copy that arrives late can take a lock for " +
			"a caller who has given it up, or rob the next holder; leave it out"
	}
	return "", ""
}

// TimeOuts say how a client notices that a connection is dead.
//
// A connection dies silently when something between client and server forgets it: a load balancer,
// connection tracking, or a failover behind one address. Nothing closes the connection, and what is sent on
// it is lost. rueidis notices that by pings. It sends one each KeepAlive while nothing else is answered,
// and expects the answer within ConnWriteTimeout.
type TimeOuts struct {
	Ping   time.Duration // between two pings of an idle connection; 0: there are no pings
	Answer time.Duration // for the answer to a ping; 0: there is no limit
}

// Open chooses a tenth of a lease for the pause between pings, and the rest of a third for the answer. So
// it knows after a third of the lease that an idle connection is dead. With a lease of 10 seconds these are
// 1 and 2.3 seconds.
//
// TestSilentDeathOfConnections lets the connections of 96 extended locks die. With these times it lost no
// lock. With the 10 seconds of rueidis it lost 72 of 96. With less than a second a busy server would count
// as dead, and more than 5 seconds gain nothing.
const (
	shortestPing   = time.Second / 10
	longestPing    = rueidis.DefaultTCPKeepAlive
	shortestAnswer = time.Second
	longestAnswer  = 5 * time.Second
)

// Complete sets the time-outs that the user has left open, for leases of ttl. It returns all time-outs. A
// lease that does not end counts as a long one.
func Complete(o *rueidis.ClientOption, ttl time.Duration) TimeOuts {
	if o.Dialer.KeepAlive == 0 {
		o.Dialer.KeepAlive = min(max(ttl/10, shortestPing), longestPing).Round(time.Millisecond)
	}
	ping := max(o.Dialer.KeepAlive, 0)
	if o.ConnWriteTimeout == 0 {
		o.ConnWriteTimeout = min(max(ttl/3-ping, shortestAnswer), longestAnswer).Round(time.Millisecond)
	}
	return TimeOuts{ping, max(o.ConnWriteTimeout, 0)}
}

// Lone returns the options of the connection that a lone caller uses without goroutines of rueidis. t is
// what Complete returned. may is false if the client chooses among servers, or if rueidis itself must read
// on each connection. It is also false if no ping says for how long the client may trust a connection.
func Lone(o *rueidis.ClientOption, t TimeOuts) (lone rueidis.ClientOption, may bool) {
	chooses := len(o.InitAddress) != 1 || o.Sentinel.MasterSet != "" || len(o.Standalone.ReplicaAddress) > 0
	reads := o.AuthCredentialsFn != nil || o.ClientTrackingOptions != nil
	if chooses || reads || t.Ping == 0 {
		return lone, false
	}
	lone = *o
	lone.DisableCache, lone.OnInvalidations, lone.AlwaysPipelining = true, nil, false
	lone.ForceSingleClient, lone.DisableRetry, lone.PipelineMultiplex = true, true, -1
	lone.RingScaleEachConn, lone.ReadBufferEachConn, lone.WriteBufferEachConn = 1, 1<<14, 1<<14
	lone.BlockingPipeline = -1 // otherwise long calls dial connections of their own
	lone.Dialer.KeepAlive = -1 // for a ping, the client would read in a goroutine
	lone.ConnWriteTimeout = min(t.Notices(), time.Minute)
	return lone, true
}

// Notices returns after how long the client knows that a connection is dead. clock.NoExpiry means that it
// may never know. The first ping without an answer is the second ping after the last answer.
func (t TimeOuts) Notices() time.Duration {
	if t.Ping == 0 || t.Answer == 0 {
		return clock.NoExpiry
	}
	return 2*t.Ping + t.Answer
}

// ShortestLease returns the shortest lease that outlasts the silent death of a connection, while the lease
// is extended. An extension is sent after a third of the lease, at worst at the moment of the death. It is
// made again a twentieth of the lease after the error: see renew.RetryPause.
func (t TimeOuts) ShortestLease() time.Duration {
	notices := t.Notices()
	if notices == clock.NoExpiry {
		return clock.NoExpiry
	}
	return (notices * 60 / (60 - 60/3 - 60/20)).Round(time.Millisecond)
}

// Enough says what to do about a shorter lease.
func (t TimeOuts) Enough() string {
	if t.Notices() == clock.NoExpiry {
		return "the client may never notice that; leave Dialer.KeepAlive and ConnWriteTimeout at 0, " +
			"and Open sets them"
	}
	return fmt.Sprintf("the client notices that within %v; use a lease of %v or more, or give it to Open by "+
		"WithTTL, and leave Dialer.KeepAlive (%v now) and ConnWriteTimeout (%v) at 0",
		t.Notices(), t.ShortestLease(), t.Ping, t.Answer)
}

// Short returns what is wrong with the lease of a lock that is extended. nil means that the lease is long
// enough.
func (t *TimeOuts) Short(ttl time.Duration) error {
	if t == nil || ttl == clock.NoExpiry || ttl >= t.ShortestLease() {
		return nil
	}
	return fmt.Errorf("rlock: the lease of %v may be over before an extension gets through when a connection "+
		"dies silently: %s", ttl, t.Enough())
}

// SendsAgain reports whether a client was built with ConnLifetime. It looks at a field of rueidis. So known
// is false for a client that is wrapped, or that is of another version of rueidis.
func SendsAgain(client rueidis.Client) (does, known bool) {
	v, option := reflect.ValueOf(client), reflect.TypeFor[rueidis.ClientOption]()
	if v.Kind() != reflect.Pointer || v.Type().Elem().PkgPath() != option.PkgPath() {
		return false, false
	}
	if v = v.Elem(); v.Kind() != reflect.Struct {
		return false, false
	}
	if field := v.FieldByName("opt"); field.IsValid() && field.Type() == reflect.PointerTo(option) {
		return !field.IsNil() && field.Elem().FieldByName("ConnLifetime").Int() > 0, true
	}
	if field := v.FieldByName("hasLftm"); field.IsValid() && field.Kind() == reflect.Bool {
		return field.Bool(), true
	}
	return false, false
}
