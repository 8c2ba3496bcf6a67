package draft

import (
	"reflect"
	"regexp"
	"strconv"
	"strings"

	"github.com/yuin/gopher-lua/ast"

	"github.com/rlock-go/toolkit/generator/internal/script"
)

// evidence is what the text of a script says about its entries, in addition to the analysis.
type evidence struct {
	names    map[string]map[int]string // the locals that have KEYS[n] and ARGV[n]
	unpacked map[string]bool           // tables that the script unpacks to locals
	uses     map[int]use               // what the script does with ARGV[n]; 0: with any of ARGV
	replied  []string                  // texts of error replies
	fields   []string                  // names of the locals in the first returned table
	taken    map[string]bool           // names in the header, as Go fields
}

type use struct{ number, json, bytes bool }

// entry is an entry of KEYS or ARGV. If index is 0, it is any entry.
type entry struct {
	table string
	index int
}

func gather(s *script.Script) evidence {
	e := evidence{names: map[string]map[int]string{"KEYS": {}, "ARGV": {}}, unpacked: map[string]bool{},
		uses: map[int]use{}, taken: map[string]bool{}}
	locals := map[string]entry{}
	inspect(reflect.ValueOf(s.Body), func(n any) {
		if n, ok := n.(*ast.LocalAssignStmt); ok {
			e.assign(n, locals)
		}
	})
	inspect(reflect.ValueOf(s.Body), func(n any) { e.see(n, locals) })
	return e
}

// assign notes which locals have an entry.
func (e *evidence) assign(n *ast.LocalAssignStmt, locals map[string]entry) {
	store := func(name string, of entry) {
		if other, twice := locals[name]; twice && other != of {
			of = entry{} // the local may have either entry
		}
		locals[name] = of
		if of.index > 0 && e.names[of.table][of.index] == "" {
			e.names[of.table][of.index] = name
		}
	}
	if len(n.Exprs) == 1 && len(n.Names) > 1 {
		if table := unpacked(n.Exprs[0]); table != "" {
			e.unpacked[table] = true
			for i, name := range n.Names {
				store(name, entry{table, i + 1})
			}
			return
		}
	}
	for i, name := range n.Names {
		if i < len(n.Exprs) {
			if of := stored(n.Exprs[i]); of.table != "" {
				store(name, of)
			}
		}
	}
}

// unpacked returns the table in unpack(KEYS) or unpack(ARGV).
func unpacked(e ast.Expr) string {
	call, ok := e.(*ast.FuncCallExpr)
	if !ok || len(call.Args) != 1 || callee(call) != "unpack" && callee(call) != "table.unpack" {
		return ""
	}
	if table, ok := call.Args[0].(*ast.IdentExpr); ok && (table.Value == "KEYS" || table.Value == "ARGV") {
		return table.Value
	}
	return ""
}

// stored returns the entry in an expression: the entry itself, its number, or the entry with a default.
func stored(e ast.Expr) entry {
	switch n := e.(type) {
	case *ast.FuncCallExpr:
		if name := callee(n); len(n.Args) == 1 &&
			(name == "tonumber" || name == "tostring" || name == "cjson.decode") {
			return stored(n.Args[0])
		}
	case *ast.LogicalOpExpr:
		if n.Operator == "or" {
			return stored(n.Lhs)
		}
	case *ast.AttrGetExpr:
		return indexed(n)
	}
	return entry{}
}

// indexed returns the entry of KEYS[n] or ARGV[n].
func indexed(n *ast.AttrGetExpr) entry {
	table, ok := n.Object.(*ast.IdentExpr)
	if !ok || table.Value != "KEYS" && table.Value != "ARGV" {
		return entry{}
	}
	if number, ok := n.Key.(*ast.NumberExpr); ok {
		if index, err := strconv.Atoi(number.Value); err == nil && index > 0 {
			return entry{table.Value, index}
		}
	}
	return entry{table.Value, 0}
}

// see notes what a node does with arguments.
func (e *evidence) see(n any, locals map[string]entry) {
	note := func(of ast.Expr, what use) {
		found := stored(of)
		if name, ok := of.(*ast.IdentExpr); ok {
			found = locals[name.Value]
		}
		if found.table == "ARGV" {
			u := e.uses[found.index]
			e.uses[found.index] = use{u.number || what.number, u.json || what.json, u.bytes || what.bytes}
		}
	}
	switch n := n.(type) {
	case *ast.ArithmeticOpExpr:
		note(n.Lhs, use{number: true})
		note(n.Rhs, use{number: true})
	case *ast.UnaryMinusOpExpr:
		note(n.Expr, use{number: true})
	case *ast.NumberForStmt:
		note(n.Limit, use{number: true})
	case *ast.FuncCallExpr:
		e.call(n, note)
	case *ast.TableExpr:
		for _, f := range n.Fields {
			if key, ok := f.Key.(*ast.StringExpr); ok && key.Value == "err" {
				e.reply(f.Value)
			}
		}
	case *ast.ReturnStmt:
		e.returned(n)
	}
}

func (e *evidence) call(n *ast.FuncCallExpr, note func(ast.Expr, use)) {
	if len(n.Args) == 0 {
		return
	}
	switch name := callee(n); name {
	case "tonumber", "math.floor", "math.ceil", "math.min", "math.max", "math.abs":
		for _, arg := range n.Args {
			note(arg, use{number: true})
		}
	case "cjson.decode":
		note(n.Args[0], use{json: true})
	case "cmsgpack.unpack", "struct.unpack":
		note(n.Args[len(n.Args)-1], use{bytes: true})
	case "redis.error_reply":
		e.reply(n.Args[0])
	}
}

func (e *evidence) reply(n ast.Expr) {
	for {
		switch part := n.(type) {
		case *ast.StringConcatOpExpr:
			n = part.Lhs
			continue
		case *ast.StringExpr:
			e.replied = append(e.replied, part.Value)
		}
		return
	}
}

// returned notes the names in the first returned table of names.
func (e *evidence) returned(n *ast.ReturnStmt) {
	if len(n.Exprs) != 1 || e.fields != nil {
		return
	}
	table, ok := n.Exprs[0].(*ast.TableExpr)
	if !ok {
		return
	}
	names := make([]string, len(table.Fields))
	for i, f := range table.Fields {
		if ident, ok := f.Value.(*ast.IdentExpr); ok {
			names[i] = ident.Value
		}
	}
	if strings.Join(names, "") != "" {
		e.fields = names
	}
}

// callee returns the name of a called function, such as cjson.decode.
func callee(n *ast.FuncCallExpr) string {
	switch f := n.Func.(type) {
	case *ast.IdentExpr:
		return f.Value
	case *ast.AttrGetExpr:
		object, ok1 := f.Object.(*ast.IdentExpr)
		key, ok2 := f.Key.(*ast.StringExpr)
		if ok1 && ok2 {
			return object.Value + "." + key.Value
		}
	}
	return ""
}

// inspect visits each node of a tree, in the order of its fields.
func inspect(v reflect.Value, visit func(node any)) {
	switch v.Kind() {
	case reflect.Slice:
		for i := range v.Len() {
			inspect(v.Index(i), visit)
		}
	case reflect.Interface:
		inspect(v.Elem(), visit)
	case reflect.Pointer:
		if !v.IsNil() {
			visit(v.Interface())
			inspect(v.Elem(), visit)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				inspect(v.Field(i), visit)
			}
		}
	}
}

var (
	upper    = regexp.MustCompile(`([a-z0-9])([A-Z])`)
	notWord  = regexp.MustCompile(`[^a-z0-9_]+`)
	validFor = regexp.MustCompile(`^[a-z][a-z0-9_]*[a-z0-9]$|^[a-z]$`)
)

// free returns an unused name. It is made of the name of the local, or of otherwise, and may have a number.
func (e *evidence) free(local, otherwise string, number int) string {
	name := notWord.ReplaceAllString(strings.ToLower(upper.ReplaceAllString(local, "${1}_$2")), "")
	if !validFor.MatchString(name) {
		name = otherwise
		if number > 0 {
			name += strconv.Itoa(number)
		}
	}
	for base, n := name, 2; e.taken[script.Camel(name)]; n++ {
		name = base + strconv.Itoa(n)
	}
	e.taken[script.Camel(name)] = true
	return name
}
