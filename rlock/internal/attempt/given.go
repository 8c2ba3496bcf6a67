package attempt

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/rlock-go/toolkit/rlock/internal/clock"
	"github.com/rlock-go/toolkit/rlock/internal/place"
	"github.com/rlock-go/toolkit/rlock/internal/wire"
)

// Another caller of this process may give a key to an acquisition by its token. The acquisition then goes
// on with one of these functions.

// HandOver makes the server give the key to the acquisition, with a lease of its own. It also reserves
// fences for the callers after it. If the outcome is unknown, the next Try says whether the acquisition has
// the key.
func (a *Attempts) HandOver(
	ctx context.Context, from *wire.Claim, token string, fences int,
) (wire.Handed, error) {
	h, err := a.Server.HandOver(ctx, from, token, a.Request(), fences)
	if wire.OutcomeOf(err) == wire.Indeterminate {
		a.MayHaveTaken()
	}
	return h, err
}

// PassOn makes the server give the key to the process that waits first, and the acquisition a place behind
// all others. freed reports whether the server has given the key away. has reports that no other process
// waited, so that the acquisition has the key by Grant.
//
// A process that has always got its keys at once does not listen for grants yet. It begins to listen now.
func (a *Attempts) PassOn(ctx context.Context, from *wire.Claim, token string) (freed, has bool, g Grant) {
	want := a.placeWant()
	want.Silent = !a.Grants.Channel(a.Claim.Key()).Begin()
	p := place.New(a.Server, a.Grants, a.Claim, want)
	freed, has, err := p.PassOn(ctx, from, token)
	switch {
	case err != nil || !freed:
		return freed, false, g
	case has:
		p.Taken()
		a.Terms.SetToken(p.Token())
		g.Deadline, g.Fence = p.Granted()
	default:
		a.place = p
	}
	return freed, has, g
}

// Yield frees the key where the server keeps no queue, and pauses. Without the pause, the process that
// frees a key would get the key time and again. Other processes try within a round trip of the release if
// the server tells them of it. A process that was seen with the key (met) may first have to wait for up to
// 4 ms: it pauses after a push that said nothing new.
func (a *Attempts) Yield(
	ctx context.Context, from *wire.Claim, token string, met bool, stop <-chan struct{},
) error {
	_, _ = a.Server.Release(ctx, from, token, nil) // after an error the reaper frees the key
	longest := 2*a.Server.RoundTrip() + time.Millisecond/4
	if met {
		longest += 5 * time.Millisecond
	}
	// a slow network costs this time even if no other caller wants the key
	longest = min(longest, 50*time.Millisecond)
	return clock.Sleep(ctx, longest*7/10+rand.N(longest*3/10), stop)
}
