package rlockmongo

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/rlock-go/toolkit/rlock"
)

// passing has the codes of commands that may succeed later, or were interrupted. Most of them are the codes
// after which drivers repeat a write (MongoDB's specification of retryable writes). Every other code means
// that the server has refused the command.
var passing = []int{
	0,     // none: the driver made the error, not the server
	1,     // InternalError
	6,     // HostUnreachable
	7,     // HostNotFound
	8,     // UnknownError
	24,    // LockTimeout
	43,    // CursorNotFound
	50,    // MaxTimeMSExpired
	64,    // WriteConcernTimeout
	89,    // NetworkTimeout
	90,    // CallbackCanceled
	91,    // ShutdownInProgress
	112,   // WriteConflict
	133,   // FailedToSatisfyReadPreference
	134,   // ReadConcernMajorityNotAvailableYet
	189,   // PrimarySteppedDown
	202,   // NetworkInterfaceExceededTimeLimit
	262,   // ExceededTimeLimit
	290,   // TransactionExceededLifetimeLimitSeconds
	317,   // ConnectionPoolExpired
	358,   // InternalTransactionNotSupported
	365,   // TemporarilyUnavailable
	384,   // ConnectionError
	391,   // ReauthenticationRequired
	402,   // ResourceExhausted
	462,   // IngressRequestRateLimitExceeded
	9001,  // SocketException
	10058, // NotPrimary, of old
	10107, // NotWritablePrimary
	11600, // InterruptedAtShutdown
	11601, // Interrupted
	11602, // InterruptedDueToReplStateChange
	13388, // StaleConfig
	13435, // NotPrimaryNoSecondaryOk
	13436, // NotPrimaryOrSecondary
	16500, // of Cosmos DB: too many requests
}

// refused reports whether the server has refused a command, so the command has done nothing.
func refused(err error) bool {
	var answer mongo.ServerError
	if !errors.As(err, &answer) || mongo.IsNetworkError(err) || mongo.IsTimeout(err) ||
		answer.HasErrorLabel("RetryableWriteError") || answer.HasErrorLabel("TransientTransactionError") ||
		answer.HasErrorLabel("RetryableError") || answer.HasErrorLabel("SystemOverloadedError") {
		return false
	}
	var write mongo.WriteException
	if errors.As(err, &write) && len(write.WriteErrors) == 0 {
		return false // it is written, but perhaps not to a majority
	}
	passes := func(code int) bool { return slices.Contains(passing, code) }
	return !slices.ContainsFunc(answer.ErrorCodes(), passes)
}

// failed returns an error in the form that rlock needs. The next call reads the server's clock again, because
// another server may answer. After a time-out alone it does not, because the server may be overloaded.
func (b *Backend) failed(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	if ctx.Err() == nil {
		b.clock.forget()
	}
	wrapped := fmt.Errorf("rlockmongo: %w", err)
	if ended := ctx.Err(); ended != nil && !errors.Is(err, ended) {
		wrapped = fmt.Errorf("rlockmongo: %w: %w", ended, err)
	}
	if refused(err) {
		return rlock.Refused(wrapped)
	}
	return wrapped
}
