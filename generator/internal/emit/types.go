package emit

import (
	"github.com/dave/jennifer/jen"

	"github.com/rlock-go/toolkit/generator/internal/script"
)

// goType returns the Go type of an argument.
func goType(t script.Type) *jen.Statement {
	switch t.Base {
	case "bytes":
		return jen.Index().Byte()
	case "int":
		return jen.Int64()
	case "bool":
		return jen.Bool()
	case "float":
		return jen.Float64()
	case "duration":
		return jen.Qual("time", "Duration")
	case "time":
		return jen.Qual("time", "Time")
	case "json":
		return jen.Any()
	}
	return jen.String()
}

// resultType returns the Go type of a reply's value.
func resultType(t script.Type) *jen.Statement {
	element := goType(t)
	if t.Base == "json" {
		element = jen.Qual("encoding/json", "RawMessage")
	}
	if t.Optional {
		element = jen.Id("Null").Types(element)
	}
	if t.List {
		return jen.Index().Add(element)
	}
	return element
}

// zeroOf returns the zero value of a reply's value.
func zeroOf(t script.Type) *jen.Statement {
	switch {
	case t.List:
		return jen.Nil()
	case t.Optional:
		return resultType(t).Values()
	}
	switch t.Base {
	case "string":
		return jen.Lit("")
	case "bool":
		return jen.False()
	case "time":
		return jen.Qual("time", "Time").Values()
	case "bytes", "json":
		return jen.Nil()
	}
	return jen.Lit(0)
}

// encoder returns the expression that turns value into the text of an argument,
// and whether that can fail.
func encoder(s *script.Script, p script.Param, value *jen.Statement) (expr *jen.Statement, fails bool) {
	checked := func(name string) (*jen.Statement, bool) {
		return jen.Id(name).Call(jen.Lit(s.Name), jen.Lit(p.Name), value), true
	}
	switch p.Type.Base {
	case "bytes":
		return jen.String().Call(value), false
	case "int":
		return jen.Id("encodeInt").Call(value), false
	case "bool":
		return jen.Id("encodeBool").Call(value), false
	case "float":
		return jen.Id("encodeFloat").Call(value), false
	case "duration":
		if p.Type.Optional {
			return checked("encodeOptionalDuration")
		}
		return checked("encodeDuration")
	case "time":
		if p.Type.Optional {
			return jen.Id("encodeOptionalTime").Call(value), false
		}
		return jen.Id("encodeTime").Call(value), false
	case "json":
		return checked("encodeJSON")
	}
	return value, false
}

var decoders = map[string]string{
	"string": "decodeString", "bytes": "decodeBytes", "int": "decodeInt", "bool": "decodeBool",
	"float": "decodeFloat", "duration": "decodeDuration", "time": "decodeTime", "json": "decodeJSON",
}

// decoder returns the function that reads a message as t.
func decoder(t script.Type) *jen.Statement {
	decode := jen.Id(decoders[t.Base])
	if t.Optional {
		decode = jen.Id("nullable").Call(decode)
	}
	if t.List {
		decode = jen.Id("list").Call(decode)
	}
	return decode
}
