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

// named returns the Go type with a name. Name is a type of the generated package, and import/path.Name is a
// type of another package.
func named(name string) *jen.Statement {
	if dot := strings.LastIndex(name, "."); dot >= 0 {
		return jen.Qual(name[:dot], name[dot+1:])
	}
	return jen.Id(name)
}

// resultType returns the Go type of a value in a reply. name is the name of the struct in the type.
func (o Options) resultType(t script.Type, name string) *jen.Statement {
	var typ *jen.Statement
	switch {
	case t.Kind == script.List:
		typ = jen.Index().Add(o.resultType(*t.Elem, name))
	case t.Kind == script.Map:
		typ = jen.Map(jen.String()).Add(o.resultType(*t.Elem, name))
	case t.Kind == script.Struct:
		typ = jen.Id(name)
	case t.Named != "":
		typ = named(t.Named)
	case t.Base == script.RawType:
		typ = o.Client.raw()
	default:
		typ = scalarType(t.Base)
	}
	if t.Optional {
		return o.user("Null").Types(typ)
	}
	return typ
}

var decoders = map[string]string{
	"string": "DecodeString", "bytes": "DecodeBytes", "int": "DecodeInt", "bool": "DecodeBool",
	"float": "DecodeFloat", "duration": "DecodeDuration", "time": "DecodeTime", "json": "DecodeJSON",
	script.RawType: "DecodeRaw",
}

// decoder returns the function that reads a message as t. name is the name of the struct in t.
func (o Options) decoder(t script.Type, name string) *jen.Statement {
	nullable := "DecodeNull"
	var decode *jen.Statement
	switch {
	case t.Kind == script.List && flat(*t.Elem):
		decode = o.impl("DecodeStructs").Call(jen.Lit(len(t.Elem.Fields)), jen.Id("decode"+name))
	case t.Kind == script.List:
		decode = o.impl("DecodeList").Call(o.decoder(*t.Elem, name))
	case t.Kind == script.Map:
		decode = o.impl("DecodeMap").Call(o.decoder(*t.Elem, name))
	case t.Kind == script.Struct:
		decode = o.impl("DecodeStruct").Call(jen.Lit(len(t.Fields)), jen.Id("decode"+name))
	case t.Named != "":
		decode = o.impl("DecodeJSONAs").Types(named(t.Named))
	default:
		decode = o.impl(decoders[t.Base])
		if t.Base == "duration" || t.Base == "time" {
			nullable = "DecodeNullOrEmpty"
		}
	}
	if t.Optional {
		return o.impl(nullable).Call(decode)
	}
	return decode
}

// flat reports whether the reply may be one list with the values of all structs in turn. The first value must
// not look like a struct.
func flat(t script.Type) bool {
	if t.Kind != script.Struct || t.Optional {
		return false
	}
	first := t.Fields[0].Type
	return first.Kind == script.Scalar && first.Base != script.RawType
}
