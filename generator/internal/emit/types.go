package emit

import (
	"strings"

	"github.com/dave/jennifer/jen"

	"github.com/rlock-go/toolkit/generator/internal/script"
)

// argType returns the Go type of an argument.
func argType(s *script.Script, p script.Param) *jen.Statement {
	switch {
	case p.Type.Named != "":
		return named(p.Type.Named)
	case p.Type.Base == script.EnumType:
		return jen.Id(s.EnumName(p))
	case p.Type.Base == "json":
		return jen.Any()
	}
	return scalarType(p.Type.Base)
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

// named returns the Go type of a name, which is Name for one of the generated package, or
// import/path.Name.
func named(name string) *jen.Statement {
	if dot := strings.LastIndex(name, "."); dot >= 0 {
		return jen.Qual(name[:dot], name[dot+1:])
	}
	return jen.Id(name)
}

// resultType returns the Go type of a reply's value. name is that of the struct in it.
func resultType(c *Client, t script.Type, name string) *jen.Statement {
	var typ *jen.Statement
	switch {
	case t.Kind == script.List:
		typ = jen.Index().Add(resultType(c, *t.Elem, name))
	case t.Kind == script.Map:
		typ = jen.Map(jen.String()).Add(resultType(c, *t.Elem, name))
	case t.Kind == script.Struct:
		typ = jen.Id(name)
	case t.Named != "":
		typ = named(t.Named)
	case t.Base == script.RawType:
		typ = c.raw()
	default:
		typ = scalarType(t.Base)
	}
	if t.Optional {
		return jen.Id("Null").Types(typ)
	}
	return typ
}

// zeroOf returns the zero value of a reply's value.
func zeroOf(c *Client, t script.Type, name string) *jen.Statement {
	switch {
	case t.Optional || t.Kind == script.Struct:
		return resultType(c, t, name).Values()
	case t.Kind != script.Scalar:
		return jen.Nil()
	case t.Named != "":
		return jen.Op("*").New(named(t.Named))
	}
	switch t.Base {
	case "string":
		return jen.Lit("")
	case "bool":
		return jen.False()
	case "time":
		return scalarType(t.Base).Values()
	case script.RawType:
		return c.noRaw()
	case "bytes", "json":
		return jen.Nil()
	}
	return jen.Lit(0)
}

// encoder returns the expression that turns value into the text of an argument,
// and whether that can fail.
func encoder(s *script.Script, p script.Param, value *jen.Statement) (expr *jen.Statement, fails bool) {
	checked := func(name string, more ...jen.Code) (*jen.Statement, bool) {
		if p.Type.Optional {
			name = strings.Replace(name, "encode", "encodeOptional", 1)
		}
		return jen.Id(name).Call(append([]jen.Code{jen.Lit(s.Name), jen.Lit(p.Name), value}, more...)...), true
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
		return checked("encodeFloat")
	case "duration":
		return checked("encodeDuration")
	case "time":
		return checked("encodeTime")
	case "json":
		return checked("encodeJSON")
	case script.ChannelType:
		if p.Type.Optional {
			return value, false
		}
		return checked("encodeChannel")
	case script.EnumType:
		var values []jen.Code
		for _, v := range p.Type.Values {
			values = append(values, jen.Id(s.EnumName(p)+script.ValueName(v)))
		}
		return checked("encodeEnum", values...)
	}
	return value, false
}

var decoders = map[string]string{
	"string": "decodeString", "bytes": "decodeBytes", "int": "decodeInt", "bool": "decodeBool",
	"float": "decodeFloat", "duration": "decodeDuration", "time": "decodeTime", "json": "decodeJSON",
	script.RawType: "decodeRaw",
}

// decoder returns the function that reads a message as t. name is that of the struct in t.
func decoder(t script.Type, name string) *jen.Statement {
	nullable := "nullable"
	var decode *jen.Statement
	switch {
	case t.Kind == script.List && flat(*t.Elem):
		decode = jen.Id("structs").Call(jen.Lit(len(t.Elem.Fields)), jen.Id("decode"+name))
	case t.Kind == script.List:
		decode = jen.Id("list").Call(decoder(*t.Elem, name))
	case t.Kind == script.Map:
		decode = jen.Id("mapping").Call(decoder(*t.Elem, name))
	case t.Kind == script.Struct:
		decode = jen.Id("structure").Call(jen.Lit(len(t.Fields)), jen.Id("decode"+name))
	case t.Named != "":
		decode = jen.Id("decodeJSONAs").Types(named(t.Named))
	default:
		decode = jen.Id(decoders[t.Base])
		if t.Base == "duration" || t.Base == "time" {
			nullable = "nullableOrEmpty"
		}
	}
	if t.Optional {
		return jen.Id(nullable).Call(decode)
	}
	return decode
}

// flat reports whether the reply may be one list with the values of all structs in turn. It
// may if a first value cannot be mistaken for a struct.
func flat(t script.Type) bool {
	if t.Kind != script.Struct || t.Optional {
		return false
	}
	first := t.Fields[0].Type
	return first.Kind == script.Scalar && first.Base != script.RawType
}
