package env_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/rlock_test/env"
)

func TestRestart(t *testing.T) {
	env.Each(t, func(t *testing.T, e env.Engine) {
		for name, persistent := range map[string]bool{"with data": true, "without": false} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				var args []string
				if persistent {
					args = []string{"--appendonly", "yes", "--appendfsync", "always"}
				}
				s := e.Start(t, args...)
				client := s.Client(t)
				s.Do(t, "SET", "k", "v")
				for range 3 {
					s.Kill()
					s.Restart(t)
					require.Equal(t, persistent, number(t, s.Do(t, "EXISTS", "k")) == 1)
					env.Soon(t, func() bool {
						return client.Do(t.Context(), client.B().Ping().Build()).Error() == nil
					}, "a client finds it again")
				}
			})
		}
	})
}
