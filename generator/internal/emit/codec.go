package emit

import (
	"strings"

	"github.com/dave/jennifer/jen"

	"github.com/rlock-go/toolkit/generator/internal/script"
)

// encode writes the method that turns params into the words of a call.
func encode(f *jen.File, s *script.Script) {
	f.Line()
	f.Comment("encode appends the words of the call, in the order of the header.")
	f.Func().Params(jen.Id("p").Id(s.Name+"Params")).Id("encode").
		Params(jen.List(jen.Id("keys"), jen.Id("args")).Index().String()).
		Params(jen.Index().String(), jen.Index().String(), jen.Error()).
		BlockFunc(func(g *jen.Group) {
			for _, p := range s.Keys {
				encodeKey(g, s, p)
			}
			for _, p := range s.Args {
				encodeArg(g, s, p)
			}
			g.Return(jen.Id("keys"), jen.Id("args"), jen.Nil())
		})
}

func encodeKey(g *jen.Group, s *script.Script, p script.Param) {
	field := func() *jen.Statement { return jen.Id("p").Dot(script.Camel(p.Name)) }
	check, checked, key := "checkKeys", field(), field()
	switch {
	case holdsLock(s, p):
		check = "check" + lockType(s)
		key.Dot("Key").Call()
	case p.Variadic:
		checked.Op("...")
		key.Op("...")
	}
	if p.Type.Base == script.ChannelsType {
		check = "checkChannels"
	}
	g.If(
		jen.Err().Op(":=").Id(check).Call(jen.Lit(s.Name), jen.Lit(p.Name), checked),
		jen.Err().Op("!=").Nil(),
	).Block(jen.Return(jen.Nil(), jen.Nil(), jen.Err()))
	g.Id("keys").Op("=").Append(jen.Id("keys"), key)
}

func encodeArg(g *jen.Group, s *script.Script, p script.Param) {
	if p.Skipped {
		g.Id("args").Op("=").Append(jen.Id("args"), jen.Lit("")).Comment("ARGV" + p.String() + " is not used")
		return
	}
	if isToken(s, p) {
		lock := s.Keys[s.Guard.Key-1]
		holder := jen.Id("p").Dot(script.Camel(lock.Name))
		text := holder.Clone().Dot("Token").Call()
		if s.Guard.Shared {
			text = jen.Id("sharedValue").Call(holder)
		}
		g.Id("args").Op("=").Append(jen.Id("args"), text)
		return
	}
	field := jen.Id("p").Dot(script.Camel(p.Name))
	if !p.Variadic {
		appendArg(g, s, p, field)
		return
	}
	if p.Type.Base == "string" {
		g.Id("args").Op("=").Append(jen.Id("args"), field.Op("..."))
		return
	}
	g.For(jen.List(jen.Id("_"), jen.Id("v")).Op(":=").Range().Add(field)).BlockFunc(func(g *jen.Group) {
		appendArg(g, s, p, jen.Id("v"))
	})
}

func appendArg(g *jen.Group, s *script.Script, p script.Param, value *jen.Statement) {
	expr, fails := encoder(s, p, value)
	if !fails {
		g.Id("args").Op("=").Append(jen.Id("args"), expr)
		return
	}
	text := argName(p)
	g.List(jen.Id(text), jen.Err()).Op(":=").Add(expr)
	g.If(jen.Err().Op("!=").Nil()).Block(jen.Return(jen.Nil(), jen.Nil(), jen.Err()))
	g.Id("args").Op("=").Append(jen.Id("args"), jen.Id(text))
}

// argName names the variable that holds the text of an argument.
func argName(p script.Param) string {
	first, rest, _ := strings.Cut(p.Name, "_")
	return first + script.Camel(rest) + "Text"
}

// decode writes the function that reads the reply, and the functions that read its structs.
func decode(f *jen.File, s *script.Script, o Options) {
	f.Line()
	call := func(function string, more ...jen.Code) *jen.Statement {
		return jen.Return(jen.Id(function).Call(append([]jen.Code{jen.Id("s"), jen.Id("reply")}, more...)...))
	}
	var body *jen.Statement
	switch r := s.Returns; {
	case r.Kind == script.ReturnOK:
		body = call("decodeValue", jen.Id("decodeOK"))
	case r.Kind == script.ReturnNone:
		body = call("decodeValue", jen.Id("decodeNothing"))
	case r.Type.Kind == script.Struct && !r.Type.Optional:
		body = call("decodeStruct", jen.Lit(len(r.Type.Fields)), jen.Id("decode"+s.ResultName()))
	default:
		body = call("decodeValue", decoder(r.Type, s.ResultName()))
	}
	f.Func().Id(s.ReplyDecoder()).
		Params(jen.Id("s").Op("*").Id("luaScript"), jen.Id("reply").Add(o.Client.result())).
		Params(answer(s, o), jen.Error()).Block(body)
	for _, t := range s.Structs() {
		decodeStruct(f, t, o)
	}
}

// decodeStruct writes the function that reads the values of a struct. Its caller has counted
// the values.
func decodeStruct(f *jen.File, t script.NamedStruct, o Options) {
	f.Line()
	f.Func().Id("decode"+t.Name).Params(jen.Id("values").Index().Add(o.Client.message())).
		Params(jen.Id("r").Id(t.Name), jen.Err().Error()).
		BlockFunc(func(g *jen.Group) {
			for i, field := range t.Fields {
				message := jen.Id("values").Index(jen.Lit(i))
				g.If(
					jen.List(jen.Id("r").Dot(script.Camel(field.Name)), jen.Err()).Op("=").
						Add(decoder(field.Type, script.FieldName(t.Name, field))).Call(message),
					jen.Err().Op("!=").Nil(),
				).Block(jen.Return(jen.Id(t.Name).Values(), jen.Op("&").Id("fieldError").Values(jen.Lit(field.Name), jen.Err())))
			}
			g.Return(jen.Id("r"), jen.Nil())
		})
}
