package luaimpl_test

import (
	"testing"

	"github.com/redis/rueidis"

	"github.com/rlock-go/toolkit/redislua/luaimpl"
	"github.com/rlock-go/toolkit/rlock/rlocktest"
)

func TestMain(m *testing.M) {
	luaimpl.Option = func(t *testing.T) rueidis.ClientOption {
		t.Helper()
		return rlocktest.Start(t).Option()
	}
	m.Run()
}
