package check

import "github.com/yuin/gopher-lua/ast"

// ends reports whether a block cannot be left at its end: it returns, raises an
// error, or both branches of its last if do.
func ends(stmts []ast.Stmt) bool {
	if len(stmts) == 0 {
		return false
	}
	switch n := stmts[len(stmts)-1].(type) {
	case *ast.ReturnStmt:
		return true
	case *ast.DoBlockStmt:
		return ends(n.Stmts)
	case *ast.IfStmt:
		return ends(n.Then) && ends(n.Else)
	case *ast.WhileStmt:
		_, forever := n.Condition.(*ast.TrueExpr)
		return forever
	case *ast.FuncCallStmt:
		call, ok := n.Expr.(*ast.FuncCallExpr)
		if !ok {
			return false
		}
		name, ok := call.Func.(*ast.IdentExpr)
		return ok && name.Value == "error"
	}
	return false
}
