package script

import (
	"strings"

	"github.com/yuin/gopher-lua/ast"
)

// Tokens knows the columns of words, because the syntax tree has lines only. In the order of the text, the
// n-th use of a word on a line is its n-th token.
type Tokens struct {
	columns map[word][]int
	first   map[int]int // line -> column of its first token

	refused []refused
}

type word struct {
	line int
	text string
}

// scan reads the tokens of a source that parses.
func scan(source string) *Tokens {
	t := &Tokens{columns: map[word][]int{}, first: map[int]int{}}
	rules := grammar{lines: strings.Split(source, "\n")}
	tokens(source, func(token ast.Token) {
		if complaint := rules.see(token); complaint != "" {
			t.refused = append(t.refused, refused{Pos{token.Pos.Line, token.Pos.Column}, complaint})
		}
		if _, seen := t.first[token.Pos.Line]; !seen {
			t.first[token.Pos.Line] = token.Pos.Column
		}
		w := word{token.Pos.Line, token.Str}
		t.columns[w] = append(t.columns[w], token.Pos.Column)
	})
	return t
}

// Line returns the place of the first token on a line.
func (t *Tokens) Line(line int) Pos {
	return Pos{Line: line, Column: max(1, t.first[line])}
}

// Finder returns a Finder that starts at the beginning of the text.
func (t *Tokens) Finder() *Finder { return &Finder{tokens: t, used: map[word]int{}} }

// Finder returns the places of a repeated word one after the other. So its caller has to ask for words in the
// order of the text.
type Finder struct {
	tokens *Tokens
	used   map[word]int
}

// Find returns the place of the next use of text on the line of node. If there is none, it returns the place
// of the first token on the line.
func (f *Finder) Find(node ast.PositionHolder, text string) Pos {
	w := word{node.Line(), text}
	n := f.used[w]
	f.used[w]++
	if columns := f.tokens.columns[w]; n < len(columns) {
		return Pos{Line: w.line, Column: columns[n]}
	}
	return f.tokens.Line(w.line)
}
