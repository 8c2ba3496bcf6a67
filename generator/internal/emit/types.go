package emit

import (
	"strings"

	"github.com/dave/jennifer/jen"

	"github.com/rlock-go/toolkit/generator/internal/script"
)

// goType returns the Go type of an argument.
func goType(t script.Type) *jen.Statement {
	if t.Named != "" {
		return named(t.Named)
	}
	if t.Base == "json" {
		return jen.Any()
	}
	return scalarType(t.Base)
}

func scalarType(base string) *jen.Statement {
	switch base {
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
		return jen.Qual("encoding/json", "RawMessage")
	}
	return jen.String()
}

// named returns a Go type that is named as Name, of the generated package, or as
// import/path.Name.
func named(name string) *jen.Statement {
	if dot := strings.LastIndex(name, "."); dot >= 0 {
		return jen.Qual(name[:dot], name[dot+1:])
	}
	return jen.Id(name)
}

// resultType returns the Go type of a reply's value.
func resultType(t script.Type) *jen.Statement {
	switch t.Kind {
	case script.List:
		return jen.Index().Add(resultType(*t.Elem))
	case script.Map:
		return jen.Map(jen.String()).Add(resultType(*t.Elem))
	}
	scalar := scalarType(t.Base)
	if t.Named != "" {
		scalar = named(t.Named)
	}
	if t.Optional {
		return jen.Id("Null").Types(scalar)
	}
	return scalar
}

// zeroOf returns the zero value of a reply's value.
func zeroOf(t script.Type) *jen.Statement {
	switch {
	case t.Kind != script.Scalar:
		return jen.Nil()
	case t.Optional:
		return resultType(t).Values()
	case t.Named != "":
		return jen.Op("*").New(named(t.Named))
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
		if isFence(s, p) {
			return checked("encodeFence")
		}
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
			return checked("encodeOptionalTime")
		}
		return checked("encodeTime")
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
	switch t.Kind {
	case script.List:
		return jen.Id("list").Call(decoder(*t.Elem))
	case script.Map:
		return jen.Id("mapping").Call(decoder(*t.Elem))
	}
	decode := jen.Id(decoders[t.Base])
	if t.Named != "" {
		decode = jen.Id("decodeJSONAs").Types(named(t.Named))
	}
	if t.Optional {
		return jen.Id("nullable").Call(decode)
	}
	return decode
}
