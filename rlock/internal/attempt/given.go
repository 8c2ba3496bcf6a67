package attempt

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/rlock-go/toolkit/rlock/internal/clock"
	"github.com/rlock-go/toolkit/rlock/internal/place"
	"github.com/rlock-go/toolkit/rlock/internal/wire"
)

// An acquisition that another caller of this process has given a key by its token goes on with one of these.

// HandOver has the server give the key to the acquisition, with a lease of its own, and reserve fences for
// those who come after it. If the outcome is unknown, the next Try says whether the acquisition has the key.
func (a *Attempts) HandOver(
	ctx context.Context, from *wire.Claim, token string, fences int,
) (wire.Handed, error) {
	h, err := a.Server.HandOver(ctx, from, token, a.Request(), fences)
	if wire.OutcomeOf(err) == wire.Indeterminate {
		a.MayHaveTaken()
	}
	return h, err
}

// PassOn has the server give the key to the process that waits first, and the acquisition a place behind all
// others. freed reports whether the key was given away. has reports that nobody else waited, so that the
// acquisition has got the key by Grant.
//
// A process that has always got its keys at once is not told of grants yet. It begins to listen now.
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

// Yield frees the key where the server keeps no queue, and pauses. Without that, the process that frees a
// key would get it time and again. Others try within a round trip of the release if they are told of it. One
// that was seen with the key (met) may first have to wait for up to 4 ms, because it pauses after a push
// that said nothing new.
func (a *Attempts) Yield(
	ctx context.Context, from *wire.Claim, token string, met bool, stop <-chan struct{},
) error {
	_, _ = a.Server.Release(ctx, from, token, nil) // or the reaper does it
	longest := 2*a.Server.RoundTrip() + time.Millisecond/4
	if met {
		longest += 5 * time.Millisecond
	}
	longest = min(longest, 50*time.Millisecond) // which a slow network costs where nobody else wants the key
	return clock.Sleep(ctx, longest*7/10+rand.N(longest*3/10), stop)
}
