package renew

import (
	"github.com/rlock-go/toolkit/rlock/internal/clock"
	"github.com/rlock-go/toolkit/rlock/internal/terms"
	"github.com/rlock-go/toolkit/rlock/internal/wire"
)

// Result says what the answer to an extension means.
type Result uint8

const (
	Extended   Result = iota // the server has run the extension; the lease may be over all the same
	Lost                     // a key has none of the tokens
	Failed                   // the answer is an error
	Superseded               // the lease has got another token since, so the answer says nothing
)

// Take enters the answer to an extension into the lease. ended reports that the lock has ended. Then the
// lease stays as it is.
func Take(l *terms.Terms, e terms.Extension, answer wire.Extended, ended bool) Result {
	superseded := l.Superseded(e)
	lost := answer.Lost != "" && !superseded
	switch outcome := wire.OutcomeOf(answer.Err); {
	case lost || ended || outcome == wire.Indeterminate:
		l.Forget(e)
	case outcome == wire.Done:
		l.Confirm(e, clock.Now())
	case outcome == wire.Refused:
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
