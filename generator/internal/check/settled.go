package check

import (
	"fmt"
	"slices"
	"strings"

	"github.com/rlock-go/toolkit/generator/internal/analyze"
	"github.com/rlock-go/toolkit/generator/internal/script"
)

// settled says why a test always has the same outcome, and what to write instead.
func (c *checker) settled(t analyze.Test) string {
	switch {
	case t.Counts != "":
		return fmt.Sprintf("%s answers one value for each word that it is asked for, and false for a "+
			"missing one, so their number says nothing of what is stored; count the values that are not "+
			"false", t.Counts)
	case t.Fragile:
		return "if the command answers false, this raises an error, so it is never false; test the reply " +
			"itself, as in: local reply = redis.call(…); if reply then …"
	case t.Operator == "#":
		return fmt.Sprintf(
			"after redis.setresp(3), the reply of %s is not a list, but a table with the field %s; %s", commands(t),
			t.Fields[0], fieldUse(t.Fields[0]))
	case t.Operator == ".":
		return c.noField(t)
	case t.Operator == "":
		return c.truth(t.Left)
	case t.Operator == "==" || t.Operator == "~=":
		return c.equality(t)
	}
	return fmt.Sprintf("%s is compared with %s, but the value is 0 or 1, so the outcome is always the "+
		"same; write == 1 or == 0", analyze.DescribeValue(t.Left), analyze.DescribeValue(t.Right))
}

func commands(t analyze.Test) string { return strings.Join(t.Commands, " or ") }

// fieldUse says how to read a field that version 3 of the protocol adds.
func fieldUse(field string) string {
	switch field {
	case "map":
		return "write reply.map[name], or walk through it with pairs(reply.map)"
	case "set":
		return "write reply.set[member], or walk through it with pairs(reply.set)"
	}
	return "write reply." + field
}

// noField says that a script reads a field which the reply never has.
func (c *checker) noField(t analyze.Test) string {
	name, _ := t.Right.Str()
	switch {
	case name == "err":
		return fmt.Sprintf("redis.call raises an error in place of a reply, so err is always nil; write "+
			"redis.pcall, or leave the test out: an error of %s then ends the script", commands(t))
	case len(t.Fields) > 0:
		return fmt.Sprintf("the reply of %s has no such field, so this is always nil; it has %s: write "+
			"reply.%s", commands(t), strings.Join(t.Fields, " and "), t.Fields[0])
	case slices.Contains(t.Commands, "HGETALL"):
		return fmt.Sprintf("the reply of HGETALL is a list, with names and values in turn, so %s of it "+
			"is always nil; write redis.call('HGET', key, '%s')", name, name)
	case name != "":
		return fmt.Sprintf("the reply of %s is a list and has no field %s, so this is always nil; write "+
			"its index, as in reply[1]", commands(t), name)
	}
	return fmt.Sprintf("the reply of %s has no value at this index, so this is always nil; write an "+
		"index that it has: Lua counts from 1", commands(t))
}

// truth says why a value is always true or never true.
func (c *checker) truth(v analyze.Value) string {
	for _, k := range v.Kinds() {
		switch k := k.(type) {
		case analyze.Empty:
			p := c.entry(k.Index)
			return fmt.Sprintf("ARGV%s %s is optional: if it is absent, it is the empty string, which is true in "+
				"Lua; write ARGV%[1]s ~= ''", p, p.Name)
		case analyze.Arg:
			p := c.entry(k.Index)
			switch {
			case p != nil && p.Type.Base == "bool":
				return fmt.Sprintf("ARGV%s %s is a bool, which is sent as '1' or '0', and both are true in Lua; write "+
					"ARGV%[1]s == '1'", p, p.Name)
			case p != nil:
				return fmt.Sprintf("ARGV%s %s is always sent, and even the empty string is true in Lua; write ARGV%[1]s "+
					"~= ''", p, p.Name)
			}
		}
	}
	what := analyze.DescribeValue(v)
	switch v.Type() {
	case "number":
		how := "compare it, as in > 0"
		if v.All(func(k analyze.Kind) bool {
			n, is := k.(analyze.Number)
			return is &&
				n.Class == analyze.Binary
		}) {
			how = "write == 1, or == 0 for not"
		}
		return fmt.Sprintf("this is a number, and every number is true in Lua, 0 as well; %s", how)
	case "string":
		return fmt.Sprintf("%s is always true: in Lua every string is, also ''; write ~= ''", what)
	case "table":
		return "this is a table, and every table is true in Lua, even an empty one; for a list write " +
			"#list > 0, and for a status leave the test out"
	case "nil":
		return "this is always nil, so the condition is never true; mend its spelling, or leave it out"
	}
	return fmt.Sprintf("this is always %s, so the condition always has the same outcome; mend it, or "+
		"leave it out", what)
}

// equality says why two values are always equal or never equal.
func (c *checker) equality(t analyze.Test) string {
	left, right := t.Left, t.Right
	if c.argument(right) != nil {
		left, right = right, left
	}
	p := c.argument(left)
	l, r := there(left).Type(), there(right).Type()
	text, constant := right.Str()
	switch {
	case p != nil && p.Type.Base == "bool":
		return fmt.Sprintf("ARGV%s %s is a bool, which is sent as the string '1' or '0', so that it is never "+
			"equal to %s; write ARGV%[1]s == '1'", p, p.Name, analyze.DescribeValue(right))
	case p != nil && r == "number":
		return fmt.Sprintf("ARGV%s %s is a string here, as all arguments are, so that it is never equal to a "+
			"number; write tonumber(ARGV%[1]s)", p, p.Name)
	case p != nil && r == "boolean":
		return fmt.Sprintf("ARGV%s %s is a string here, as all arguments are, so that it is never equal to %s; "+
			"compare it with a string, or declare ARGV%[1]s as a bool and write == '1'", p, p.Name,
			analyze.DescribeValue(right))
	case p != nil && constant:
		how := fmt.Sprintf("compare the numbers: tonumber(ARGV%s)", p)
		switch {
		case text == "":
			how = fmt.Sprintf("leave the comparison out, or declare ARGV%s as a string, which may be empty", p)
		case !slices.Contains([]string{"int", "float", "duration", "time"}, p.Type.Base):
			how = "write a text that the type has, or declare another type"
		}
		return fmt.Sprintf("ARGV%s %s is of type %s, which is never sent as %q; %s", p, p.Name, p.Type, text, how)
	case l == "nil" && hasMissing(right) || r == "nil" && hasMissing(left):
		return "a command answers false for a missing value, never nil, so this is never true; compare " +
			"with false, or write not"
	case l == "table" && r == "string" || l == "string" && r == "table":
		return "a table is never equal to a string; compare the field ok of a status, or the elements of " +
			"a list"
	case l == "table" && r == "nil" || l == "nil" && r == "table":
		return "this is a table, never nil: where there is nothing, a list is empty; write #list == 0"
	case t.Left.MayBe(isKey) || t.Right.MayBe(isKey):
		return fmt.Sprintf("%s is never equal to %s: the call refuses an empty key; leave the comparison out",
			analyze.DescribeValue(t.Left), analyze.DescribeValue(t.Right))
	case l != r && l != "" && r != "":
		return fmt.Sprintf("%s is never equal to %s, as their types differ; convert one with tonumber or tostring",
			analyze.DescribeValue(t.Left), analyze.DescribeValue(t.Right))
	case l == "number" && t.Never == (t.Operator == "=="):
		return fmt.Sprintf("this is a number that is never equal to %s: it is 0 or 1, or has no fraction; compare "+
			"it with one that it may be", analyze.DescribeValue(right))
	}
	return fmt.Sprintf("%s and %s are compared, and the outcome is always the same; compare with a "+
		"possible value, or leave the comparison out", analyze.DescribeValue(t.Left),
		analyze.DescribeValue(t.Right))
}

// there drops nil and missing values. If nothing else is left, it returns the whole value.
func there(v analyze.Value) analyze.Value {
	w := v.Filter(func(k analyze.Kind) bool {
		_, missing := k.(analyze.Missing)
		return !missing && analyze.TypeOf(k) != "nil"
	})
	if w.Bottom() {
		return v
	}
	return w
}

func isKey(k analyze.Kind) bool { _, is := k.(analyze.Key); return is }

func hasMissing(v analyze.Value) bool {
	return v.MayBe(func(k analyze.Kind) bool { m, ok := k.(analyze.Missing); return ok && !m.Nil })
}

// argument returns the declared argument that a value certainly is.
func (c *checker) argument(v analyze.Value) *script.Param {
	var found *script.Param
	for _, k := range v.Kinds() {
		index := 0
		switch k := k.(type) {
		case analyze.Arg:
			if k.Number {
				return nil
			}
			index = k.Index
		case analyze.Empty:
			index = k.Index
		default:
			return nil
		}
		p := c.entry(index)
		if p == nil || found != nil && found != p {
			return nil
		}
		found = p
	}
	return found
}
