package try

// check is what a test demands of a call.
type check int

const (
	mustDecode check = iota
	mustNotFail
	mustNotChange
)
