// Package rlockprom exports to Prometheus what locks do.
//
// It has two collectors. The program registers each with its own [prometheus.Registerer]:
//
//   - [NewCollector] reads the counts of a Locker when Prometheus asks for them. It costs a lock nothing.
//   - [NewObserver] counts events by classes of keys, if one Locker has several sorts of locks. It gets each
//     event, which costs about a microsecond.
//
// A key is never a label: Prometheus would keep every key in memory for hours. The caller gives NewObserver a
// function that returns the class of a key, such as the text before the first colon.
//
// rlockprom is a module of its own, so rlock itself does not require Prometheus:
//
//	go get github.com/rlock-go/toolkit/rlock/rlockprom
//
// It needs v0.1.0 of rlock. Until rlock has that tag, point a replace in your go.mod at a clone.
//
// Names, units and labels follow the conventions of Prometheus. OpenTelemetry exports the metrics of package
// rlockotel to Prometheus with the same names and labels.
//
// # Metrics of a Locker
//
//	rlock_acquired_total                acquisitions that succeeded
//	rlock_acquire_failed_total{reason}  acquisitions that failed, by [rlock.FailureReason]
//	rlock_attempts_total                commands to acquire that were sent to the server
//	rlock_contended_total               acquisitions that found the lock held, or waiters before them
//	rlock_handed_over_total             acquisitions that got the lock from, or share it with, a caller of the Locker
//	rlock_attached_total                locks that were taken over from another process
//	rlock_waiting                       acquisitions that wait now, for others or for the server
//	rlock_unanswered                    acquisitions that wait for an answer of the server
//	rlock_oldest_wait_seconds           how long the oldest of rlock_waiting has waited
//	rlock_polling                       1: all callers poll; 0: callers wait in the queue
//	rlock_wait_duration_seconds         histogram: how long contended acquisitions took
//	rlock_held                          locks that are held now
//	rlock_hold_duration_seconds         histogram: how long locks were held
//	rlock_extended_total                leases extended
//	rlock_extend_failed_total{reason}   attempts to extend that got an error or no answer
//	rlock_release_failed_total{reason}  locks given up without the confirmation of the server
//	rlock_ended_total{how}              locks that ended
//	rlock_checks_total{cache}           calls of Check
//
// The labels and the special cases:
//
//   - how is released, release_failed, lost, expired, detached or closed.
//   - cache is hit if the client-side cache answered, and miss otherwise.
//   - rlock_oldest_wait_seconds counts a candidate of Lead only while the server does not answer.
//
// [rlock.Stats] says exactly what each metric counts. The bounds of the histograms are powers of two of a
// second, from 61 µs to 2 h 16 min.
//
// # Metrics of classes
//
//	rlock_class_events_total{class,event,reason}  events, by [rlock.EventKind] and [rlock.FailureReason]
//	rlock_class_wait_duration_seconds{class}      histogram: how long contended acquisitions took
//	rlock_class_hold_duration_seconds{class}      histogram: how long locks were held
//
// Only the event of a failure has a reason.
//
// The directory of this package has alert rules, alerts.yml, and a dashboard for Grafana, dashboard.json.
// docs/RUNBOOK.md says what to do when an alert fires.
package rlockprom
