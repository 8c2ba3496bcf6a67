package try

import (
	"context"
	"strings"
)

// ruleFor returns the rights of the script's user: those that the audit names, with the keys and channels of
// the run in place of the names of the entries.
func ruleFor(subject Subject) []string {
	var words []string
	if len(subject.Script.Waivers) > 0 { // nobody knows what it needs
		return []string{"allkeys", "allchannels", "+@all"}
	}
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

// begin gives the user the rights of the script. A server of the run's own forgets whom it has refused
// before.
func (r *runner) begin(ctx context.Context) error {
	if !r.rights {
		return nil
	}
	if r.program != nil {
		if err := r.admin.Do(ctx, r.admin.B().Arbitrary("ACL", "LOG", "RESET").Build()).Error(); err != nil {
			return err
		}
	}
	return r.allow(ctx, r.granted)
}

// refused returns a fault if the server has refused the user anything that the script has made nothing of: by
// redis.pcall it can.
func (r *runner) refused(ctx context.Context) ([]fault, error) {
	if r.program == nil {
		return nil, nil
	}
	entries, err := r.admin.Do(ctx, r.admin.B().Arbitrary("ACL", "LOG").Build()).ToArray()
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		entry, err := e.AsStrMap()
		if err == nil && entry["username"] == user && entry["context"] == "lua" { // the client sends PING by itself
			return fault{rule: ruleRights, pos: top}.says("a user with the rights that the audit names "+
				"is refused the %s %s, which the script calls by pcall; "+
				"name the command, the key or the channel in the text", entry["reason"], short(entry["object"])), nil
		}
	}
	return nil, nil
}
