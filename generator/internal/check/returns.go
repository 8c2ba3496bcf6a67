package check

import (
	"slices"

	"github.com/yuin/gopher-lua/ast"

	"github.com/rlock-go/toolkit/generator/internal/analyze"
	"github.com/rlock-go/toolkit/generator/internal/script"
)

// returns compares the values that the script returns with the declared reply.
func (c *checker) returns() {
	declared := c.script.Returns
	nilIsFine := declared.Kind == script.ReturnNone || declared.Kind == script.ReturnValue &&
		(declared.Type.Optional || declared.Type.Base == script.RawType)
	for _, r := range c.facts.Returns {
		c.ask(ruleReply)
		f := fitter{script: c.script, heap: r.Heap, version3: r.Version3}
		switch first := r.Values.At(0); {
		case f.onlyErrors(first):
		case len(r.Values.Items) > 1:
			c.findf(r.Pos, "%d values are returned, of which Redis answers the first; return them in a table",
				len(r.Values.Items))
		case len(r.Exprs) == 0 || len(r.Values.Items) == 0 && !r.Values.Open:
			if !nilIsFine {
				c.nothing(r.Pos, declared)
			}
		case declared.Kind == script.ReturnNone:
			if wrong := f.none(first); wrong != "" {
				c.findf(r.Pos, "%s is returned, but the header says returns: none; declare its type, or return nothing",
					wrong)
			}
		case declared.Kind == script.ReturnOK:
			if wrong := f.ok(first); wrong != "" {
				c.findf(r.Pos, "%s, but the header says returns: ok; return redis.status_reply('OK')", wrong)
			}
		default:
			if m := f.fits(first, declared.Type); m != nil {
				c.misfit(r, m, declared)
			}
		}
	}
	c.ask(ruleReply)
	if c.facts.EndReached != nil && !nilIsFine {
		c.findf(declared.Pos, "the script can end without a return, but the header says returns: %s; end it with "+
			"a return, or declare none, or a type with ?", declared)
	}
}

func (c *checker) nothing(pos script.Pos, declared script.Returns) {
	if declared.Type.Kind == script.Struct {
		c.findf(pos, "the header declares %d values; return them in a table: {%s}", len(declared.Type.Fields),
			names(declared.Type.Fields))
		return
	}
	c.findf(pos, "nothing is returned, but the header says returns: %s; return a value, or declare none, or a "+
		"type with ?", declared)
}

// misfit reports a part of a reply that does not fit, at the place of the part.
func (c *checker) misfit(r *analyze.Return, m *misfit, declared script.Returns) {
	pos := r.Pos
	if table, ok := r.Exprs[0].(*ast.TableExpr); ok && m.item > 0 && m.item <= len(table.Fields) &&
		!slices.ContainsFunc(table.Fields, func(f *ast.Field) bool { return f.Key != nil }) {
		pos = c.script.Pos(table.Fields[m.item-1].Value)
	}
	if m.full != "" {
		c.findf(pos, "%s", m.full)
		return
	}
	field := ""
	if m.field != "" {
		field = " for " + m.field
	}
	c.findf(pos, "%s%s, but the header says %s; %s", m.what, field, m.want, m.mend)
}
