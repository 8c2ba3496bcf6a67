package env

import (
	"encoding/base64"
	"encoding/binary"
	"hash/crc32"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/rlock"
)

// Detach ends a handle and leaves its lock on the server, so that another caller can attach the lock.
func Detach(t testing.TB, lock *rlock.Lock) rlock.Handoff {
	t.Helper()
	h, err := lock.Detach()
	require.NoError(t, err)
	return h
}

// NewHandoff returns the Handoff that Detach returns for a lock with these keys and this token.
func NewHandoff(t testing.TB, token string, fence uint64, keys ...string) (h rlock.Handoff) {
	t.Helper()
	require.NoError(t, h.UnmarshalText(HandoffText(token, fence, keys...)))
	return h
}

// HandoffText returns the text of a Handoff. It builds the text without rlock, because every later version
// must be able to read a stored Handoff.
func HandoffText(token string, fence uint64, keys ...string) []byte {
	data := binary.AppendUvarint(nil, fence)
	for _, list := range [][]string{keys, {token}} {
		data = binary.AppendUvarint(data, uint64(len(list)))
		for _, s := range list {
			data = append(binary.AppendUvarint(data, uint64(len(s))), s...)
		}
	}
	return SealHandoff(data)
}

// SealHandoff turns any bytes into the text of a Handoff, with the prefix and the checksum of a good one.
func SealHandoff(data []byte) []byte {
	data = binary.BigEndian.AppendUint32(data, crc32.ChecksumIEEE(data))
	return []byte("rlock-handoff-1:" + base64.RawURLEncoding.EncodeToString(data))
}
