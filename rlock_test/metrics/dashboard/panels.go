package main

// query is one query of a panel. {…} in expr gets the variables; see chosen.
type query struct{ expr, legend string }

// panel shows a number if single is set, and graphs otherwise.
type panel struct {
	title, means string
	section      string // of the runbook
	width        uint32 // of 24 columns
	single       bool
	limits       []float64 // of a number: red from the last limit on, orange from the first
	unit, none   string    // none: the text without a value
	queries      []query
}

// number makes a panel that shows a value of now.
func number(title string, width uint32, unit, none string, limits []float64, section, means,
	expr string) panel {
	return panel{title, means, section, width, true, limits, unit, none, []query{{expr, ""}}}
}

// graphs makes a panel that shows values over time.
func graphs(title string, width uint32, unit, section, means string, queries ...query) panel {
	return panel{title, means, section, width, false, nil, unit, "", queries}
}

// rows are the dashboard. The first panels show what wakes an operator, the last panels show what
// explains it. The numbers have the limits and windows of alerts.yml.
var rows = []struct {
	title  string
	panels []panel
}{
	{"Is anything wrong now?", []panel{
		number("Lost or expired, 10 min", 4, "short", "", []float64{0.5}, "rlocklost",
			"Locks that ended before their holders were done. Two may have worked at the same time: the fence "+
				"protects what has one.",
			`sum(increase(rlock_ended_total{how=~"lost|expired"}[10m]))`),
		number("Not answered", 4, "short", "", []float64{0.5}, "rlocknoanswer",
			"Calls that the server did not answer in the last minute, and acquisitions that it does not answer now. "+
				"It is down, out of reach, starts, or fails over.",
			`sum(rlock_unanswered{}) + sum(increase(rlock_acquire_failed_total{reason="no_answer"}[1m]))`+
				` + sum(increase(rlock_extend_failed_total{reason="no_answer"}[1m])) + sum(increase(rlock_release_failed_total{reason="no_answer"}[1m]))`),
		number("Refused, 1 min", 4, "short", "", []float64{0.5}, "rlockrefused",
			"Calls that the server refused: a right is missing, it has no memory, or it is a replica. The log has "+
				"its words.",
			`sum(increase(rlock_acquire_failed_total{reason="refused"}[1m])) + sum(increase(rlock_extend_failed_total{reason="refused"}[1m]))`+
				` + sum(increase(rlock_release_failed_total{reason="refused"}[1m]))`),
		number("Oldest wait", 4, "s", "", []float64{10, 60}, "rlockstuck",
			"How long the oldest of those who wait now has waited. 0: nobody waits. Candidates of Lead count only if "+
				"the server does not answer them.",
			`max(rlock_oldest_wait_seconds{})`),
		number("99 of 100 waits, 10 min", 4, "s", "nobody waited", []float64{2, 8}, "rlockslow",
			"Of a hundred acquisitions that waited for others, 99 took no longer. One in a hundred did.",
			`histogram_quantile(0.99, sum by (le) (rate(rlock_wait_duration_seconds_bucket{}[10m]))) >= 0`),
		number("Lockers that poll", 4, "short", "", []float64{0.5}, "rlockpolls",
			"Lockers whose callers do not wait in the queue of the server, because a right for it is missing or "+
				"WithQueue(false) says so. "+
				"They are not served in their order, and ask again and again.",
			`sum(rlock_polling{})`),
	}},
	{"Who waits, and who holds", []panel{
		graphs("Waiting", 8, "short", "rlockstuck",
			"Acquisitions that wait, and those of them that wait for an answer of the server and not for a holder.",
			query{`sum(rlock_waiting{})`, "waiting"}, query{`sum(rlock_unanswered{})`, "not answered"}),
		graphs("Oldest wait by instance", 8, "s", "rlockstuck",
			"A line that rises without an end is somebody whom nobody serves. A line per instance tells where.",
			query{`max by (instance) (rlock_oldest_wait_seconds{})`, "{{instance}}"}),
		graphs("Held by instance", 8, "short", "rlockstuck",
			"Locks that are held. A flat line while others wait is a holder who does not end.",
			query{`sum by (instance) (rlock_held{})`, "{{instance}}"}),
	}},
	{"How many", []panel{
		graphs("Acquisitions per second", 8, "ops", "rlockslow",
			"Acquisitions that succeeded and failed; those that found the lock held, or others before them; and "+
				"those that got it "+
				"from the last holder of the same process, or with Attach from another process.",
			query{`sum(rate(rlock_acquired_total{}[$__rate_interval]))`, "acquired"},
			query{`sum(rate(rlock_acquire_failed_total{}[$__rate_interval]))`, "acquire_failed"},
			query{`sum(rate(rlock_contended_total{}[$__rate_interval]))`, "contended"},
			query{`sum(rate(rlock_handed_over_total{}[$__rate_interval]))`, "handed_over"},
			query{`sum(rate(rlock_attached_total{}[$__rate_interval]))`, "attached"}),
		graphs("Ends per second", 8, "ops", "rlocklost",
			"Locks that ended, by how. lost and expired ended too early. release_failed ended without the server's "+
				"confirmation and are "+
				"freed in the background. closed ended with their Locker.",
			query{`sum by (how) (rate(rlock_ended_total{}[$__rate_interval]))`, "{{how}}"}),
		graphs("Extensions per second", 8, "ops", "rlocklost",
			"Leases that were extended, and attempts that failed while the lease lasted. If these go on, locks expire.",
			query{`sum(rate(rlock_extended_total{}[$__rate_interval]))`, "extended"},
			query{`sum(rate(rlock_extend_failed_total{}[$__rate_interval]))`, "extend_failed"}),
	}},
	{"How long", []panel{
		graphs("Waits", 12, "s", "rlockslow",
			"How long acquisitions took that waited for others: half of them, and 99 of 100, were no longer. The "+
				"bounds are powers of two.",
			query{`histogram_quantile(0.5, sum by (le) (rate(rlock_wait_duration_seconds_bucket{}[$__rate_interval])))`, "50 %"},
			query{`histogram_quantile(0.99, sum by (le) (rate(rlock_wait_duration_seconds_bucket{}[$__rate_interval])))`, "99 %"}),
		graphs("Holds", 12, "s", "rlockslow",
			"How long locks were held that have ended. Who waits, waits for these.",
			query{`histogram_quantile(0.5, sum by (le) (rate(rlock_hold_duration_seconds_bucket{}[$__rate_interval])))`, "50 %"},
			query{`histogram_quantile(0.99, sum by (le) (rate(rlock_hold_duration_seconds_bucket{}[$__rate_interval])))`, "99 %"}),
	}},
	{"Why calls failed", []panel{
		graphs("Acquisitions that failed, per second", 8, "ops", "rlocknoanswer",
			"no_answer: the server is silent. refused: it says no. gave_up: the caller's time was over while others "+
				"held it. "+
				"held: the call does not wait. canceled: the caller has cancelled.",
			query{`sum by (reason) (rate(rlock_acquire_failed_total{}[$__rate_interval]))`, "{{reason}}"}),
		graphs("Extensions that failed, per second", 8, "ops", "rlocknoanswer",
			"The lock stays held until its lease ends, and is tried again.",
			query{`sum by (reason) (rate(rlock_extend_failed_total{}[$__rate_interval]))`, "{{reason}}"}),
		graphs("Releases that failed, per second", 8, "ops", "rlocknoanswer",
			"The Locker frees such keys in the background. Otherwise they stay until their lease ends.",
			query{`sum by (reason) (rate(rlock_release_failed_total{}[$__rate_interval]))`, "{{reason}}"}),
	}},
	{"What it costs", []panel{
		graphs("Attempts per acquisition", 8, "short", "rlockpolls",
			"Commands to acquire for each acquisition that succeeded. Above 10 those who wait poll, or wait for "+
				"long, as heartbeats count too.",
			query{`sum(rate(rlock_attempts_total{}[$__rate_interval])) / (sum(rate(rlock_acquired_total{}[$__rate_interval])) > 0)`, "attempts"}),
		graphs("Commands to acquire per second", 8, "ops", "rlockpolls",
			"Those that were sent to the server, repeated ones and heartbeats included.",
			query{`sum by (instance) (rate(rlock_attempts_total{}[$__rate_interval]))`, "{{instance}}"}),
		graphs("Checks from the cache", 8, "percentunit", "what-locks-cost",
			"Share of the calls of Check that the client-side cache answered.",
			query{`sum(rate(rlock_checks_total{cache="hit"}[$__rate_interval])) / (sum(rate(rlock_checks_total{}[$__rate_interval])) > 0)`, "hits"}),
	}},
	{"Classes of keys, if the program has rlockprom.NewObserver", []panel{
		graphs("Acquired per second", 8, "ops", "rlockslow", "Acquisitions that succeeded, by class.",
			query{`sum by (class) (rate(rlock_class_events_total{event="acquired"}[$__rate_interval]))`, "{{class}}"}),
		graphs("Failed per second", 8, "ops", "rlocknoanswer",
			"Acquisitions, extensions and releases that failed, by class and reason.",
			query{`sum by (class, event, reason) (rate(rlock_class_events_total{reason!=""}[$__rate_interval]))`,
				"{{class}}: {{event}}, {{reason}}"}),
		graphs("99 of 100 waits and holds", 8, "s", "rlockslow",
			"How long one in a hundred waited or held at least, by class.",
			query{`histogram_quantile(0.99, sum by (class, le) (rate(rlock_class_wait_duration_seconds_bucket{}[$__rate_interval])))`, "{{class}} waits"},
			query{`histogram_quantile(0.99, sum by (class, le) (rate(rlock_class_hold_duration_seconds_bucket{}[$__rate_interval])))`, "{{class}} holds"}),
	}},
}
