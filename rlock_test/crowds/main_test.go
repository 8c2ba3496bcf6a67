// Package crowds has tests of many processes that want the same keys. They run beside no other package, which
// would be late with them, and they with it.
package crowds

import (
	"testing"

	"github.com/rlock-go/toolkit/rlock_test/env"
)

func TestMain(m *testing.M) { env.Main(m, env.Programs{waiter: waitFor}) }
