package fuzz

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/redislua"
	"github.com/rlock-go/toolkit/rlock_test/env"
)

// FuzzSlot: of any key, the slot is the one that a server counts.
func FuzzSlot(f *testing.F) {
	server := env.Engines(f)[0].StartNode(f)
	for _, key := range []string{
		"", "a", "123456789", "{a}b", "a{b}c", "{}a", "{", "}", "}{a}", "{a", "a}", "{a}{b}", "{{a}}", "{}{a}",
		"a{\x00}b", "\xff{\xfe}", "{\r\n}",
	} {
		f.Add(key)
	}
	f.Fuzz(func(t *testing.T, key string) {
		reply := server.Do(t, "CLUSTER", "KEYSLOT", key)
		slot, err := reply.ToInt64()
		require.NoError(t, err)
		require.Equal(t, slot, int64(redislua.Slot(key)), "%q", key)
	})
}
