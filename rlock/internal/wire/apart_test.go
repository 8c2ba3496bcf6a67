package wire

import (
	"runtime"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/redislua"
)

// keysApart are two keys of each of two slots.
var keysApart = []string{"{a}1", "{b}1", "{a}2", "{b}2"}

// apartOf has apart make calls for keysApart, each of which has its key as the reply. It returns the keys
// that each send was about.
func apartOf(cluster bool, before func(keys []string)) (sent [][]string, replies []redislua.Reply[string]) {
	var mu sync.Mutex // of sent
	s := calls{queue: &queueing{slots: cluster}}
	replies = apart(s, keysApart, func(key string) string { return key },
		func(keys []string) []redislua.Reply[string] {
			mu.Lock()
			sent = append(sent, keys)
			mu.Unlock()
			before(keys)
			replies := make([]redislua.Reply[string], len(keys))
			for i, key := range keys {
				replies[i].Value = key
			}
			return replies
		})
	return sent, replies
}

// The keys of each slot of a cluster are sent at the same time, and all keys of a server in one call. Each
// call has its own reply.
func TestApart(t *testing.T) {
	t.Parallel()
	for cluster, slots := range map[bool]int{false: 1, true: 2} {
		var underway sync.WaitGroup
		underway.Add(slots)
		sent, replies := apartOf(cluster, func([]string) {
			underway.Done()
			underway.Wait() // for ever, if one came after the other
		})
		if cluster {
			require.ElementsMatch(t, [][]string{{"{a}1", "{a}2"}, {"{b}1", "{b}2"}}, sent)
		} else {
			require.Equal(t, [][]string{keysApart}, sent)
		}
		for i, key := range keysApart {
			require.Equal(t, redislua.Reply[string]{Value: key}, replies[i])
		}
	}
}

// A hook of the client that panics or ends the goroutine in the call of one slot does so for the caller, who
// may recover, and costs the others nothing.
func TestApartWithAHookThatEndsTheCall(t *testing.T) {
	t.Parallel()
	ofA := func(end func()) func(keys []string) {
		return func(keys []string) {
			if keys[0] == "{a}1" {
				end()
			}
		}
	}
	require.PanicsWithValue(t, "hook", func() { apartOf(true, ofA(func() { panic("hook") })) })
	_, replies := apartOf(true, ofA(runtime.Goexit))
	for i, key := range keysApart {
		if key[1] == 'a' {
			require.Equal(t, Indeterminate, OutcomeOf(replies[i].Err))
		} else {
			require.Equal(t, redislua.Reply[string]{Value: key}, replies[i])
		}
	}
}
