package try

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"

	"github.com/rlock-go/toolkit/generator/internal/script"
)

// input is one call of a script: the data before it, earlier calls of the script, and its words.
type input struct {
	keys    []keyWord
	args    []argWord
	earlier int   // the number of earlier calls, with the plainest arguments
	level   level // of the numbers of words
}

type keyWord struct {
	param script.Param
	name  string
	content
}

type argWord struct {
	param script.Param
	value
}

// strange returns the level of the strangest argument.
func (in input) strange() level {
	most := in.level
	for _, a := range in.args {
		most = max(most, a.level)
	}
	return most
}

// large reports whether an argument may let the script loop for a long time.
func (in input) large() bool {
	return slices.ContainsFunc(in.args, func(a argWord) bool { return a.large })
}

// foreign reports whether a key has data that no program that follows the header could write.
func (in input) foreign() bool {
	return slices.ContainsFunc(in.keys, func(k keyWord) bool { return k.foreign })
}

// guessed reports whether a key has data that the script did not write itself.
func (in input) guessed() bool {
	return slices.ContainsFunc(in.keys, func(k keyWord) bool { return k.kind != "" })
}

func (in input) names() []string {
	names := []string{}
	for _, k := range in.keys {
		names = append(names, k.name)
	}
	return names
}

func (in input) words() []string {
	words := []string{}
	for _, a := range in.args {
		words = append(words, a.text)
	}
	return words
}

// fields returns names in hashes and members of sets that the script does not name.
func (in input) fields(h hints) []string {
	fields := slices.Clone(h.fields)
	for _, a := range in.args {
		if isText(a.param) && !slices.Contains(fields, a.text) {
			fields = append(fields, a.text)
		}
	}
	return fields
}

// String describes the input at the end of a message. The zero input stands for all calls.
func (in input) String() string {
	if len(in.keys)+len(in.args) == 0 {
		return ""
	}
	var parts []string
	if in.earlier > 0 {
		parts = append(parts, "one earlier call")
		if in.earlier > 1 {
			parts[0] = fmt.Sprintf("%d earlier calls", in.earlier)
		}
	}
	for _, k := range in.keys {
		if k.kind != "" {
			parts = append(parts, strings.TrimPrefix(k.name, prefix)+" is "+k.String())
		}
	}
	if len(parts) == 0 && len(in.keys) > 0 {
		parts = append(parts, "no key exists")
	}
	for n, a := range in.args {
		name := a.param.Name
		if a.param.Variadic {
			name = fmt.Sprintf("%s[%d]", name, n+2-a.param.Index)
		}
		if !a.param.Skipped {
			parts = append(parts, name+" = "+quote(a.text))
		}
	}
	if n := len(parts) - shown; n > 1 {
		parts = append(parts[:shown], fmt.Sprintf("and %d more", n))
	}
	return " (input: " + strings.Join(parts, ", ") + ")"
}

// shown is how many parts of an input a message names.
const shown = 8

// space has all inputs of a script.
type space struct {
	script   *script.Script
	counts   []count
	contents [][]content // of each entry of KEYS
	values   [][]value   // of each entry of ARGV
}

// spaceOf returns the inputs of a script. large says that it may use values after which the run may have to
// kill the server.
func spaceOf(s *script.Script, h hints, large bool) *space {
	p := &space{script: s, counts: countsOf(s)}
	for _, k := range s.Keys {
		p.contents = append(p.contents, h.contentsOf(s, k))
	}
	for _, a := range s.Args {
		values := valuesOf(a)
		if !large {
			values = slices.DeleteFunc(values, func(v value) bool { return v.large })
		}
		p.values = append(p.values, values)
	}
	return p
}

// choice is an input as numbers: the earlier calls, the count of words, and the value of each entry.
type choice struct {
	earlier, count int
	keys, args     []int
}

func (p *space) input(c choice) input {
	count := p.counts[c.count]
	in := input{earlier: c.earlier, level: count.level}
	for i, k := range p.script.Keys {
		for n := range words(k, count) {
			name := prefix + k.Name
			if k.Variadic {
				name += ":" + strconv.Itoa(n+1)
			}
			has := p.contents[i][c.keys[i]]
			if n > 0 {
				has.size = min(has.size, 2) // one long list is enough
			}
			if has.sparse && n%2 == 1 {
				has = content{}
			}
			if has.like > 0 {
				has.text = p.values[has.like-1][c.args[has.like-1]].text
			}
			in.keys = append(in.keys, keyWord{k, name, has})
		}
	}
	for i, a := range p.script.Args {
		for n := range words(a, count) {
			v := p.values[i][c.args[i]]
			if n > 0 && isText(a) { // the values are often names, and each name comes once
				v = value{text: p.values[i][0].text + strconv.Itoa(n+1)}
			}
			in.args = append(in.args, argWord{a, v})
		}
	}
	return in
}

func words(p script.Param, c count) int {
	if p.Variadic {
		return c.n
	}
	return 1
}

// plainest is the input with missing keys and the first value of each argument.
func (p *space) plainest() choice {
	return choice{keys: make([]int, len(p.contents)), args: make([]int, len(p.values))}
}

// calls is the largest number of earlier calls.
const calls = 2

// factors returns how many values each number of a choice has.
func (p *space) factors() []int {
	sizes := []int{calls + 1, len(p.counts)}
	for _, c := range p.contents {
		sizes = append(sizes, len(c))
	}
	for _, v := range p.values {
		sizes = append(sizes, len(v))
	}
	return sizes
}

// with returns the choice with another number for one factor.
func (c choice) with(factor, n int) choice {
	c.keys, c.args = slices.Clone(c.keys), slices.Clone(c.args)
	switch at := factor - 2; {
	case factor == 0:
		c.earlier = n
	case factor == 1:
		c.count = n
	case at < len(c.keys):
		c.keys[at] = n
	default:
		c.args[at-len(c.keys)] = n
	}
	return c
}

// choices returns the inputs to try. First it varies each factor alone, with missing keys and plain
// arguments. Then it varies each argument alone, after an earlier call, and with data in each key. At last it
// adds some inputs with random values.
func (p *space) choices(seed uint64, more int) []choice {
	called, filled := p.plainest(), p.plainest()
	called.earlier = 1
	for i := range filled.keys {
		filled.keys[i] = min(1, len(p.contents[i])-1)
	}
	var all []choice
	seen := map[string]bool{}
	add := func(c choice) {
		if text := fmt.Sprint(c); !seen[text] {
			seen[text] = true
			all = append(all, c)
		}
	}
	factors := p.factors()
	for i, background := range []choice{p.plainest(), called, filled} {
		add(background)
		for factor, size := range factors {
			if i > 0 && factor < 2+len(p.contents) {
				continue
			}
			for n := range size {
				add(background.with(factor, n))
			}
		}
	}
	random := rand.New(rand.NewPCG(seed, 0))
	for range more {
		c := p.plainest()
		for factor, size := range factors {
			n := random.IntN(size)
			if factor == 1 && random.IntN(4) > 0 { // most inputs have an ordinary number of words
				n = 0
			}
			c = c.with(factor, n)
		}
		add(c)
	}
	return all
}

// plain returns the call with the plainest arguments and the same number of words.
func (p *space) plain(in input) input {
	for i, a := range p.script.Args {
		for n := range in.args {
			if in.args[n].param.Index == a.Index {
				in.args = slices.Clone(in.args)
				in.args[n].value = p.values[i][0]
			}
		}
	}
	return in
}

func (p *space) keys() []keyWord {
	c := p.plainest()
	var keys []keyWord
	for n := range p.counts {
		c.count = n
		if all := p.input(c).keys; len(all) > len(keys) {
			keys = all
		}
	}
	return keys
}
