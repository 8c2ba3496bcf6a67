// Package shared tests locks that are shared: by readers, and by holders of permits.
package shared

import (
	"testing"

	"github.com/rlock-go/toolkit/rlock_test/env"
)

func TestMain(m *testing.M) { env.Main(m, nil) }
