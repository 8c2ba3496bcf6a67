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

// assignedLocals returns the names that some assignment changes after their
// declaration. What such a name stands for is not followed.
func assignedLocals(stmts []ast.Stmt) map[string]bool {
	names := map[string]bool{}
	var block func([]ast.Stmt)
	block = func(stmts []ast.Stmt) {
		for _, stmt := range stmts {
			switch n := stmt.(type) {
			case *ast.AssignStmt:
				for _, target := range n.Lhs {
					if name, ok := target.(*ast.IdentExpr); ok {
						names[name.Value] = true
					}
				}
			case *ast.LocalAssignStmt:
				for _, e := range n.Exprs {
					if fn, ok := e.(*ast.FunctionExpr); ok {
						block(fn.Stmts)
					}
				}
			case *ast.FuncDefStmt:
				block(n.Func.Stmts)
			case *ast.DoBlockStmt:
				block(n.Stmts)
			case *ast.WhileStmt:
				block(n.Stmts)
			case *ast.RepeatStmt:
				block(n.Stmts)
			case *ast.IfStmt:
				block(n.Then)
				block(n.Else)
			case *ast.NumberForStmt:
				block(n.Stmts)
			case *ast.GenericForStmt:
				block(n.Stmts)
			}
		}
	}
	block(stmts)
	return names
}
