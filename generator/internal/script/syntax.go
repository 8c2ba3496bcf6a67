package script

import (
	"regexp"

	"github.com/yuin/gopher-lua/ast"
	"github.com/yuin/gopher-lua/parse"

	"github.com/rlock-go/toolkit/generator/internal/finding"
)

// syntax refuses text that gopher-lua accepts, and that Lua 5.1 in Redis refuses or reads differently.
func (s *Script) syntax() []finding.Finding {
	var findings []finding.Finding
	for _, bad := range s.Tokens.refused {
		findings = append(findings, s.Findf(bad.pos, "%s", bad.complaint))
	}
	scanner := stringScanner{text: s.Source, line: 1}
	for scanner.next() {
		findings = append(findings, s.Findf(scanner.pos(), "%s", scanner.complaint))
	}
	return findings
}

type refused struct {
	pos       Pos
	complaint string
}

// grammar finds tokens that Lua 5.1 refuses and gopher-lua accepts. They are a parenthesis that opens a line
// after something callable, a semicolon that ends no statement, a comma without an item in front, and a
// malformed number.
type grammar struct {
	lines      []string
	before     ast.Token
	callable   bool   // the last token ends something callable
	names      bool   // within the names of a local statement
	function   bool   // between the word function and its parameters
	parameters bool   // within the parameters of a function
	opens      bool   // the last token opens a block, or is a semicolon
	tables     []bool // open braces; true: the table is the argument of a call
}

var luaNumber = regexp.MustCompile(`^(0[xX][0-9a-fA-F]+|([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?)$`)

// see takes the next token, and says what is wrong with it.
func (g *grammar) see(token ast.Token) (complaint string) {
	callable, opens := g.callable, g.opens || g.before.Type == 0
	g.callable, g.opens = false, false
	switch token.Type {
	case parse.TFunction:
		g.function, g.names = true, false
	case parse.TLocal:
		g.names = true
	case '(':
		if callable && !g.function && token.Pos.Line > g.before.Pos.Line {
			complaint = "this parenthesis may open a call of the line above or a new statement, which Lua 5.1 " +
				"refuses; join the lines, or put a semicolon between them"
		}
		g.names = false
		g.parameters = g.function
		g.function = false
	case ')':
		g.callable, g.opens = !g.parameters, g.parameters
		g.parameters = false
	case '{':
		g.tables = append(g.tables, callable)
		g.names = false
	case '}':
		if last := len(g.tables) - 1; last >= 0 {
			g.callable = g.tables[last]
			g.tables = g.tables[:last]
		}
	case parse.TString:
		g.callable = callable
	case ']':
		g.callable = true
	case parse.TIdent:
		// In local a b = 1, the second of two names in a row opens a statement.
		g.names = g.names && g.before.Type != parse.TIdent
		g.callable = !g.names
	case ';':
		if opens {
			complaint = "this semicolon ends no statement, which Lua 5.1 refuses; leave it out"
		}
		g.opens, g.names = true, false
	case parse.TThen, parse.TDo, parse.TElse, parse.TRepeat:
		g.opens, g.names = true, false
	case parse.TNumber:
		if number := g.number(token); !luaNumber.MatchString(number) {
			complaint = "Lua 5.1 cannot read the number " + quote(number) +
				"; put a space behind its digits, or complete it"
		}
		g.names = false
	case ',':
		if g.before.Type == ',' {
			complaint = "an item is missing in front of this comma, which Lua 5.1 refuses; leave the comma out"
		}
	default:
		g.names = false
	}
	g.before = token
	return complaint
}

// number returns the text that Lua 5.1 reads as one number. Lua takes all letters and digits that follow.
func (g *grammar) number(token ast.Token) string {
	text := g.lines[token.Pos.Line-1][token.Pos.Column-1:]
	end := 0
	while := func(in func(c byte) bool) {
		for end < len(text) && in(text[end]) {
			end++
		}
	}
	while(func(c byte) bool { return '0' <= c && c <= '9' || c == '.' })
	if end < len(text) && (text[end] == 'e' || text[end] == 'E') {
		if end++; end < len(text) && (text[end] == '+' || text[end] == '-') {
			end++
		}
	}
	while(func(c byte) bool {
		return '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || c == '_'
	})
	return text[:end]
}
