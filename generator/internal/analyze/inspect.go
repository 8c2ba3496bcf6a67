package analyze

import "github.com/yuin/gopher-lua/ast"

// inspector walks a part of the text. expr gets each expression, and reports whether to walk its parts. stmt
// gets each statement, and returns what to walk from there. A nil stmt walks everything.
type inspector struct {
	expr func(ast.Expr) bool
	stmt func(ast.Stmt) ways
}

// ways are the parts to walk: the two branches of an if, and the statements behind it.
type ways struct{ yes, no, on bool }

var everywhere = ways{true, true, true}

func (i *inspector) block(stmts []ast.Stmt) {
	for _, stmt := range stmts {
		to := everywhere
		if i.stmt != nil {
			to = i.stmt(stmt)
		}
		i.statement(stmt, to)
		if !to.on {
			return
		}
	}
}

func (i *inspector) statement(stmt ast.Stmt, to ways) {
	switch n := stmt.(type) {
	case *ast.AssignStmt:
		i.all(n.Lhs...)
		i.all(n.Rhs...)
	case *ast.LocalAssignStmt:
		i.all(n.Exprs...)
	case *ast.FuncCallStmt:
		i.all(n.Expr)
	case *ast.DoBlockStmt:
		i.block(n.Stmts)
	case *ast.WhileStmt:
		i.all(n.Condition)
		i.block(n.Stmts)
	case *ast.RepeatStmt:
		i.block(n.Stmts)
		i.all(n.Condition)
	case *ast.IfStmt:
		i.all(n.Condition)
		if to.yes {
			i.block(n.Then)
		}
		if to.no {
			i.block(n.Else)
		}
	case *ast.NumberForStmt:
		i.all(n.Init, n.Limit, n.Step)
		i.block(n.Stmts)
	case *ast.GenericForStmt:
		i.all(n.Exprs...)
		i.block(n.Stmts)
	case *ast.FuncDefStmt:
		i.all(n.Func)
	case *ast.ReturnStmt:
		i.all(n.Exprs...)
	}
}

func (i *inspector) all(list ...ast.Expr) {
	for _, e := range list {
		if e == nil || !i.expr(e) {
			continue
		}
		if f, ok := e.(*ast.FunctionExpr); ok {
			i.block(f.Stmts)
		}
		i.all(parts(e)...)
	}
}

// parts returns the parts of an expression, in the order of the text. It leaves out the parts inside of a
// function.
func parts(e ast.Expr) []ast.Expr {
	switch n := e.(type) {
	case *ast.AttrGetExpr:
		return []ast.Expr{n.Object, n.Key}
	case *ast.TableExpr:
		var list []ast.Expr
		for _, f := range n.Fields {
			list = append(list, f.Key, f.Value)
		}
		return list
	case *ast.FuncCallExpr:
		return append([]ast.Expr{n.Func, n.Receiver}, n.Args...)
	case *ast.LogicalOpExpr:
		return []ast.Expr{n.Lhs, n.Rhs}
	case *ast.RelationalOpExpr:
		return []ast.Expr{n.Lhs, n.Rhs}
	case *ast.StringConcatOpExpr:
		return []ast.Expr{n.Lhs, n.Rhs}
	case *ast.ArithmeticOpExpr:
		return []ast.Expr{n.Lhs, n.Rhs}
	case *ast.UnaryMinusOpExpr:
		return []ast.Expr{n.Expr}
	case *ast.UnaryNotOpExpr:
		return []ast.Expr{n.Expr}
	case *ast.UnaryLenOpExpr:
		return []ast.Expr{n.Expr}
	}
	return nil
}
