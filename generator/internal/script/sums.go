package script

import (
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
)

// SHA1 returns the sum by which a server knows the text that runs, in hexadecimal.
func (s *Script) SHA1() string {
	sum := sha1.Sum([]byte(s.Source))
	return hex.EncodeToString(sum[:])
}

// SHA256 returns the sum with which a person may identify it, in hexadecimal.
func (s *Script) SHA256() string {
	sum := sha256.Sum256([]byte(s.Source))
	return hex.EncodeToString(sum[:])
}
