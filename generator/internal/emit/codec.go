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
				if holdsLock(s, p) {
					lock := jen.Id("p").Dot(script.Camel(p.Name))
					g.If(
						jen.Err().Op(":=").Id("checkHeld").Call(jen.Lit(s.Name), jen.Lit(p.Name), lock),
						jen.Err().Op("!=").Nil(),
					).Block(jen.Return(jen.Nil(), jen.Nil(), jen.Err()))
					g.Id("keys").Op("=").Append(jen.Id("keys"), lock.Clone().Dot("Key").Call())
					continue
				}
				value := jen.Id("p").Dot(script.Camel(p.Name))
				if p.Variadic {
					value.Op("...")
				}
				g.Id("keys").Op("=").Append(jen.Id("keys"), value)
			}
			for _, p := range s.Args {
				encodeArg(g, s, p)
			}
			g.Return(jen.Id("keys"), jen.Id("args"), jen.Nil())
		})
}

func encodeArg(g *jen.Group, s *script.Script, p script.Param) {
	if isToken(s, p) {
		lock := s.Keys[s.Guard.Key-1]
		g.Id("args").Op("=").Append(jen.Id("args"), jen.Id("p").Dot(script.Camel(lock.Name)).Dot("Token").Call())
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

// decode writes the function that reads the reply.
func decode(f *jen.File, s *script.Script) {
	f.Line()
	fn := f.Func().Id(decodeName(s)).
		Params(jen.Id("s").Op("*").Id("luaScript"), jen.Id("reply").Qual(rueidis, "RedisResult")).
		Params(answer(s), jen.Error())
	switch s.Returns.Kind {
	case script.ReturnFields:
		fn.BlockFunc(func(g *jen.Group) { decodeFields(g, s) })
	case script.ReturnValue:
		fn.Block(jen.Return(jen.Id("decodeValue").Call(jen.Id("s"), jen.Id("reply"), decoder(s.Returns.Fields[0].Type))))
	case script.ReturnOK:
		fn.Block(jen.Return(jen.Id("decodeValue").Call(jen.Id("s"), jen.Id("reply"), jen.Id("decodeOK"))))
	default:
		fn.Block(jen.Return(jen.Id("decodeValue").Call(jen.Id("s"), jen.Id("reply"), jen.Id("decodeNothing"))))
	}
}

func decodeFields(g *jen.Group, s *script.Script) {
	g.List(jen.Id("fields"), jen.Err()).Op(":=").Id("s").Dot("fields").Call(jen.Id("reply"), jen.Lit(len(s.Returns.Fields)))
	g.If(jen.Err().Op("!=").Nil()).Block(jen.Return(zero(s), jen.Err()))
	g.Var().Id("r").Add(answer(s))
	for i, field := range s.Returns.Fields {
		message := jen.Id("fields").Index(jen.Lit(i))
		g.If(
			jen.List(jen.Id("r").Dot(script.Camel(field.Name)), jen.Err()).Op("=").Add(decoder(field.Type)).Call(message),
			jen.Err().Op("!=").Nil(),
		).Block(jen.Return(zero(s), jen.Id("s").Dot("wrong").Call(jen.Lit(field.Name), jen.Err())))
	}
	g.Return(jen.Id("r"), jen.Nil())
}
