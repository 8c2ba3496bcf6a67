package redislua

import "fmt"

// ParamError reports an argument that a call refuses. The call has sent nothing.
type ParamError struct {
	Package string // of the bindings
	Script  string
	Param   string // name in the script's header
	Reason  string // what is wrong with the argument, and what is right
}

func (e *ParamError) Error() string {
	return e.Package + ": " + e.Script + ": " + e.Param + ": " + e.Reason
}

// CrossSlotError reports keys that a Redis Cluster keeps in different slots. No script can use them
// together. The call has sent nothing.
type CrossSlotError struct {
	Package string // of the bindings
	Script  string
	Keys    [2]string
	Slots   [2]uint16
}

func (e *CrossSlotError) Error() string {
	return fmt.Sprintf(
		"%s: %s: keys %.80q (slot %d) and %.80q (slot %d) are in different slots; give them the same {hash tag}",
		e.Package, e.Script, e.Keys[0], e.Slots[0], e.Keys[1], e.Slots[1])
}

// ReplyError reports an answer of another shape than the script's header declares. The script has run.
type ReplyError struct {
	Package string // of the bindings
	Script  string
	Field   string // name in the script's header; empty: the whole reply
	Reason  error
}

func (e *ReplyError) Error() string {
	if e.Field == "" {
		return e.Package + ": " + e.Script + ": reply " + e.Reason.Error()
	}
	return e.Package + ": " + e.Script + ": reply field " + e.Field + " " + e.Reason.Error()
}

func (e *ReplyError) Unwrap() error { return e.Reason }
