// Package rlockprom shows Prometheus what locks do.
//
// There are two things to register, each with a [prometheus.Registerer] that the program passes; nothing
// is registered by itself:
//
//   - [NewCollector] reads the counts that a Locker keeps anyway, when Prometheus asks for them. It costs
//     a lock nothing.
//   - [NewObserver] counts what happens by classes of keys, where one Locker has locks of several sorts.
//     It is told of each event, which costs about a microsecond.
//
// A key is never a label, because there are too many of them: Prometheus keeps each in memory for hours.
// The function that is given to NewObserver makes a class of a key, such as what is before the first colon.
//
// It is a module of its own, so that rlock itself requires nothing of Prometheus:
//
//	go get github.com/rlock-go/toolkit/rlock/rlockprom
//
// It needs v0.1.0 of rlock. Until that is tagged, let a replace in your go.mod point at a clone.
//
// Names, units and labels follow the conventions of Prometheus. Each name and label is also what
// OpenTelemetry makes for Prometheus of those of package rlockotel.
//
// # Metrics of a Locker
//
//	rlock_acquired_total                acquisitions that succeeded
//	rlock_acquire_failed_total{reason}  acquisitions that failed, by the names of [rlock.FailureReason]
//	rlock_attempts_total                commands to acquire that were sent to the server
//	rlock_contended_total               acquisitions that found the lock held, or others before them
//	rlock_handed_over_total             acquisitions that got the lock from the last holder of the same process
//	rlock_attached_total                locks that were taken over from another process
//	rlock_waiting                       acquisitions that wait now, for others or for an answer of the server
//	rlock_unanswered                    those of them that the server does not answer
//	rlock_oldest_wait_seconds           for how long the oldest of them has waited; candidates of Lead count only if unanswered
//	rlock_polling                       1: nobody waits in the queue of the server; 0: they do
//	rlock_wait_duration_seconds         histogram of how long acquisitions took that waited for others
//	rlock_held                          locks that are held now
//	rlock_hold_duration_seconds         histogram of how long locks were held
//	rlock_extended_total                leases extended
//	rlock_extend_failed_total{reason}   attempts to extend that got an error, or no answer
//	rlock_release_failed_total{reason}  locks that were given up without the confirmation of the server
//	rlock_ended_total{how}              locks that ended: released, release_failed, lost, expired, detached or closed
//	rlock_checks_total{cache}           calls of Check, by whether the client-side cache answered: hit or miss
//
// [rlock.Stats] says exactly what each of them counts. The bounds of the histograms are powers of two of
// a second, from 61 µs to 2 h 16 min.
//
// # Metrics of classes
//
//	rlock_class_events_total{class,event,reason}  what has happened, by the names of [rlock.EventKind], and of [rlock.FailureReason] if it is a failure
//	rlock_class_wait_duration_seconds{class}      histogram of how long acquisitions took that waited for others
//	rlock_class_hold_duration_seconds{class}      histogram of how long locks were held
//
// Beside this file are alert rules, alerts.yml, and a dashboard for Grafana, dashboard.json. docs/RUNBOOK.md
// says what to do when one rings.
package rlockprom
