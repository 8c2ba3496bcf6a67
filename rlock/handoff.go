package rlock

import (
	"fmt"
	"io"
	"log/slog"
	"slices"

	"github.com/rlock-go/toolkit/rlock/internal/remote"
	"github.com/rlock-go/toolkit/rlock/internal/text"
)

// Handoff is what Locker.Attach needs to continue a lock after Lock.Detach: its keys, token and fence.
// Store it, or send it to another process, as text: encoding/json and others convert it by themselves.
// It is good for one Attach; copies of the value count as the same. The zero Handoff belongs to no
// lock.
//
// Whoever has the text can take the lock over, so keep it as you would keep a password. Packages fmt
// and log/slog show no token of a Handoff.
type Handoff struct{ shared *remote.Handoff }

// Keys returns the Redis keys, prefix included.
func (h Handoff) Keys() []string {
	if h.shared == nil {
		return nil
	}
	return slices.Clone(h.shared.Keys)
}

// Fence returns the fence of the lock. The Lock that Attach returns has the same fence.
func (h Handoff) Fence() uint64 {
	if h.shared == nil {
		return 0
	}
	return h.shared.Fence
}

// String names the first key, the number of the other keys, and the fence, and never the token.
func (h Handoff) String() string {
	if h.shared == nil {
		return "handoff of no lock"
	}
	return "handoff of " + text.Keys(h.shared.Keys[0], len(h.shared.Keys), h.shared.Fence)
}

// Format writes String for every verb of package fmt.
func (h Handoff) Format(f fmt.State, _ rune) { io.WriteString(f, h.String()) }

// LogValue returns for slog what String tells.
func (h Handoff) LogValue() slog.Value {
	if h.shared == nil {
		return slog.StringValue(h.String())
	}
	return slog.GroupValue(text.KeysAttrs(h.shared.Keys[0], len(h.shared.Keys), h.shared.Fence)...)
}

// MarshalText returns the Handoff as text for UnmarshalText: one line of letters, digits and "-_:". It
// contains the token.
func (h Handoff) MarshalText() ([]byte, error) {
	if h.shared == nil {
		return nil, invalid("handoff", "it is of no lock; use the one that Detach returns")
	}
	return h.shared.Text(), nil
}

// UnmarshalText sets h to the Handoff whose text MarshalText has returned. An error matches
// ErrInvalid, shows nothing of the text, and leaves h as it was.
func (h *Handoff) UnmarshalText(text []byte) error {
	shared, err := remote.ParseHandoff(text)
	if err != nil {
		return invalid("handoff", err.Error())
	}
	h.shared = shared
	return nil
}
