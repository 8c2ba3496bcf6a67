package leftover_test

import (
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/rlock/internal/clock"
	"github.com/rlock-go/toolkit/rlock/internal/leftover"
)

func TestTokens(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var tokens leftover.Tokens
		require.Empty(t, tokens.Take("k"))
		tokens.Add([]string{"k", "l", "m"}, []string{"former", "token"}, clock.Now().After(time.Second))
		require.Equal(t, []string{"former", "token"}, tokens.Take("k"))
		require.Empty(t, tokens.Take("k"), "it was taken")
		require.Empty(t, tokens.Take("other"))
		tokens.Add([]string{"l"}, []string{"next"}, clock.Now().After(time.Second))
		require.Equal(t, []string{"next"}, tokens.Take("l"))
		time.Sleep(time.Second)
		require.Empty(t, tokens.Take("m"), "it is over")
	})
}

// However many come, those that are over do not stay.
func TestTokensThatAreOverGo(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var tokens leftover.Tokens
		for i := range 10_000 {
			tokens.Add([]string{strconv.Itoa(i)}, []string{"token"}, clock.Now().After(time.Second))
			time.Sleep(10 * time.Millisecond)
			require.LessOrEqual(t, tokens.Len(), 2*101)
		}
	})
}

// A token that is dropped is forgotten, and only that.
func TestDrop(t *testing.T) {
	t.Parallel()
	var tokens leftover.Tokens
	tokens.Drop([]string{"k"}, "token")
	until := clock.Now().After(time.Hour)
	tokens.Add([]string{"k", "l"}, []string{"former", "token"}, until)
	tokens.Add([]string{"m"}, []string{"other"}, until)
	tokens.Drop([]string{"k", "m"}, "token")
	require.Empty(t, tokens.Take("k"))
	require.Equal(t, []string{"former", "token"}, tokens.Take("l"))
	require.Equal(t, []string{"other"}, tokens.Take("m"))
}
