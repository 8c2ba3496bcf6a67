// Package rlockotel shows OpenTelemetry what locks do.
//
// There are two things, each with a provider that the program passes; the global ones are never used:
//
//   - [Register] has a meter read the counts that a Locker keeps anyway, when a reader asks for them. It
//     costs a lock nothing.
//   - [NewObserver] records a span for each acquisition that waits, and how long locks are waited for and
//     held, as histograms. It is told of each event, which costs some microseconds with OpenTelemetry's SDK.
//
// A key is never an attribute, neither of a metric, where there are too many of them, nor of a span, where
// it may say whose data it is about. [WithClass] makes a class of a key, such as what is before the first
// colon.
//
// It is a module of its own, so that rlock itself requires nothing of OpenTelemetry, and requires the API
// alone, without an SDK:
//
//	go get github.com/rlock-go/toolkit/rlock/rlockotel
//
// It needs v0.1.0 of rlock. Until that is tagged, let a replace in your go.mod point at a clone.
//
// # Metrics of Register
//
//	rlock.acquisitions  {acquisition}  counter  rlock.outcome = acquired or failed
//	rlock.contended     {acquisition}  counter  those that found the lock held, or others before them
//	rlock.handed_over   {acquisition}  counter  those that got the lock from the last holder of the same process
//	rlock.attempts      {command}      counter  commands to acquire that were sent to the server
//	rlock.attached      {lock}         counter  locks that were taken over from another process
//	rlock.failures      {failure}      counter  rlock.operation = acquire, extend or release; rlock.reason = the name of an [rlock.FailureReason]
//	rlock.waiting       {acquisition}  up-down counter  acquisitions that wait now, for others or for an answer of the server
//	rlock.waiting.unanswered  {acquisition}  up-down counter  those of them that the server does not answer
//	rlock.oldest_wait   s              gauge    for how long the oldest of them has waited; candidates of Lead count only if unanswered
//	rlock.polling       {locker}       up-down counter  1: nobody waits in the queue of the server; 0: they do
//	rlock.wait.time     s              counter  time of the contended acquisitions that have ended
//	rlock.held          {lock}         up-down counter  locks that are held now
//	rlock.hold.time     s              counter  time for which those locks were held that have ended
//	rlock.extensions    {extension}    counter  rlock.outcome = extended or failed
//	rlock.ended         {lock}         counter  rlock.end = released, release_failed, lost, expired, detached or closed
//	rlock.checks        {check}        counter  rlock.cache = hit or miss
//
// [rlock.Stats] says exactly what each of them counts.
//
// # Metrics and spans of NewObserver
//
//	rlock.acquire.duration  s  histogram  rlock.outcome, rlock.contended
//	rlock.hold.duration     s  histogram  rlock.end
//	rlock.wait                 span, of kind internal: rlock.outcome, rlock.attempts, rlock.handed_over, rlock.fence
//
// The outcome is acquired, or the name of the [rlock.FailureReason]. With WithClass, rlock.class is an
// attribute of all three.
//
// The span is a child of the span in the context of the acquisition. It begins when the acquisition did and
// is recorded when that ends. An acquisition that neither found the lock held nor had to repeat its attempt
// has no span, and neither has one that does not wait, such as TryAcquire. If the acquisition failed, the status
// of the span is Error, with the outcome as its description, also where the caller's time was simply over (gave_up).
package rlockotel
