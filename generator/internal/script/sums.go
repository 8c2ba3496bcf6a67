package script

import (
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
)

// SHA1 returns the sum of the text that runs, in hexadecimal. A server knows the text by it.
func (s *Script) SHA1() string {
	sum := sha1.Sum([]byte(s.Source))
	return hex.EncodeToString(sum[:])
}

// SHA256 returns the sum of the text that runs, in hexadecimal. A person knows the text by it.
func (s *Script) SHA256() string {
	sum := sha256.Sum256([]byte(s.Source))
	return hex.EncodeToString(sum[:])
}
