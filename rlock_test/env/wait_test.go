package env_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/rlock_test/env"
)

func TestGate(t *testing.T) {
	passed := make(chan struct{})
	for name, open := range map[string]func(*env.Gate){"opened": (*env.Gate).Open, "by the end of the test": func(*env.Gate) {}} {
		t.Run(name, func(t *testing.T) {
			gate := env.NewGate(t)
			go func() {
				gate.Pass()
				passed <- struct{}{}
			}()
			gate.Await(t)
			require.Empty(t, passed)
			open(gate)
		})
		env.Receive(t, passed)
	}
}
