package script

import (
	"slices"

	"github.com/yuin/gopher-lua/ast"
)

// positions finds the place of every expression. It walks the tree in the order of the text, because a Finder
// needs that order.
type positions struct {
	finder *Finder
	places map[ast.Expr]Pos
}

// Pos returns the place of an expression. It is the place of the expression's own token, or else of its
// leftmost part.
func (s *Script) Pos(e ast.Expr) Pos {
	if pos, known := s.places[e]; known {
		return pos
	}
	return s.Tokens.Line(e.Line())
}

// Constants returns the string constants of the text and the names of fields, sorted and without repetitions.
func (s *Script) Constants() []string {
	members := map[ast.Expr]bool{} // names of library functions, as in math.floor
	for e := range s.places {
		if field, ok := e.(*ast.AttrGetExpr); ok {
			object, named := field.Object.(*ast.IdentExpr)
			members[field.Key] = named && slices.Contains(libraries, object.Value)
		}
	}
	var texts []string
	for e := range s.places {
		if constant, ok := e.(*ast.StringExpr); ok && !members[e] {
			texts = append(texts, constant.Value)
		}
	}
	slices.Sort(texts)
	return slices.Compact(texts)
}

var libraries = []string{
	"redis", "server", "math", "string", "table", "bit", "cjson", "cmsgpack", "struct", "os",
}

func (p *positions) block(stmts []ast.Stmt) {
	for _, stmt := range stmts {
		p.stmt(stmt)
	}
}

func (p *positions) stmt(stmt ast.Stmt) {
	switch n := stmt.(type) {
	case *ast.AssignStmt:
		p.exprs(n.Lhs)
		p.exprs(n.Rhs)
	case *ast.LocalAssignStmt:
		p.names(n, n.Names)
		p.exprs(n.Exprs)
	case *ast.FuncCallStmt:
		p.expr(n.Expr)
	case *ast.DoBlockStmt:
		p.block(n.Stmts)
	case *ast.WhileStmt:
		p.expr(n.Condition)
		p.block(n.Stmts)
	case *ast.RepeatStmt:
		p.block(n.Stmts)
		p.expr(n.Condition)
	case *ast.IfStmt:
		p.expr(n.Condition)
		p.block(n.Then)
		p.block(n.Else)
	case *ast.NumberForStmt:
		p.names(n, []string{n.Name})
		p.exprs([]ast.Expr{n.Init, n.Limit, n.Step})
		p.block(n.Stmts)
	case *ast.GenericForStmt:
		p.names(n, n.Names)
		p.exprs(n.Exprs)
		p.block(n.Stmts)
	case *ast.FuncDefStmt:
		p.expr(n.Name.Func)
		p.expr(n.Name.Receiver)
		p.expr(n.Func)
	case *ast.ReturnStmt:
		p.exprs(n.Exprs)
	}
}

// names asks for declared names too. Otherwise later uses of a name on the line would get the place of its
// declaration.
func (p *positions) names(at ast.PositionHolder, names []string) {
	for _, name := range names {
		p.finder.Find(at, name)
	}
}

func (p *positions) exprs(list []ast.Expr) {
	for _, e := range list {
		p.expr(e)
	}
}

func (p *positions) expr(expr ast.Expr) {
	if expr == nil {
		return
	}
	switch n := expr.(type) {
	case *ast.IdentExpr:
		p.places[n] = p.finder.Find(n, n.Value)
	case *ast.StringExpr:
		p.places[n] = p.finder.Find(n, n.Value)
	case *ast.NumberExpr:
		p.places[n] = p.finder.Find(n, n.Value)
	case *ast.TrueExpr:
		p.places[n] = p.finder.Find(n, "true")
	case *ast.FalseExpr:
		p.places[n] = p.finder.Find(n, "false")
	case *ast.NilExpr:
		p.places[n] = p.finder.Find(n, "nil")
	case *ast.TableExpr:
		p.places[n] = p.finder.Find(n, "{")
		for _, f := range n.Fields {
			p.expr(f.Key)
			p.expr(f.Value)
		}
	case *ast.FunctionExpr:
		p.places[n] = p.finder.Find(n, "function")
		p.names(n, n.ParList.Names)
		p.block(n.Stmts)
	case *ast.AttrGetExpr:
		p.expr(n.Object)
		p.expr(n.Key)
		p.leftmost(n, n.Object)
	case *ast.FuncCallExpr:
		p.expr(n.Func)
		p.expr(n.Receiver)
		p.exprs(n.Args)
		if n.Func != nil {
			p.leftmost(n, n.Func)
		} else {
			p.leftmost(n, n.Receiver)
		}
	case *ast.LogicalOpExpr:
		p.pair(n, n.Lhs, n.Rhs)
	case *ast.RelationalOpExpr:
		p.pair(n, n.Lhs, n.Rhs)
	case *ast.StringConcatOpExpr:
		p.pair(n, n.Lhs, n.Rhs)
	case *ast.ArithmeticOpExpr:
		p.pair(n, n.Lhs, n.Rhs)
	case *ast.UnaryMinusOpExpr:
		p.pair(n, n.Expr, nil)
	case *ast.UnaryNotOpExpr:
		p.pair(n, n.Expr, nil)
	case *ast.UnaryLenOpExpr:
		p.pair(n, n.Expr, nil)
	}
}

func (p *positions) pair(e, left, right ast.Expr) {
	p.expr(left)
	p.expr(right)
	p.leftmost(e, left)
}

func (p *positions) leftmost(e, part ast.Expr) {
	if pos, known := p.places[part]; known {
		p.places[e] = pos
	}
}
