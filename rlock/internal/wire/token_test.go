package wire

import (
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
)

func TestNewToken(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for range 1000 {
		token := NewToken("")
		id, err := uuid.Parse(token)
		require.NoError(t, err)
		require.Equal(t, uuid.Version(4), id.Version())
		require.Equal(t, uuid.RFC4122, id.Variant())
		require.False(t, seen[token])
		seen[token] = true
		require.Empty(t, OwnerIn(token))
	}
	for _, owner := range []string{"web-3 pid 7", "x", " ", strings.Repeat("ü", 128)} {
		require.Equal(t, owner, OwnerIn(NewToken(owner)))
	}
}

// A token that NewToken has not made is not taken apart.
func TestOwnerInForeignToken(t *testing.T) {
	t.Parallel()
	const id = "b1f41b3e-7a5e-4f4e-9d0e-0c6ad3f6a0b9"
	require.Equal(t, "me", OwnerIn(id+" me"))
	for name, token := range map[string]string{
		"no text":               id + " ",
		"no space":              id + "_me",
		"upper case":            strings.ToUpper(id) + " me",
		"another version":       "b1f41b3e-7a5e-1f4e-9d0e-0c6ad3f6a0b9 me",
		"another variant":       "b1f41b3e-7a5e-4f4e-cd0e-0c6ad3f6a0b9 me",
		"no UUID":               strings.Repeat("g", 36) + " me",
		"a UUID in other signs": "{b1f41b3e-7a5e-4f4e-9d0e-0c6ad3f6a0b} me",
		"a control character":   id + " me\n",
		"not UTF-8":             id + " \xff",
		"too long":              id + " " + strings.Repeat("x", 257),
		"empty":                 "",
	} {
		require.Empty(t, OwnerIn(token), name)
	}
}

// What rlock writes into a key is not foreign, whoever has it.
func TestForeign(t *testing.T) {
	t.Parallel()
	for _, value := range []string{
		NewToken(""), NewToken("web-3"), Share{3, 1}.NewToken(""), OwnPrefix + readers + " 7",
	} {
		require.False(t, Foreign(value), value)
	}
	for _, value := range []string{"", "1", "chosen by a caller", "\xdf4\xc4\xba\xd0\x10:6\xac\xeb",
		strings.ToUpper(NewToken(""))} {
		require.True(t, Foreign(value), value)
	}
}

// What a process calls itself is an owner's text, whatever its host and program are called.
func TestThisProcess(t *testing.T) {
	t.Parallel()
	require.Empty(t, WrongOwner(ThisProcess()))
	for text, want := range map[string]string{
		"host\tpid 7 a\xffb":           "host?pid 7 a?b",
		strings.Repeat("ü", 200):       strings.Repeat("ü", 128),
		"x" + strings.Repeat("ü", 200): "x" + strings.Repeat("ü", 127),
	} {
		require.Equal(t, want, ownerOf(text))
		require.Empty(t, WrongOwner(want))
	}
}
