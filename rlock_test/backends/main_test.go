package backends

import (
	"testing"

	"github.com/rlock-go/toolkit/rlock_test/env"
)

func TestMain(m *testing.M) { env.Main(m, nil) }
