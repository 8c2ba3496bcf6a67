//go:build tools

// Package toolkit pins what go generate runs. That is the generator of this module, which parses Lua with
// one of these libraries and writes Go with the other. The linters and the tools of the tests have a module
// of their own, rlock_test/tools, so that nobody who imports rlock requires them.
package toolkit

import (
	_ "github.com/dave/jennifer/jen"
	_ "github.com/yuin/gopher-lua/parse"
)
