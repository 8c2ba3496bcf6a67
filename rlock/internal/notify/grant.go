package notify

import (
	"math"
	"time"
)

// Grant is the message by which the server gives a lock to the process that waits first.
type Grant struct {
	Key, Token string
	Fence      uint64
	Lease      time.Duration // at least a millisecond
	Waiting    int           // how many other places wait
}

// maxDigits is the number of digits that a script can use for whole numbers. A script counts in floating
// point.
const maxDigits = 16

// readGrant reads the message of a grant, and reports whether text has its form. The form is "<lease>
// <fence> <how many wait> <bytes of the key> <key> <token>", with the lease in milliseconds. The key and
// the token may have any bytes. In the Grant they are parts of text.
func readGrant(text string) (g Grant, ok bool) {
	var numbers [4]int64
	for i := range numbers {
		n := 0
		for n < len(text) && n < maxDigits && '0' <= text[n] && text[n] <= '9' {
			numbers[i] = 10*numbers[i] + int64(text[n]-'0')
			n++
		}
		if n == 0 || n == len(text) || text[n] != ' ' {
			return Grant{}, false
		}
		text = text[n+1:]
	}
	lease, fence, waiting, size := numbers[0], numbers[1], numbers[2], numbers[3]
	if lease == 0 || lease > math.MaxInt64/int64(time.Millisecond) || waiting > math.MaxInt32 {
		return Grant{}, false
	}
	if size >= int64(len(text))-1 || text[size] != ' ' { // the token has at least one byte
		return Grant{}, false
	}
	return Grant{
		Key: text[:size], Token: text[size+1:], Fence: uint64(fence),
		Lease: time.Duration(lease) * time.Millisecond, Waiting: int(waiting),
	}, true
}
