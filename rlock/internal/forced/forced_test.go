package forced_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/rlock/internal/forced"
)

// A call counts for its key from Begin to End, and leaves nearly all other keys alone.
func TestCounts(t *testing.T) {
	t.Parallel()
	var c forced.Counts
	c.Init()
	keys := []string{"a", "b"}
	before := c.Done(keys)
	require.Equal(t, before, c.Begun(keys))
	c.Begin("a")
	require.NotEqual(t, c.Done(keys), c.Begun(keys), "it is looking")
	c.End("a")
	require.NotEqual(t, before, c.Begun(keys), "it has begun since")
	require.Equal(t, c.Done(keys), c.Begun(keys))

	touched := 0
	for i := range 1000 {
		if c.Begun([]string{fmt.Sprint(i)}) != 0 {
			touched++
		}
	}
	require.Less(t, touched, 100)
}
