package wire

import (
	"crypto/sha1"

	"github.com/redis/rueidis"

	"github.com/rlock-go/toolkit/gen"
)

// Scripts returns the scripts as this module calls them: what gets no answer is repeated here, with
// what is known of it, and not by package gen.
func Scripts() *gen.Scripts {
	return gen.New(gen.WithoutRetry(), gen.WithLuaOptions(rueidis.WithLoadSHA1(sha1Refused())))
}

// sha1Refused reports whether crypto/sha1 panics, as it does under GODEBUG=fips140=only.
// Scripts then asks the server for the sums of the scripts instead of computing them.
// It tries, because Go 1.25 has no function that tells (fips140.Enforced is of Go 1.26).
func sha1Refused() (refused bool) {
	defer func() { refused = recover() != nil }()
	sha1.Sum(nil)
	return false
}
