package rlock_test

import (
	"testing"

	"github.com/rlock-go/toolkit/rlock_test/env"
)

func TestMain(m *testing.M) {
	env.Main(m, env.Programs{
		competitor: compete,
		sleeper:    oversleep,
		victim:     holdForEver,
		strict:     lockStrictly,
		crowder:    crowd,
	})
}
