package rlockmem_test

import (
	"testing"

	"github.com/rlock-go/toolkit/rlock"
	"github.com/rlock-go/toolkit/rlock/backendtest"
	"github.com/rlock-go/toolkit/rlock/rlockmem"
)

func TestBackend(t *testing.T) {
	t.Parallel()
	b := rlockmem.New()
	backendtest.Run(t, func(*testing.T) rlock.Backend { return b })
}
