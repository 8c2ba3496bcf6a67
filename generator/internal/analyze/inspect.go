package analyze

import "github.com/yuin/gopher-lua/ast"

// inspector walks a part of the text. expr is called for each expression, and tells whether its
// parts are walked too. stmt is called for each statement, and tells which of its branches, if it is
// an if, and whether what stands behind it are walked; nil: all.
type inspector struct {
	expr func(ast.Expr) bool
	stmt func(ast.Stmt) ways
}

// ways are what may be walked from a statement.
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
		if e != nil && i.expr(e) {
			i.parts(e)
		}
	}
}

func (i *inspector) parts(e ast.Expr) {
	switch n := e.(type) {
	case *ast.AttrGetExpr:
		i.all(n.Object, n.Key)
	case *ast.TableExpr:
		for _, f := range n.Fields {
			i.all(f.Key, f.Value)
		}
	case *ast.FuncCallExpr:
		i.all(n.Func, n.Receiver)
		i.all(n.Args...)
	case *ast.LogicalOpExpr:
		i.all(n.Lhs, n.Rhs)
	case *ast.RelationalOpExpr:
		i.all(n.Lhs, n.Rhs)
	case *ast.StringConcatOpExpr:
		i.all(n.Lhs, n.Rhs)
	case *ast.ArithmeticOpExpr:
		i.all(n.Lhs, n.Rhs)
	case *ast.UnaryMinusOpExpr:
		i.all(n.Expr)
	case *ast.UnaryNotOpExpr:
		i.all(n.Expr)
	case *ast.UnaryLenOpExpr:
		i.all(n.Expr)
	case *ast.FunctionExpr:
		i.block(n.Stmts)
	}
}
