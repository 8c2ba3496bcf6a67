package emit

import (
	"strings"

	"github.com/dave/jennifer/jen"

	"github.com/rlock-go/toolkit/generator/internal/script"
)

// gather writes the file that the scripts share. It has the type Scripts with its constructor, the method
// Load, and the errors of the error codes.
func gather(o Options, scripts []*script.Script, reserved []string) *jen.File {
	f := newFile(o, "all scripts")
	for _, s := range scripts { // Caller names types of each script
		rename(f, s, reserved)
	}
	if o.Comment {
		packageComment(f, o, scripts)
	}
	if !o.Standalone {
		f.Comment("If this does not compile, the generator and the module of luaimpl do not fit. Run the")
		f.Comment("generator of that module, or go get the module of the generator.")
		f.Const().Id("_").Op("=").Add(o.impl(version))
		f.Line()
	}
	sentinels(f, scripts, o)
	f.Comment("Scripts calls the scripts. Make one with [New] and share it: it is safe for")
	f.Comment("concurrent use and holds no connection.")
	f.Type().Id("Scripts").StructFunc(func(g *jen.Group) {
		for _, s := range scripts {
			g.Id(luaName(s)).Add(o.impl("Lua"))
		}
	})
	f.Line()
	for _, line := range o.Client.about {
		f.Comment(comment(o.unqualified(line)))
	}
	constructor(f, scripts, o)
	f.Line()
	load(f, scripts, o)
	f.Line()
	caller(f, scripts, o)
	return f
}

// packageComment writes the comment of the package.
func packageComment(f *jen.File, o Options, scripts []*script.Script) {
	for _, line := range []string{
		"Package " + o.Package + " calls Redis Lua scripts with typed parameters and answers. [New] returns the",
		"calls, and [Caller] is an interface of them for fakes. A call returns a",
		"*[redislua.ParamError] or a *[redislua.CrossSlotError] before it sends anything, and a",
		"*[redislua.ReplyError] if the answer has another shape.",
	} {
		f.PackageComment("// " + o.unqualified(line))
	}
	f.PackageComment("//")
	f.PackageComment("// AUDIT.md says what each script touches, and which rights it needs:")
	f.PackageComment("//")
	for _, s := range scripts {
		what := ""
		if len(s.Doc) > 0 {
			what = ": " + plain(s.Doc[0])
		}
		for _, line := range fill(strings.Fields("[Scripts."+s.Name+"]"+what), "//   - ", "//     ") {
			f.PackageComment(line)
		}
	}
}

// caller writes the interface with all calls.
func caller(f *jen.File, scripts []*script.Script, o Options) {
	f.Comment("Caller has the calls of [Scripts]. A test can pass a fake to code that takes a Caller. The fake")
	f.Comment("embeds a Caller, and has the methods that the test needs.")
	f.Type().Id("Caller").InterfaceFunc(func(g *jen.Group) {
		_, ctx, client := receiverAndClient(o)
		for _, s := range scripts {
			params := jen.Id("p").Id(s.Name + "Params")
			if silent(s) {
				g.Id(s.Name).Params(ctx.Clone(), client.Clone(), params.Clone()).Error()
			} else {
				g.Id(s.Name).Params(ctx.Clone(), client.Clone(), params.Clone()).Params(answer(s, o), jen.Error())
			}
			g.Id(s.Name+"Batch").Params(ctx.Clone(), client.Clone(),
				jen.Id("params").Index().Id(s.Name+"Params")).Index().Add(o.user("Reply")).Types(answer(s, o))
			if s.Mode.Cached && o.Client.Caches {
				g.Id(s.Name+"Cached").Params(ctx.Clone(), client.Clone(), params.Clone(),
					jen.Id("ttl").Qual("time", "Duration")).
					Params(o.user("Cached").Types(answer(s, o)), jen.Error())
			}
		}
		g.Id("Load").Params(ctx.Clone(), client.Clone()).Error()
	})
	f.Line()
	f.Var().Id("_").Id("Caller").Op("=").Parens(jen.Op("*").Id("Scripts")).Parens(jen.Nil())
}

// unqualified drops the package name from the links of a comment, because standalone bindings declare these
// names themselves.
func (o Options) unqualified(comment string) string {
	if o.Standalone {
		return strings.ReplaceAll(comment, "[redislua.", "[")
	}
	return comment
}

func constructor(f *jen.File, scripts []*script.Script, o Options) {
	opts := jen.Id("opts").Op("...").Add(o.user("Option"))
	f.Func().Id("New").Params(opts).Op("*").Id("Scripts").BlockFunc(func(g *jen.Group) {
		g.Id("pkg").Op(":=").Add(o.impl("NewBindings")).Call(jen.Lit(o.Package), jen.Id("opts"))
		g.Return(jen.Op("&").Id("Scripts").Values(jen.DictFunc(func(d jen.Dict) {
			for _, s := range scripts {
				constructor := "Retryable"
				switch {
				case s.Mode.Write && !s.Mode.Retryable:
					constructor = "Once"
				case o.Replicas && !s.Mode.Write:
					constructor = "Replicated"
				}
				args := []jen.Code{jen.Lit(s.Name), jen.Id(s.Name + "SHA1"), jen.Id(sourceName(s)), codes(s)}
				if len(s.Errors) > 0 {
					args = []jen.Code{jen.Line().Add(args[0]), args[1], args[2], jen.Line().Add(args[3]), jen.Line()}
				}
				d[jen.Id(luaName(s))] = jen.Id("pkg").Dot(constructor).Call(args...)
			}
		})))
	})
}

func codes(s *script.Script) *jen.Statement {
	if len(s.Errors) == 0 {
		return jen.Nil()
	}
	return jen.Map(jen.String()).Error().Values(jen.DictFunc(func(d jen.Dict) {
		for _, e := range s.Errors {
			d[jen.Lit(e.Code)] = jen.Id(e.Sentinel())
		}
	}))
}

func sentinels(f *jen.File, scripts []*script.Script, o Options) {
	seen := map[string]bool{}
	var defs []jen.Code
	for _, s := range scripts {
		for _, e := range s.Errors {
			if name := e.Sentinel(); !seen[name] {
				seen[name] = true
				defs = append(defs, jen.Id(name).Op("=").Qual("errors", "New").Call(jen.Lit(o.Package+": "+e.Code)))
			}
		}
	}
	if len(defs) > 0 {
		f.Comment("Errors that scripts reply with, for errors.Is.")
		f.Var().Defs(defs...)
		f.Line()
	}
}

func load(f *jen.File, scripts []*script.Script, o Options) {
	f.Comment("Load sends each script to each node of the client, so no call has to send its script's text.")
	f.Comment("Load goes on after an error, and returns all errors. Load is optional, because a call sends")
	f.Comment("the text to a server that does not know the script. The user needs the right +script|load.")
	recv, ctx, client := receiverAndClient(o)
	f.Func().Params(recv).Id("Load").Params(ctx, client).Error().Block(
		jen.Return(o.impl("Load").CallFunc(func(g *jen.Group) {
			g.Line().Id("ctx")
			g.Id("c")
			for _, s := range scripts {
				g.Line().Op("&").Id("s").Dot(luaName(s))
			}
			g.Line()
		})),
	)
}
