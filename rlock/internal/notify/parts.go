package notify

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/rlock-go/toolkit/rlock/internal/clock"
)

// readParts reads a lock whose keys are in several slots. The lock is lost if one answer says that a key
// has another owner. That answer comes in time although another node is silent.
func (m *Monitor) readParts(ctx context.Context, r reading) (unread []reading) {
	bySlot := map[uint16][]string{}
	for _, key := range r.keys {
		slot := m.server.Slot(key)
		bySlot[slot] = append(bySlot[slot], key)
	}
	parts := slices.Collect(maps.Values(bySlot))

	owners := askParts(ctx, parts, func(keys []string) Answer[string] {
		answer := m.server.Owners(ctx, [][]string{keys})[0]
		if answer.Err == nil && !m.tell(r, answer.Keys) {
			m.after([]Held{r.held})
		}
		return answer
	})
	if _, held := r.held.Version(); !held {
		return nil
	}
	if owners.Err != nil {
		return []reading{r}
	}
	if !r.foreign {
		m.calm(r.held)
		return nil
	}
	sent := clock.Now()
	left := askParts(ctx, parts,
		func(keys []string) Answer[time.Duration] { return m.server.Left(ctx, [][]string{keys})[0] })
	if !m.judge(r, left, sent, clock.Now()) {
		return []reading{r}
	}
	return nil
}

// askParts asks about all parts at the same time. It returns the answers as one, in any order. It ends with
// ctx. A call may take longer, if the client dials a silent node for it.
func askParts[T any](
	ctx context.Context, parts [][]string, ask func(keys []string) Answer[T],
) (whole Answer[T]) {
	answers := make(chan Answer[T], len(parts))
	for _, keys := range parts {
		go func() { answers <- ask(keys) }()
	}
	for range parts {
		select {
		case answer := <-answers:
			if answer.Err != nil {
				return answer
			}
			whole.Keys = append(whole.Keys, answer.Keys...)
		case <-ctx.Done(): // the time is up, or a hook of the client has ended the goroutine of a part
			return Answer[T]{Err: ctx.Err()}
		}
	}
	return whole
}
