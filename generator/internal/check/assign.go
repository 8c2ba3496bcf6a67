package check

import "github.com/yuin/gopher-lua/ast"

func (f *follower) local(n *ast.LocalAssignStmt) {
	if len(n.Exprs) == 1 && len(n.Names) == 1 {
		if _, ok := n.Exprs[0].(*ast.FunctionExpr); ok {
			b := f.declare(n, 0, n.Names[0]) // a local function may call itself
			f.learn(&b.value, f.expr(n.Exprs[0]))
			return
		}
	}
	values := make([]value, len(n.Exprs))
	for i, e := range n.Exprs {
		values[i] = f.expr(e)
	}
	for i, name := range n.Names {
		f.learn(&f.declare(n, i, name).value, nth(n.Exprs, values, i))
	}
}

// nth returns the i-th of some assigned values. What a call in the last place
// brings beyond its first value is not known.
func nth(exprs []ast.Expr, values []value, i int) value {
	if i < len(values) {
		return values[i]
	}
	if len(exprs) > 0 {
		switch exprs[len(exprs)-1].(type) {
		case *ast.FuncCallExpr, *ast.Comma3Expr:
			return unknown
		}
	}
	return value{} // nil
}

func (f *follower) assign(n *ast.AssignStmt) {
	values := make([]value, len(n.Rhs))
	for i, target := range n.Lhs {
		if index, ok := target.(*ast.AttrGetExpr); ok {
			f.store(index, nil)
			continue
		}
		name := target.(*ast.IdentExpr)
		if f.lookup(name.Value) == nil {
			f.note(func(facts *facts) {
				facts.globalWrites = append(facts.globalWrites, globalUse{name.Value, f.script.Pos(n.Lhs[i])})
			})
		}
	}
	for i, e := range n.Rhs {
		values[i] = f.expr(e)
	}
	for i, target := range n.Lhs {
		v := nth(n.Rhs, values, i)
		switch t := target.(type) {
		case *ast.IdentExpr:
			if b := f.lookup(t.Value); b != nil {
				f.learn(&b.value, v)
			} else {
				f.escape(t, v)
			}
		case *ast.AttrGetExpr:
			f.store(t, &v)
		}
	}
}

// store follows an assignment to a field. Without a value it only looks at the
// target, with one it only learns, so that the uses in the target count once.
func (f *follower) store(target *ast.AttrGetExpr, v *value) {
	if name, ok := target.Object.(*ast.IdentExpr); ok && f.lookup(name.Value) == nil {
		if v == nil {
			f.note(func(facts *facts) {
				facts.globalFields = append(facts.globalFields, globalUse{name.Value, f.script.Pos(name)})
			})
			f.value(target.Key)
		}
		return
	}
	if v == nil {
		switch object := f.expr(target.Object); object.kind {
		case keysTable, argvTable, library, builtin:
			f.note(func(facts *facts) {
				facts.globalFields = append(facts.globalFields, globalUse{"behind this name", f.script.Pos(target)})
			})
		}
		f.value(target.Key)
		return
	}
	object := f.again(target.Object)
	if object.kind != made {
		f.release(*v)
		return
	}
	if field, ok := target.Key.(*ast.StringExpr); ok {
		known := object.table.fields[field.Value]
		f.learn(&known, *v)
		object.table.fields[field.Value] = known
		return
	}
	f.learn(&object.table.elements, *v)
}

func (f *follower) define(n *ast.FuncDefStmt) {
	if n.Name.Method != "" {
		f.method = n.Func
		f.release(f.expr(n.Func))
		f.value(n.Name.Receiver)
		return
	}
	fn := f.expr(n.Func)
	switch t := n.Name.Func.(type) {
	case *ast.IdentExpr:
		if b := f.lookup(t.Value); b != nil {
			f.learn(&b.value, fn)
			return
		}
		f.note(func(facts *facts) {
			facts.globalWrites = append(facts.globalWrites, globalUse{t.Value, f.script.Pos(t)})
		})
	case *ast.AttrGetExpr:
		f.store(t, nil)
		f.store(t, &fn)
		return
	}
	f.release(fn)
}
