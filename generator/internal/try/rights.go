package try

import (
	"context"
	"strings"
)

// ruleFor returns the rights of the script's user. They are the rights in the audit, with the keys and
// channels of the run in place of the names.
func ruleFor(subject Subject) []string {
	var words []string
	if len(subject.Script.Waivers) > 0 { // the needed rights are unknown
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

// begin gives the user the rights of the script. If the run started the server, begin also clears the
// server's log of refusals.
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

// refused returns a fault if the server refused the user something and the script hid the error. A script can
// hide an error with redis.pcall.
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
		if err == nil && entry["username"] == user && entry["context"] == "lua" { // the client itself sends PING
			return fault{rule: ruleRights, pos: top}.says("a user with the rights that the audit names "+
				"is refused the %s %s, which the script calls by pcall; "+
				"name the command, the key or the channel in the text", entry["reason"], short(entry["object"])), nil
		}
	}
	return nil, nil
}
