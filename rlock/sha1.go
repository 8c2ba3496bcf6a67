package rlock

import "crypto/sha1"

// sha1Refused reports whether crypto/sha1 panics, as it does under GODEBUG=fips140=only.
// A Locker then asks the server for the sums of its scripts instead of computing them.
// It tries, because Go 1.25 has no function that tells (fips140.Enforced is of Go 1.26).
func sha1Refused() (refused bool) {
	defer func() { refused = recover() != nil }()
	sha1.Sum(nil)
	return false
}
