package remote

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// A refusal counts for its key, or for all keys, and is forgotten after Patience.
func TestRefusalsCountWhereTheyBelong(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var r refusals
		require.False(t, r.count("a"))
		r.note("a", true)
		require.True(t, r.count("a"))
		require.False(t, r.count("b"))
		time.Sleep(Patience / 2)
		r.note("b", false)
		require.True(t, r.count("c"), "there is no queue at all")
		time.Sleep(Patience / 2)
		require.True(t, r.count("a"))
		time.Sleep(Patience / 2)
		for _, key := range []string{"a", "b", "c"} {
			require.False(t, r.count(key), "somebody may have granted the right")
		}
	})
}

// The memory is bounded. While it is full, unknown keys count as refused, and those that are known to
// work do not.
func TestRefusalsAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var r refusals
		r.note("bad", true)
		r.worked("good")
		for i := range 10 * mostUsable {
			if i == mostRefused/2 {
				time.Sleep(Patience / 2)
			}
			if key := fmt.Sprint(i); !r.count(key) {
				r.note(key, true)
			}
		}
		require.Len(t, r.keys, mostRefused)
		require.True(t, r.count("unknown"))
		require.False(t, r.count("good"))
		r.note("good", true) // the right is gone
		require.True(t, r.count("good"))
		time.Sleep(Patience / 2)
		require.False(t, r.count("unknown"), "half of them are forgotten")
		for i := range 10 * mostUsable {
			r.worked(fmt.Sprint(i))
		}
		require.Len(t, r.usable, mostUsable)
		time.Sleep(Patience)
		require.False(t, r.count("unknown"))
		r.note("unknown", true)
		require.Len(t, r.keys, 1)
		require.Len(t, r.order, 1)
	})
}

// What servers say of the right that is missing.
func TestWhatARefusalIsAbout(t *testing.T) {
	t.Parallel()
	for text, about := range map[string]struct{ oneKey, onCluster bool }{
		"NOPERM this user has no permissions to run the 'evalsha' command":                                                 {},
		"NOPERM User keys has no permissions to run the 'zadd' command":                                                    {},
		"The user executing the script can't run this command or subcommand script: 1":                                     {},
		"ACL failure in script: User u has no permissions to run the 'zadd' command":                                       {},
		"NOPERM this user has no permissions to access one of the keys used as arguments":                                  {true, true},
		"NOPERM No permissions to access a key":                                                                            {true, true},
		"The user executing the script can't access at least one of the keys mentioned in the command arguments script: 1": {true, true},
		"ACL failure in script: No permissions to access a key script: 1":                                                  {true, true},
		"NOPERM this user has no permissions to access one of the channels used as arguments":                              {false, true},
		"The user executing the script can't publish to the channel mentioned in the command script: 1":                    {false, true},
		"ACL failure in script: No permissions to access a channel script: 1":                                              {false, true},
		"no such key": {},
	} {
		require.Equal(t, about.oneKey, ofOneKey(serverError(text), false), text)
		require.Equal(t, about.onCluster, ofOneKey(serverError(text), true), text)
	}
}
