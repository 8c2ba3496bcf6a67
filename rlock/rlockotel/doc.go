// Package rlockotel shows OpenTelemetry what locks do.
//
// There are three things, each with a provider that the program passes; the global ones are never used:
//
//   - [Register] has a meter read the counts that a Locker keeps anyway, when a reader asks for them. It
//     costs a lock nothing.
//   - [NewObserver] counts what happens by classes of keys, where one Locker has locks of several sorts.
//   - [NewTracer] records a span for each acquisition that waits.
//
// The last two are told of each event, which costs some microseconds with OpenTelemetry's SDK.
//
// A key is never an attribute, neither of a metric, where there are too many of them, nor of a span, where
// it may say whose data it is about. The function that is given to NewObserver and NewTracer makes a class of
// a key, such as what is before the first colon.
//
// It is a module of its own, so that rlock itself requires nothing of OpenTelemetry, and requires the API
// alone, without an SDK:
//
//	go get github.com/rlock-go/toolkit/rlock/rlockotel
//
// It needs v0.1.0 of rlock. Until that is tagged, let a replace in your go.mod point at a clone.
//
// Names, units and attributes follow OpenTelemetry's semantic conventions: units in UCUM, durations in
// seconds, error.type for why something has failed. What OpenTelemetry makes of them for Prometheus are the
// names of package rlockprom: its labels are these attributes without "rlock.", and its reason is error.type.
// The only exceptions are the histograms of Prometheus's Collector, in whose place Register has wait.time and
// hold.time, because an OpenTelemetry meter cannot read a histogram.
//
// # Metrics of Register
//
//	rlock.acquired        {acquisition}  counter  acquisitions that succeeded
//	rlock.acquire_failed  {acquisition}  counter  acquisitions that failed; error.type = the name of an [rlock.FailureReason]
//	rlock.attempts        {command}      counter  commands to acquire that were sent to the server
//	rlock.contended       {acquisition}  counter  acquisitions that found the lock held, or others before them
//	rlock.handed_over     {acquisition}  counter  acquisitions that got the lock from the last holder of the same process
//	rlock.attached        {lock}         counter  locks that were taken over from another process
//	rlock.waiting         {acquisition}  up-down counter  acquisitions that wait now, for others or for an answer of the server
//	rlock.unanswered      {acquisition}  up-down counter  those of them that the server does not answer
//	rlock.oldest_wait     s              gauge    for how long the oldest of them has waited; candidates of Lead count only if unanswered
//	rlock.polling         {locker}       up-down counter  1: nobody waits in the queue of the server; 0: they do
//	rlock.wait.time       s              counter  time of the contended acquisitions that have ended
//	rlock.held            {lock}         up-down counter  locks that are held now
//	rlock.hold.time       s              counter  time for which those locks were held that have ended
//	rlock.extended        {lease}        counter  leases extended
//	rlock.extend_failed   {attempt}      counter  attempts to extend that got an error, or no answer; error.type
//	rlock.release_failed  {lock}         counter  locks that were given up without the confirmation of the server; error.type
//	rlock.ended           {lock}         counter  locks that ended; rlock.how = released, release_failed, lost, expired, detached or closed
//	rlock.checks          {check}        counter  calls of Check; rlock.cache = hit or miss: whether the client-side cache answered
//
// [rlock.Stats] says exactly what each of them counts.
//
// # Metrics of NewObserver
//
//	rlock.class.events         {event}  counter    what has happened; rlock.event = the name of an [rlock.EventKind], error.type if it is a failure
//	rlock.class.wait.duration  s        histogram  how long acquisitions took that waited for others
//	rlock.class.hold.duration  s        histogram  how long locks were held
//
// rlock.class is an attribute of all three, if there is a function for it.
//
// # Spans of NewTracer
//
//	rlock.wait  of kind internal: rlock.class, rlock.attempts, rlock.handed_over, rlock.fence, error.type
//
// The span is a child of the span in the context of the acquisition. It begins when the acquisition did and
// is recorded when that ends. An acquisition that neither found the lock held nor had to repeat its attempt
// has no span, and neither has one that does not wait, such as TryAcquire. If the acquisition failed, the
// status of the span is Error, with error.type as its description, also where the caller's time was simply
// over (gave_up). It has no db.system.name, because it is no call of the server: it lasts from the first of
// many to the last, and is mostly silence.
package rlockotel
