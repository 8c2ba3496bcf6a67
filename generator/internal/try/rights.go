package try

import "strings"

// ruleFor returns the rights of the script's user: those that the audit names, with the keys and channels of the run
// in place of the names of the entries.
func ruleFor(subject Subject) []string {
	var words []string
	variable := map[string]bool{}
	for _, p := range subject.Script.Keys {
		variable[p.Name] = p.Variadic
	}
	for _, p := range subject.Script.Args {
		variable[p.Name] = p.Variadic
	}
	for _, word := range subject.Rights {
		kind, rest, named := strings.Cut(word, "<")
		name, more, closed := strings.Cut(rest, ">")
		if !named || !closed {
			words = append(words, word)
			continue
		}
		if variable[name] && kind == "~" {
			more = ":*"
		}
		words = append(words, kind+prefix+name+more)
	}
	return words
}
