package script

import (
	"fmt"
	"strings"

	"github.com/yuin/gopher-lua/ast"
	"github.com/yuin/gopher-lua/parse"
)

// opened is a word or a bracket that needs a closing one.
type opened struct {
	pos     Pos
	what    string
	closing string
}

var openings = map[int]opened{
	parse.TFunction: {what: "function", closing: "end"},
	parse.TIf:       {what: "if", closing: "end"},
	parse.TWhile:    {what: "while", closing: "end"},
	parse.TFor:      {what: "for", closing: "end"},
	parse.TDo:       {what: "do", closing: "end"},
	parse.TRepeat:   {what: "repeat", closing: "until"},
	'(':             {what: "(", closing: ")"},
	'{':             {what: "{", closing: "}"},
	'[':             {what: "[", closing: "]"},
}

var closings = map[int]string{parse.TEnd: "end", parse.TUntil: "until", ')': ")", '}': "}", ']': "]"}

// ending says why a text ends too early. Its place is the start of the innermost open construct, because a
// person has to look there.
func ending(text string) (Pos, string) {
	scanner := stringScanner{text: text, line: 1}
	for scanner.next() { // syntax reports the complaints
	}
	if u := scanner.unclosed; u.what != "" {
		return u.pos, fmt.Sprintf("the %s that starts here is not closed; %s is missing", u.what, u.closing)
	}
	var open []opened
	last := Pos{1, 1}
	head := 0 // loops that still lack their do
	tokens(text, func(token ast.Token) {
		last = Pos{token.Pos.Line, token.Pos.Column}
		if token.Type == parse.TDo && head > 0 {
			head--
			return
		}
		if token.Type == parse.TWhile || token.Type == parse.TFor {
			head++
		}
		if o, opens := openings[token.Type]; opens {
			o.pos = last
			open = append(open, o)
		} else if closing := closings[token.Type]; closing != "" && len(open) > 0 &&
			open[len(open)-1].closing == closing {
			open = open[:len(open)-1]
		}
	})
	if len(open) == 0 {
		return last, "the file ends here, in the middle of a statement"
	}
	o := open[len(open)-1]
	return o.pos, fmt.Sprintf("%s is not closed; %s is missing before the end of the file", quote(o.what),
		quote(o.closing))
}

// tokens calls see with each token of a text, up to the end or the first error.
func tokens(text string, see func(ast.Token)) {
	scanner := parse.NewScanner(strings.NewReader(text), "")
	lexer := &parse.Lexer{}
	for {
		token, err := scanner.Scan(lexer)
		if err != nil || token.Type == parse.EOF {
			return
		}
		lexer.PrevTokenType = token.Type
		see(token)
	}
}
