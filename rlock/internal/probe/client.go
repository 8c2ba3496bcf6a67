package probe

import (
	"github.com/rlock-go/toolkit/rlock/internal/clientoption"
	"github.com/rlock-go/toolkit/rlock/internal/clock"
	"github.com/rlock-go/toolkit/rlock/internal/text"
)

// client tells of the options with which the client was built, as far as they can be seen.
func (p *probe) client() {
	again, known := clientoption.SendsAgain(p.Built)
	switch t := p.TimeOuts; {
	case again:
		p.add("client", Fault, nil, "it was built with ConnLifetime, which sends commands again that change "+
			"data, so two callers may hold a lock; leave that out")
	case t != nil && p.Lease < t.ShortestLease() && p.Lease != clock.NoExpiry:
		p.add("client", Note, nil, "a lock that is extended with the lease of %s may be lost when a connection "+
			"dies silently: %s", text.TTL(p.Lease), t.Enough())
	case t != nil:
		p.add("client", OK, nil, "it notices within %v that a connection is dead, and extended leases of %v and "+
			"more outlast that", t.Notices(), t.ShortestLease())
	case known:
		p.add("client", Note, nil, unseen)
	default:
		p.add("client", Note, nil, unseen+"; the test cannot see either whether it was built with "+
			"ConnLifetime, with which two callers may hold a lock: leave that out")
	}
}

const unseen = "it was given to New, so the test cannot see how soon it notices that a connection is dead: " +
	"use Open, or build it with a Dialer.KeepAlive of a tenth and a ConnWriteTimeout of a fifth of the " +
	"shortest lease that is extended (by default it takes up to 12s, and extended leases below 20s may be lost)"
