package rlock

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/rlock-go/toolkit/gen"
)

// notePrefix starts the names of all notes, and of nothing else.
const notePrefix = "rlock:owner:{"

// longestOwner is in bytes.
const longestOwner = 1024

// noteLimit bounds how long a note holds up the call that writes or removes it.
const noteLimit = 100 * time.Millisecond

// WithOwner has the holder say who it is, for people who ask why a key is locked:
// State.Owner of Inspect and Lock.Check shows the text. It is 1 to 1,024 bytes, such
// as DefaultOwner gives, and no secret.
//
// The text is kept in a key of its own (rlock:owner:{…}:<key>), beside the lock,
// bound to the holder's token and with the lock's lease; the lock itself remains the
// plain token that other libraries know. It costs one more call when the lock is
// acquired, extended and released. A lock that never expires keeps its text for a
// week after that.
//
// The text is best effort: where it cannot be written or removed, within 100 ms,
// the lock is held or released all the same, and the text is missing, or is gone
// with the lease. Another holder's is never shown in its place.
func WithOwner(text string) Option {
	return func(s *settings) error {
		s.owner = text
		switch {
		case text == "":
			return &ArgumentError{"WithOwner", "the text is empty; leave the option out, or use DefaultOwner"}
		case len(text) > longestOwner:
			return &ArgumentError{"WithOwner", fmt.Sprintf("the text has %d bytes; %d are allowed", len(text), longestOwner)}
		}
		return nil
	}
}

// DefaultOwner returns a text for WithOwner that tells the host, the process and
// the program: "web-3 pid 4711 importer".
func DefaultOwner() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown host"
	}
	return fmt.Sprintf("%s pid %d %s", host, os.Getpid(), filepath.Base(os.Args[0]))
}

// noteName returns the name of the note of a lock's key, which is in the key's slot:
// its hash tag is that of the slot's fence counter.
func noteName(key string) string {
	return notePrefix + strings.TrimPrefix(fenceCounter(key)[0], fencePrefix) + ":" + key
}

func noteNames(keys []string) []string {
	names := make([]string, len(keys))
	for i, key := range keys {
		names[i] = noteName(key)
	}
	return names
}

// note writes the notes of locks that are held, with the leases that they have now.
func (l *Locker) note(ctx context.Context, locks ...*Lock) {
	var params []gen.NoteParams
	for _, lock := range locks {
		for _, keys := range lock.signed() {
			params = append(params, gen.NoteParams{Keys: slices.Concat(keys, noteNames(keys)), Token: lock.token, Text: lock.extra.owner})
		}
	}
	if len(params) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), noteLimit)
	defer cancel()
	l.scripts.NoteBatch(ctx, l.client, params)
}

// unnote removes the notes of locks that are released.
func (l *Locker) unnote(ctx context.Context, locks ...*Lock) {
	var params []gen.UnnoteParams
	for _, lock := range locks {
		for _, keys := range lock.signed() {
			params = append(params, gen.UnnoteParams{Notes: noteNames(keys), Token: lock.token})
		}
	}
	if len(params) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), noteLimit)
	defer cancel()
	l.scripts.UnnoteBatch(ctx, l.client, params)
}

// signed returns the lock's keys by slot, none if its holder does not say who it is.
func (l *Lock) signed() [][]string {
	if l.extra == nil || l.extra.owner == "" {
		return nil
	}
	return l.parts()
}

// addOwner completes the state of a lock that somebody holds. Who may not read the
// note sees none.
func (l *Locker) addOwner(ctx context.Context, s *State) {
	if !s.Held {
		return
	}
	owner, err := l.scripts.Noted(ctx, l.client, gen.NotedParams{Note: noteName(s.Key), Token: s.Token})
	if err == nil {
		s.Owner = owner.V
	}
}
