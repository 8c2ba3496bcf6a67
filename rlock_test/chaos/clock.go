package chaos

import (
	"time"

	"golang.org/x/sys/unix"
)

// instant is a reading of the machine's monotonic clock, in nanoseconds. All processes of a run are
// on one machine, so their readings can be compared.
type instant int64

// never is later than every reading.
const never instant = 1<<63 - 1

func now() instant {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		panic(err) // every supported kernel has this clock
	}
	return instant(ts.Nano())
}

func (i instant) add(d time.Duration) instant { return i + instant(d) }

func (i instant) sub(earlier instant) time.Duration { return time.Duration(i - earlier) }

// instantOf turns a time of this process into an instant, and rounds down. A delay between its two
// readings makes the instant earlier.
func instantOf(t time.Time) instant {
	at := now()
	return at.add(time.Until(t))
}

// span is a stretch of time that includes both ends.
type span struct{ from, to instant }

func (s span) meets(other span) bool { return s.from <= other.to && other.from <= s.to }
