package emit

import (
	"go/build/constraint"
	"regexp"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/dave/jennifer/jen"

	"github.com/rlock-go/toolkit/generator/internal/output"
	"github.com/rlock-go/toolkit/generator/internal/script"
)

// scriptFile writes one script: its sums, the structs of its parameters and its reply, and the calls.
func scriptFile(o Options, s *script.Script, reserved []string) *jen.File {
	f := newFile(o, s.Base)
	rename(f, s, reserved)
	f.Anon("embed")
	f.Comment("The sums of " + s.Base + " beside this file, as sha1sum and sha256sum print them. A server")
	f.Comment("knows the script by its SHA1.")
	f.Const().Defs(
		jen.Id(s.Name+"SHA1").Op("=").Lit(s.SHA1()),
		jen.Id(s.Name+"SHA256").Op("=").Lit(s.SHA256()),
	)
	f.Line()
	f.Comment(output.Embed + pattern(s.Base))
	f.Var().Id(sourceName(s)).String()
	params(f, s, o)
	enums(f, s)
	results(f, s, o)
	calls(f, s, o)
	encode(f, s, o)
	decode(f, s, o)
	return f
}

var (
	ordinary = regexp.MustCompile(`^[A-Za-z0-9_.-]+$`)
	// special are the characters of file names that mean something else in a pattern.
	special = regexp.MustCompile(`[\[\]]`)
)

// pattern returns the pattern of go:embed for one file.
func pattern(name string) string {
	if ordinary.MatchString(name) {
		return name
	}
	return strconv.Quote(special.ReplaceAllString(name, `\$0`))
}

// comment returns a line as a Go comment that is no build constraint.
func comment(text string) string {
	if text == "" {
		return "//"
	}
	line := "// " + plain(text)
	if constraint.IsPlusBuild(line) { // Go would take the prose for a build constraint
		line = strings.Replace(line, "+build", `"+build"`, 1)
	}
	return line
}

// plain drops the bytes that Go source must not have, even in comments.
func plain(text string) string {
	return strings.ToValidUTF8(strings.ReplaceAll(text, "\ufeff", ""), "\ufffd")
}

func sourceName(s *script.Script) string { return lowerFirst(s.Name) + "Source" }
func luaName(s *script.Script) string    { return lowerFirst(s.Name) + "Script" }

func params(f *jen.File, s *script.Script, o Options) {
	f.Line()
	f.Commentf("%sParams are the keys and arguments of [Scripts.%s].", s.Name, s.Name)
	f.Type().Id(s.Name + "Params").StructFunc(func(g *jen.Group) {
		for _, p := range s.Keys {
			if holdsLock(s, p) {
				field(g, "KEYS", p, o.user("Held"))
				continue
			}
			field(g, "KEYS", p, jen.String())
		}
		for _, p := range s.Args {
			switch {
			case isToken(s, p), p.Skipped:
			case isFence(s, p):
				field(g, "ARGV", p, o.user("Fenced"))
			default:
				field(g, "ARGV", p, argType(s, p))
			}
		}
	})
}

// holdsLock reports whether the call takes a lock in place of the key.
func holdsLock(s *script.Script, key script.Param) bool {
	return s.Guard != nil && !s.Guard.Fenced && s.Guard.Key == key.Index
}

// isToken reports whether the argument is the token of the lock.
func isToken(s *script.Script, arg script.Param) bool {
	return s.Guard != nil && !s.Guard.Fenced && s.Guard.Arg == arg.Index
}

// isFence reports whether the call takes a lock in place of the argument.
func isFence(s *script.Script, arg script.Param) bool {
	return s.Guard != nil && s.Guard.Fenced && s.Guard.Arg == arg.Index
}

func field(g *jen.Group, table string, p script.Param, t *jen.Statement) {
	if p.Variadic {
		t = jen.Index().Add(t)
	}
	text := table + p.String()
	if p.Doc != "" {
		text += ": " + p.Doc
	}
	if p.Type.Optional {
		text += " (zero: absent)"
	}
	g.Id(script.Camel(p.Name)).Add(t).Comment(comment(text))
}

// enums writes a type with constants for each enum argument.
func enums(f *jen.File, s *script.Script) {
	for _, p := range s.Args {
		if p.Type.Base != script.EnumType {
			continue
		}
		name := s.EnumName(p)
		f.Line()
		f.Commentf("%s is what the field %s of [%sParams] may be.", name, script.Camel(p.Name), s.Name)
		f.Type().Id(name).String()
		f.Line()
		f.Commentf("The values of [%s].", name)
		f.Const().DefsFunc(func(g *jen.Group) {
			for _, value := range p.Type.Values {
				g.Id(name + script.ValueName(value)).Id(name).Op("=").Lit(value)
			}
		})
	}
}

// results writes the structs of the reply.
func results(f *jen.File, s *script.Script, o Options) {
	for i, t := range s.Structs() {
		f.Line()
		switch {
		case i > 0:
			f.Commentf("%s is a part of the answer of [Scripts.%s].", t.Name, s.Name)
		case s.Returns.Type.Kind == script.Struct:
			f.Commentf("%s is the answer of [Scripts.%s].", t.Name, s.Name)
		default:
			f.Commentf("%s is one element of the answer of [Scripts.%s].", t.Name, s.Name)
		}
		f.Type().Id(t.Name).StructFunc(func(g *jen.Group) {
			for _, field := range t.Fields {
				line := g.Id(script.Camel(field.Name)).Add(o.resultType(field.Type, script.FieldName(t.Name, field)))
				if field.Doc != "" {
					line.Comment(comment(field.Doc))
				}
			}
		})
	}
}

// answer returns the type of the value that a call returns.
func answer(s *script.Script, o Options) *jen.Statement {
	if s.Returns.Kind == script.ReturnValue {
		return o.resultType(s.Returns.Type, s.ResultName())
	}
	return jen.Struct()
}

// silent reports whether a call returns only an error.
func silent(s *script.Script) bool {
	return s.Returns.Kind == script.ReturnNone || s.Returns.Kind == script.ReturnOK
}

// doc writes the prose of the header as the comment of a Go function.
func doc(f *jen.File, s *script.Script, o Options) {
	lines := s.Doc
	if len(lines) == 0 {
		lines = []string{"Runs " + s.Base + "."}
	}
	first := lines[0]
	_, size := utf8.DecodeRuneInString(first)
	// An upper-case second letter marks an abbreviation, which stays in capitals.
	if second, _ := utf8.DecodeRuneInString(first[size:]); unicode.ToUpper(second) != second {
		first = lowerFirst(first)
	}
	f.Comment(comment(s.Name + " " + first))
	for _, line := range lines[1:] {
		f.Comment(comment(line))
	}
	f.Comment("")
	f.Comment(modeDoc(s, o.Replicas))
	if s.Guard == nil {
		return
	}
	key, arg := s.Keys[s.Guard.Key-1].Name, s.Args[s.Guard.Arg-1].Name
	switch {
	case s.Guard.Fenced:
		f.Commentf("The script is guarded: it writes only if %s is not smaller than the fence in %s.", arg, key)
	default:
		f.Commentf("The script is guarded: it writes only while the caller holds %s.", key)
	}
}

func modeDoc(s *script.Script, replicas bool) string {
	switch {
	case s.Mode.Retryable:
		return "The script writes. A call may be repeated, and [New] says when the client sends a call again."
	case s.Mode.Write:
		return "The script writes. The client sends a call once. A call that returns a network error may have run."
	}
	if replicas {
		return "The script only reads. If the client sends reads to replicas, the answer may be older than the " +
			"last write."
	}
	return "The script only reads, on the primary."
}

func receiverAndClient(o Options) (recv, ctx, client *jen.Statement) {
	return jen.Id("s").Op("*").Id("Scripts"),
		jen.Id("ctx").Qual("context", "Context"),
		jen.Id("c").Add(o.Client.handle())
}

func calls(f *jen.File, s *script.Script, o Options) {
	single(f, s, o)
	batch(f, s, o)
	if s.Mode.Cached && o.Client.Caches {
		cached(f, s, o)
	}
}

// encoded writes the lines that turn p into a call.
func encoded(g *jen.Group, o Options) {
	g.Var().Id("call").Add(o.impl("Call"))
	g.Id("p").Dot("encode").Call(jen.Op("&").Id("call"))
}

// sent writes the call of a method, with the encoded call as an argument.
func sent(s *script.Script, method string, more ...jen.Code) *jen.Statement {
	args := []jen.Code{jen.Id("ctx"), jen.Id("c"), jen.Op("&").Id("call")}
	return jen.Id("s").Dot(luaName(s)).Dot(method).Call(append(args, more...)...)
}

func single(f *jen.File, s *script.Script, o Options) {
	f.Line()
	doc(f, s, o)
	recv, ctx, client := receiverAndClient(o)
	fn := f.Func().Params(recv).Id(s.Name).Params(ctx, client, jen.Id("p").Id(s.Name+"Params"))
	call := jen.Id(s.ReplyDecoder()).Call(jen.Op("&").Id("s").Dot(luaName(s)), sent(s, "Exec"))
	if silent(s) {
		fn.Error().BlockFunc(func(g *jen.Group) {
			encoded(g, o)
			g.List(jen.Id("_"), jen.Err()).Op(":=").Add(call)
			g.Return(jen.Err())
		})
		return
	}
	fn.Params(answer(s, o), jen.Error()).BlockFunc(func(g *jen.Group) {
		encoded(g, o)
		g.Return(call)
	})
}

func batch(f *jen.File, s *script.Script, o Options) {
	f.Line()
	f.Commentf("%sBatch calls [Scripts.%s] once for each of params, in one pipeline. The batch is", s.Name,
		s.Name)
	f.Comment("not atomic. Each call has its own Reply. If one call fails, the others still run.")
	recv, ctx, client := receiverAndClient(o)
	f.Func().Params(recv).Id(s.Name+"Batch").
		Params(ctx, client, jen.Id("params").Index().Id(s.Name+"Params")).
		Index().Add(o.user("Reply")).Types(answer(s, o)).
		Block(jen.Return(o.impl("Batch").Call(
			jen.Id("ctx"), jen.Id("c"), jen.Op("&").Id("s").Dot(luaName(s)), jen.Id("params"),
			jen.Id(s.Name+"Params").Dot("encode"), jen.Id(s.ReplyDecoder()),
		)))
}

func cached(f *jen.File, s *script.Script, o Options) {
	f.Line()
	f.Commentf("%sCached is [Scripts.%s] through the client-side cache. When the key changes, the", s.Name,
		s.Name)
	f.Comment("server tells the client, and the client drops the answer. So an answer is at most as old as")
	f.Comment("that message is late. If the connection is dead, or if the user lacks the right")
	f.Comment("+client|caching, the answer may be as old as ttl.")
	if s.IsGet() {
		f.Comment("")
		f.Comment("The call sends GET in place of the script, because the script does nothing else.")
	}
	recv, ctx, client := receiverAndClient(o)
	f.Func().Params(recv).Id(s.Name+"Cached").
		Params(ctx, client, jen.Id("p").Id(s.Name+"Params"), jen.Id("ttl").Qual("time", "Duration")).
		Params(o.user("Cached").Types(answer(s, o)), jen.Error()).
		BlockFunc(func(g *jen.Group) {
			method := "Cached"
			if s.IsGet() {
				method = "CachedGet"
			}
			encoded(g, o)
			g.Return(o.impl("DecodeCached").Call(
				jen.Op("&").Id("s").Dot(luaName(s)), sent(s, method, jen.Id("ttl")), jen.Id(s.ReplyDecoder()),
			))
		})
}
