package script

import (
	"strings"

	"github.com/yuin/gopher-lua/ast"
)

// IsGet reports whether the script only returns redis.call('GET', KEYS[1]). The command GET then has the same
// answer.
func (s *Script) IsGet() bool {
	if strings.HasPrefix(s.Source, "#!") { // the flags may forbid what GET alone may do
		return false
	}
	if len(s.Body) != 1 || len(s.Keys) != 1 || s.Keys[0].Variadic || len(s.Args) > 0 {
		return false
	}
	ret, ok := s.Body[0].(*ast.ReturnStmt)
	if !ok || len(ret.Exprs) != 1 {
		return false
	}
	call, ok := ret.Exprs[0].(*ast.FuncCallExpr)
	if !ok || len(call.Args) != 2 || !isField(call.Func, "redis", "call") {
		return false
	}
	name, ok := call.Args[0].(*ast.StringExpr)
	if !ok || !strings.EqualFold(name.Value, "GET") {
		return false
	}
	key, ok := call.Args[1].(*ast.AttrGetExpr)
	if !ok || !isIdent(key.Object, "KEYS") {
		return false
	}
	index, ok := key.Key.(*ast.NumberExpr)
	return ok && index.Value == "1"
}

func isField(e ast.Expr, object, name string) bool {
	field, ok := e.(*ast.AttrGetExpr)
	if !ok || !isIdent(field.Object, object) {
		return false
	}
	key, ok := field.Key.(*ast.StringExpr)
	return ok && key.Value == name
}

func isIdent(e ast.Expr, name string) bool {
	id, ok := e.(*ast.IdentExpr)
	return ok && id.Value == name
}
