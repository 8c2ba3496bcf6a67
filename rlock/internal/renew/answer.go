package renew

import (
	"github.com/rlock-go/toolkit/rlock/internal/clock"
	"github.com/rlock-go/toolkit/rlock/internal/remote"
	"github.com/rlock-go/toolkit/rlock/internal/terms"
)

// Result says what the answer to an extension means.
type Result uint8

const (
	Extended   Result = iota // the server has run it; the lease may be over all the same
	Lost                     // a key has none of the tokens
	Failed                   // the answer is an error
	Superseded               // the lease has got another token since, so that the answer says nothing
)

// Take enters the answer to an extension into the lease. ended reports that the lock has ended: the
// lease then stays as it is.
func Take(l *terms.Terms, e terms.Extension, answer remote.Extended, ended bool) Result {
	superseded := l.Superseded(e)
	lost := answer.Lost != "" && !superseded
	switch outcome := remote.OutcomeOf(answer.Err); {
	case lost || ended || outcome == remote.Indeterminate:
		l.Forget(e)
	case outcome == remote.Done:
		l.Confirm(e, clock.Now())
	case outcome == remote.Refused:
		l.Refuse(e, clock.Now())
	}
	switch {
	case lost:
		return Lost
	case answer.Err != nil:
		return Failed
	case superseded:
		return Superseded
	}
	return Extended
}
