package emit

import (
	"github.com/dave/jennifer/jen"

	"github.com/rlock-go/toolkit/generator/internal/script"
)

// encode writes the method that turns params into the words of a call.
func encode(f *jen.File, s *script.Script, o Options) {
	f.Line()
	f.Comment("encode appends the words of the call, in the order of the header.")
	f.Func().Params(jen.Id("p").Id(s.Name + "Params")).Id("encode").
		Params(jen.Id("call").Op("*").Add(o.impl("Call"))).
		BlockFunc(func(g *jen.Group) {
			for _, p := range s.Keys {
				encodeKey(g, s, p)
			}
			for _, p := range s.Args {
				encodeArg(g, s, p)
			}
		})
}

func encodeKey(g *jen.Group, s *script.Script, p script.Param) {
	method, value := "Key", jen.Id("p").Dot(script.Camel(p.Name))
	switch {
	case holdsLock(s, p):
		method = "Held"
	case p.Type.Base == script.ChannelsType:
		method = "Channels"
	}
	if p.Variadic {
		value.Op("...")
	}
	g.Id("call").Dot(method).Call(jen.Lit(p.Name), value)
}

func encodeArg(g *jen.Group, s *script.Script, p script.Param) {
	field := jen.Id("p").Dot(script.Camel(p.Name))
	switch {
	case p.Skipped:
		g.Id("call").Dot("Arg").Call(jen.Lit("")).Comment("ARGV" + p.String() + " is not used")
	case isToken(s, p):
		g.Id("call").Dot("Token").Call(jen.Id("p").Dot(script.Camel(s.Keys[s.Guard.Key-1].Name)))
	case !p.Variadic:
		appendArg(g, s, p, field)
	case p.Type.Base == "string":
		g.Id("call").Dot("Arg").Call(field.Op("..."))
	default:
		g.For(jen.List(jen.Id("_"), jen.Id("v")).Op(":=").Range().Add(field)).BlockFunc(func(g *jen.Group) {
			appendArg(g, s, p, jen.Id("v"))
		})
	}
}

// appendArg writes the call of the method that appends an argument.
func appendArg(g *jen.Group, s *script.Script, p script.Param, value *jen.Statement) {
	named := func(method string, value jen.Code, more ...jen.Code) {
		if p.Type.Optional {
			method = "Optional" + method
		}
		g.Id("call").Dot(method).Call(append([]jen.Code{jen.Lit(p.Name), value}, more...)...)
	}
	switch base := p.Type.Base; {
	case isFence(s, p):
		named("Fence", value)
	case base == "bytes":
		g.Id("call").Dot("Arg").Call(jen.String().Call(value))
	case base == "int":
		g.Id("call").Dot("Int").Call(value)
	case base == "bool":
		g.Id("call").Dot("Bool").Call(value)
	case base == "float":
		named("Float", value)
	case base == "duration":
		named("Duration", value)
	case base == "time":
		named("Time", value)
	case base == "json":
		named("JSON", value)
	case base == script.ChannelType && !p.Type.Optional:
		named("Channel", value)
	case base == script.EnumType:
		var values []jen.Code
		for _, v := range p.Type.Values {
			values = append(values, jen.Lit(v))
		}
		named("Enum", jen.String().Call(value), values...)
	default:
		g.Id("call").Dot("Arg").Call(value)
	}
}

// decode writes the function that reads the reply, and the functions that read the structs in it.
func decode(f *jen.File, s *script.Script, o Options) {
	f.Line()
	call := func(function string, more ...jen.Code) *jen.Statement {
		return jen.Return(o.impl(function).Call(append([]jen.Code{jen.Id("s"), jen.Id("reply")}, more...)...))
	}
	var body *jen.Statement
	switch r := s.Returns; {
	case r.Kind == script.ReturnOK:
		body = call("DecodeReply", o.impl("DecodeOK"))
	case r.Kind == script.ReturnNone:
		body = call("DecodeReply", o.impl("DecodeNothing"))
	case r.Type.Kind == script.Struct && !r.Type.Optional:
		body = call("DecodeStructReply", jen.Lit(len(r.Type.Fields)), jen.Id("decode"+s.ResultName()))
	default:
		body = call("DecodeReply", o.decoder(r.Type, s.ResultName()))
	}
	f.Func().Id(s.ReplyDecoder()).
		Params(jen.Id("s").Op("*").Add(o.impl("Lua")), jen.Id("reply").Add(o.impl("Result"))).
		Params(answer(s, o), jen.Error()).Block(body)
	for _, t := range s.Structs() {
		decodeStruct(f, t, o)
	}
}

// decodeStruct writes the function that reads the values of a struct. The caller of the written function has
// counted the values.
func decodeStruct(f *jen.File, t script.NamedStruct, o Options) {
	f.Line()
	f.Func().Id("decode"+t.Name).Params(jen.Id("values").Index().Add(o.impl("Message"))).
		Params(jen.Id("r").Id(t.Name), jen.Err().Error()).
		BlockFunc(func(g *jen.Group) {
			for i, field := range t.Fields {
				g.List(jen.Id("r").Dot(script.Camel(field.Name)), jen.Err()).Op("=").Add(o.impl("DecodeField")).Call(
					jen.Err(), jen.Lit(field.Name), jen.Id("values").Index(jen.Lit(i)),
					o.decoder(field.Type, script.FieldName(t.Name, field)),
				)
			}
			g.Return(jen.Id("r"), jen.Err())
		})
}
