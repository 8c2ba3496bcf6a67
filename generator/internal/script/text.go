package script

import (
	"slices"
	"strconv"
	"strings"
)

func quote(text string) string { return strconv.Quote(text) }

// firstWord returns the text before its first space, colon or closing bracket.
func firstWord(text string) string {
	if i := strings.IndexAny(text, " :]"); i >= 0 {
		return text[:i+1]
	}
	return text
}

// defaultName turns acquire_all.lua into AcquireAll.
func defaultName(base string) string {
	return Camel(strings.TrimSuffix(base, ".lua"))
}

// initialisms are words that Go writes in capitals.
var initialisms = []string{"acl", "api", "cpu", "db", "html", "http", "https", "id", "ip", "json", "ok",
	"sha", "sql", "tcp", "tls", "ttl", "udp", "uri", "url", "uuid", "xml"}

// Camel turns words with _, - or . between them into an exported Go name: owner_id becomes OwnerID.
func Camel(text string) string {
	var b strings.Builder
	for _, part := range strings.FieldsFunc(text,
		func(r rune) bool { return r == '_' || r == '-' || r == '.' }) {
		lower := strings.ToLower(part)
		singular := strings.TrimSuffix(lower, "s")
		switch {
		case slices.Contains(initialisms, lower):
			b.WriteString(strings.ToUpper(part))
		case slices.Contains(initialisms, singular):
			b.WriteString(strings.ToUpper(singular) + "s")
		default:
			b.WriteString(strings.ToUpper(part[:1]) + part[1:])
		}
	}
	return b.String()
}

// trimBlank drops empty lines at both ends, and repeated empty lines between.
func trimBlank(lines []string) []string {
	var out []string
	for _, line := range lines {
		if line == "" && (len(out) == 0 || out[len(out)-1] == "") {
			continue
		}
		out = append(out, line)
	}
	if n := len(out); n > 0 && out[n-1] == "" {
		out = out[:n-1]
	}
	return out
}
