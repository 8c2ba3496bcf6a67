package luaimpl

// Version1 stands in all bindings that this package can serve. A generator that needs more of it than
// this names another version, so its bindings do not compile with this package: go get the module that
// the generator is of. Once this package serves such bindings only, Version1 goes: if bindings name a
// version that is not there any more, generate them again.
const Version1 = true
