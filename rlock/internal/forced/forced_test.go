package forced_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/rlock/internal/clock"
	"github.com/rlock-go/toolkit/rlock/internal/forced"
)

// A token is remembered for a minute from when it was freed last.
func TestTokens(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var tokens forced.Tokens
		is := func(token string) bool {
			_, was := tokens.Freed(token)
			return was
		}
		require.False(t, is("a"))
		tokens.Add("a")
		require.True(t, is("a"))
		require.False(t, is("b"))
		time.Sleep(40 * time.Second)
		tokens.Add("b")
		time.Sleep(20 * time.Second)
		require.False(t, is("a"))
		tokens.Add("b")
		at, was := tokens.Freed("b")
		require.True(t, was)
		require.Equal(t, clock.Now(), at)
	})
}
