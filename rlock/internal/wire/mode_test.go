package wire

import (
	"io"
	"testing"

	"github.com/stretchr/testify/require"
)

// Without a choice, the first refusal ends the use of the queue, unless the key is forbidden altogether.
func TestMode(t *testing.T) {
	t.Parallel()
	forbidden, moves := serverError("NOPERM No permissions to access a key"), serverError("TRYAGAIN")
	for name, test := range map[string]struct {
		chosen           Mode
		refusal, without error
		releases         bool
		goes, queued     bool
	}{
		"no choice, and a right is missing": {refusal: forbidden, goes: true},
		"the key is forbidden":              {refusal: forbidden, without: forbidden, goes: true, queued: true},
		"there is no answer without it":     {refusal: forbidden, without: io.EOF, goes: true, queued: true},
		"the fence may be forbidden":        {refusal: forbidden, releases: true, goes: true, queued: true},
		"a command is missing": {
			refusal: serverError("NOPERM User u has no permissions to run the 'zadd' command"), releases: true,
			goes: true,
		},
		"the slot moves":                    {refusal: moves, goes: true, queued: true},
		"another error":                     {refusal: serverError("OOM"), queued: true},
		"the queue, and a right is missing": {chosen: Queued, refusal: forbidden, queued: true},
		"the queue, and the slot moves":     {chosen: Queued, refusal: moves, goes: true, queued: true},
		"no queue":                          {chosen: Polling, refusal: forbidden},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := &queueing{}
			m.chosen = test.chosen
			require.Equal(t, test.chosen != Polling, m.queued())
			require.Equal(t, test.goes, m.goesWithout(test.refusal))
			if test.goes {
				_, _ = withQueue(m, test.releases, func() (bool, error) { return true, test.refusal },
					func() (bool, error) { return true, test.without })
			}
			require.Equal(t, test.queued, m.queued())
		})
	}
}

// What servers say of the right that is missing.
func TestWhatARefusalIsAbout(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"NOPERM this user has no permissions to access one of the keys used as arguments",
		"NOPERM No permissions to access a key",
		"The user executing the script can't access at least one of the keys " +
			"mentioned in the command arguments script: 1",
		"ACL failure in script: No permissions to access a key script: 1",
	} {
		require.True(t, ofOneKey(serverError(text)), text)
	}
	for _, text := range []string{
		"NOPERM this user has no permissions to run the 'evalsha' command",
		"NOPERM User keys has no permissions to run the 'zadd' command",
		"The user executing the script can't run this command or subcommand script: 1",
		"ACL failure in script: User u has no permissions to run the 'zadd' command",
		"NOPERM this user has no permissions to access one of the channels used as arguments",
		"The user executing the script can't publish to the channel mentioned in the command script: 1",
		"ACL failure in script: No permissions to access a channel script: 1",
		"no such key",
	} {
		require.False(t, ofOneKey(serverError(text)), text)
	}
}
