package remote

import (
	"crypto/rand"

	"github.com/google/uuid"
)

// NewToken returns a new token: a version 4 UUID, which has 122 random bits, with the
// owner's text behind one space if there is one. The UUID is uuid.NewString but for one
// allocation.
func NewToken(owner string) string {
	var id uuid.UUID
	rand.Read(id[:]) // never fails
	id[6] = id[6]&0x0f | 0x40
	id[8] = id[8]&0x3f | 0x80
	if owner == "" {
		return id.String()
	}
	return id.String() + " " + owner
}
