package command

import (
	"fmt"
	"slices"
	"strings"
	"sync"
)

// Reply is an answer of a command.
type Reply struct {
	Form   Form
	Unit   Type     // of a whole number: Seconds or the like; empty: it is not a time
	Elem   *Reply   // of a list, a set, or the values of pairs
	Elems  []*Reply // of a tuple
	OrNil  bool     // nil if the value is missing
	Single bool     // of scored members: at most one, which is not a list of pairs in version 3
}

type Form string

// The forms. Each has its name in a row.
const (
	Int      Form = "int"      // an integer
	Bit      Form = "bit"      // 0 or 1
	Text     Form = "text"     // any string
	Blank    Form = "blank"    // any string; empty for a missing value
	Sent     Form = "sent"     // a word of the call
	Label    Form = "label"    // a name from the server, which is not a keyword
	Whole    Form = "whole"    // a string that is a whole number
	Decimal  Form = "decimal"  // a string that is a number, and is whole if the stored number is whole
	Real     Form = "real"     // a string that is a number
	Score    Form = "score"    // a double, which is a string in version 2
	Float    Form = "float"    // a double that may have a fraction even if the stored number is whole
	OK       Form = "ok"       // the status OK
	Status   Form = "status"   // another status
	Verbatim Form = "verbatim" // a text, which is a table in version 3
	List     Form = "list"     // [x]
	Set      Form = "set"      // {x}: a list in version 2
	Tuple    Form = "tuple"    // (x y)
	Map      Form = "map"      // map x: names and values in turn in version 2
	Flat     Form = "flat"     // flat x: names and values in turn
	Scored   Form = "scored"   // scored x: members with their scores in turn, pairs in version 3
	Streams  Form = "streams"  // streams x: pairs of names and values in version 2, a map in version 3
)

// Replies returns the possible answers of the call. It is empty if the answer is unknown.
func (c Command) Replies(m *Match) []*Reply {
	if !m.OK {
		return nil
	}
	var all []*Reply
	for _, row := range c.replies() {
		surely, perhaps := true, true
		if len(row.if_) > 0 {
			surely, perhaps = m.Has(row.if_...)
		}
		if row.once != "" && !m.Once(row.once) {
			surely, perhaps = false, false
		}
		if !perhaps {
			continue
		}
		reply := row.reply(m)
		if reply == nil {
			return nil
		}
		all = append(all, reply)
		if surely {
			break
		}
	}
	return all
}

// replyRow is the answer of a command under a condition.
type replyRow struct {
	if_   []string // the call has a word in one of these places
	once  string   // the call has at most one word in this place
	parts replyNode
}

// replyNode is a reply. Some elements exist only if the call has a word in a place.
type replyNode struct {
	Reply
	elem  *replyNode
	elems []replyNode
	if_   string
}

// reply builds the reply for a call; nil: its elements are unknown.
func (r replyRow) reply(m *Match) *Reply { return r.parts.build(m) }

func (n replyNode) build(m *Match) *Reply {
	reply := n.Reply
	if n.elem != nil {
		if reply.Elem = n.elem.build(m); reply.Elem == nil {
			return nil
		}
	}
	for _, e := range n.elems {
		if e.if_ != "" {
			surely, perhaps := m.Has(e.if_)
			if !perhaps {
				continue
			}
			if !surely {
				return nil
			}
		}
		elem := e.build(m)
		if elem == nil {
			return nil
		}
		reply.Elems = append(reply.Elems, elem)
	}
	return &reply
}

var parsedReplies sync.Map // name -> []replyRow

func (c Command) replies() []replyRow {
	if rows, ok := parsedReplies.Load(c.Name); ok {
		return rows.([]replyRow)
	}
	rows, err := parseReplies(facts[c.Name].Reply)
	if err != nil {
		panic("command: " + c.Name + ": " + err.Error()) // TestRows parses all
	}
	parsedReplies.Store(c.Name, rows)
	return rows
}

// parseReplies reads rows such as "GET: text?; NX, XX: ok?; 1 member: bit; int". The first row with a true
// condition is the reply. A condition is true if the call has a word in one of its places. If 1 is before a
// place, the call has at most one word there.
func parseReplies(text string) ([]replyRow, error) {
	var rows []replyRow
	for part := range strings.SplitSeq(text, ";") {
		if part = strings.TrimSpace(part); part == "" {
			continue
		}
		var row replyRow
		if condition, rest, found := strings.Cut(part, ": "); found {
			part = rest
			if once, is := strings.CutPrefix(condition, "1 "); is {
				row.once = once
			} else {
				row.if_ = strings.Split(condition, ", ")
			}
		}
		for _, mark := range []string{"[", "]", "{", "}", "(", ")", "?"} {
			part = strings.ReplaceAll(part, mark, " "+mark+" ")
		}
		tokens := strings.Fields(part)
		n, err := parseReply(&tokens)
		if err == nil && len(tokens) > 0 {
			err = fmt.Errorf("%q is behind the reply", tokens[0])
		}
		if err != nil {
			return nil, err
		}
		row.parts = n
		rows = append(rows, row)
	}
	return rows, nil
}

var (
	spans = []Type{Seconds, Millis, UnixSeconds, UnixMillis, "unix-s-text", "us-text"}
	plain = []Form{Int, Bit, Text, Blank, Sent, Label, Whole, Decimal, Real, Score, Float, OK, Status, Verbatim}
)

func parseReply(tokens *[]string) (n replyNode, err error) {
	next := func() string {
		if len(*tokens) == 0 {
			return ""
		}
		token := (*tokens)[0]
		*tokens = (*tokens)[1:]
		return token
	}
	token := next()
	if condition, rest, found := strings.Cut(token, "="); found {
		n.if_, token = condition, rest
		if token == "" {
			token = next()
		}
	}
	closing := map[string]string{"[": "]", "{": "}", "(": ")"}[token]
	switch {
	case slices.Contains(spans, Type(token)):
		n.Form, n.Unit = Int, Type(token)
		if unit, is := strings.CutSuffix(token, "-text"); is {
			n.Form, n.Unit = Whole, Type(unit)
		}
	case slices.Contains(plain, Form(token)):
		n.Form = Form(token)
	case token == string(Map), token == string(Flat), token == string(Scored), token == string(Streams),
		token == "one":
		n.Form = Form(token)
		if token == "one" {
			n.Form, n.Single = Scored, true
		}
		elem, err := parseReply(tokens)
		if err != nil {
			return n, err
		}
		n.OrNil, elem.OrNil = elem.OrNil || n.Form == Streams, false
		n.elem = &elem
		return n, nil
	case closing != "":
		n.Form = map[string]Form{"[": List, "{": Set, "(": Tuple}[token]
		for len(*tokens) > 0 && (*tokens)[0] != closing {
			elem, err := parseReply(tokens)
			if err != nil {
				return n, err
			}
			n.elems = append(n.elems, elem)
		}
		if next() != closing {
			return n, fmt.Errorf("%q is missing", closing)
		}
		if n.Form != Tuple {
			if len(n.elems) != 1 {
				return n, fmt.Errorf("%s has %d elements", token, len(n.elems))
			}
			n.elem, n.elems = &n.elems[0], nil
		}
	default:
		return n, fmt.Errorf("%q is no reply", token)
	}
	if len(*tokens) > 0 && (*tokens)[0] == "?" {
		next()
		n.OrNil = true
	}
	return n, nil
}
