// Package rlockotel exports to OpenTelemetry what locks do.
//
// It has three functions. The program passes its own provider to each, and no function uses the global
// providers:
//
//   - [Register] registers a callback at a meter. When a metric reader collects, the callback reads the
//     counts of the Locker. This costs a lock nothing.
//   - [NewObserver] counts events by classes of keys, if one Locker has several sorts of locks.
//   - [NewTracer] records a span for each acquisition that waits.
//
// NewObserver and NewTracer get each event, which costs some microseconds with OpenTelemetry's SDK.
//
// A key is never an attribute. A metric would have too many keys, and a key in a span could tell whose data
// it is about. The caller gives NewObserver and NewTracer a function that returns the class of a key, such as
// the text before the first colon.
//
// rlockotel is a module of its own, so rlock itself does not require OpenTelemetry. The module requires the
// API and no SDK:
//
//	go get github.com/rlock-go/toolkit/rlock/rlockotel
//
// It needs v0.1.0 of rlock. Until rlock has that tag, point a replace in your go.mod at a clone.
//
// Names, units and attributes follow OpenTelemetry's semantic conventions: units in UCUM, durations in
// seconds, and error.type for the reason of a failure. OpenTelemetry exports the metrics to Prometheus with
// the names of package rlockprom. The Prometheus labels are the attributes of this package without "rlock.",
// and the label reason stands for error.type. One thing differs from rlockprom: an OpenTelemetry meter cannot
// read a histogram, so Register has
// wait.time and hold.time in place of the histograms of the Collector.
//
// # Metrics of Register
//
// Counters:
//
//	rlock.acquired        {acquisition}  acquisitions that succeeded
//	rlock.acquire_failed  {acquisition}  acquisitions that failed, by error.type
//	rlock.attempts        {command}      commands to acquire that were sent to the server
//	rlock.contended       {acquisition}  acquisitions that found the lock held, or waiters before them
//	rlock.handed_over     {acquisition}  acquisitions with a hand-over from the last holder of the process
//	rlock.attached        {lock}         locks that were taken over from another process
//	rlock.wait.time       s              time of the contended acquisitions that have ended
//	rlock.hold.time       s              time for which the ended locks were held
//	rlock.extended        {lease}        leases extended
//	rlock.extend_failed   {attempt}      attempts to extend that got an error or no answer, by error.type
//	rlock.release_failed  {lock}         locks given up without the server's confirmation, by error.type
//	rlock.ended           {lock}         locks that ended, by rlock.how
//	rlock.checks          {check}        calls of Check, by rlock.cache
//
// Up-down counters:
//
//	rlock.waiting         {acquisition}  acquisitions that wait now, for others or for the server
//	rlock.unanswered      {acquisition}  acquisitions that wait for an answer of the server
//	rlock.polling         {locker}       1: all callers poll; 0: callers wait in the queue
//	rlock.held            {lock}         locks that are held now
//
// Gauge:
//
//	rlock.oldest_wait     s              how long the oldest of rlock.waiting has waited
//
// The attributes and the special cases:
//
//   - error.type is the name of an [rlock.FailureReason].
//   - rlock.how is released, release_failed, lost, expired, detached or closed.
//   - rlock.cache is hit if the client-side cache answered, and miss otherwise.
//   - rlock.oldest_wait counts a candidate of Lead only while the server does not answer.
//
// [rlock.Stats] says exactly what each metric counts.
//
// # Metrics of NewObserver
//
//	rlock.class.events         {event}  counter    events, by rlock.event and error.type
//	rlock.class.wait.duration  s        histogram  how long contended acquisitions took
//	rlock.class.hold.duration  s        histogram  how long locks were held
//
// rlock.event is the name of an [rlock.EventKind]. Only the event of a failure has error.type. All three have
// rlock.class if the caller gave a function for it.
//
// # Spans of NewTracer
//
//	rlock.wait  of kind internal: rlock.class, rlock.attempts, rlock.handed_over, rlock.fence, error.type
//
// The span is a child of the span in the context of the acquisition. It begins when the acquisition begins,
// and the tracer records it when the acquisition ends. There is a span only if the acquisition waits, and
// found the lock held or repeated its attempt. TryAcquire does not wait, so it has no span.
//
// If the acquisition failed, the status of the span is Error, with error.type as its description. The status
// is Error also when only the caller's time was over (gave_up). The span has no db.system.name, because it is
// not one call of the server: it lasts from the first of many calls to the last.
package rlockotel
