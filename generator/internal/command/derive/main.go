// Derive writes the command table of a running server as Go source.
//
//	go run ./generator/internal/command/derive -redis localhost:6379 > generator/internal/command/table.go
package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"go/format"
	"os"
	"slices"
	"strings"

	"github.com/redis/rueidis"
)

func main() {
	addr := flag.String("redis", "localhost:6379", "address of the `server` to ask")
	flag.Parse()
	source, err := derive(context.Background(), *addr)
	if err != nil {
		fmt.Fprintln(os.Stderr, "derive:", err)
		os.Exit(1)
	}
	os.Stdout.Write(source)
}

func derive(ctx context.Context, addr string) ([]byte, error) {
	client, err := rueidis.NewClient(
		rueidis.ClientOption{InitAddress: []string{addr}, ForceSingleClient: true, DisableCache: true})
	if err != nil {
		return nil, err
	}
	defer client.Close()
	list, err := client.Do(ctx, client.B().Command().Build()).ToArray()
	if err != nil {
		return nil, err
	}
	info, err := client.Do(ctx, client.B().Info().Section("server").Build()).ToString()
	if err != nil {
		return nil, err
	}
	version := "unknown"
	for line := range strings.Lines(info) {
		if v, found := strings.CutPrefix(line, "redis_version:"); found {
			version = strings.TrimSpace(v)
		}
	}

	syntax, err := syntaxes(ctx, client)
	if err != nil {
		return nil, err
	}
	var rows []string
	for _, message := range list {
		if err := collect(&rows, message, syntax); err != nil {
			return nil, err
		}
	}
	slices.Sort(rows)
	var b bytes.Buffer
	fmt.Fprintf(&b, "// Code generated from COMMAND and COMMAND DOCS of redis %s by derive. DO NOT "+
		"EDIT.\n\npackage command\n\nvar commands = map[string]Command{\n", version)
	for _, row := range rows {
		fmt.Fprintln(&b, row)
	}
	fmt.Fprintln(&b, "}")
	return format.Source(b.Bytes())
}

// alsoWrites are commands without the write flag that count as writes in a script. The server may send them
// to replicas.
var alsoWrites = []string{"publish", "spublish", "pfcount"}

// random is the server's tip for a command whose answer may differ though the data is the same. A command
// whose answer differs only in its order, such as SMEMBERS, has another tip.
const random = "nondeterministic_output"

func collect(rows *[]string, message rueidis.RedisMessage, syntax map[string]string) error {
	fields, err := message.ToArray()
	if err != nil {
		return err
	}
	name, err := fields[0].ToString()
	if err != nil {
		return err
	}
	name = strings.ReplaceAll(name, "|", " ")
	arity, err := fields[1].ToInt64()
	if err != nil {
		return err
	}
	flags, err := fields[2].AsStrSlice()
	if err != nil {
		return err
	}
	tips, err := fields[7].AsStrSlice()
	if err != nil {
		return err
	}
	subcommands, err := fields[9].ToArray()
	if err != nil {
		return err
	}

	var has []string
	if slices.Contains(flags, "write") || slices.Contains(alsoWrites, name) {
		has = append(has, "Write")
	}
	if slices.Contains(flags, "noscript") {
		has = append(has, "NoScript")
	}
	if len(subcommands) > 0 {
		has = append(has, "Container")
	}
	if slices.Contains(tips, random) {
		has = append(has, "Random")
	}
	row := fmt.Sprintf("%q: {Name: %q, Arity: %d", name, name, arity)
	if len(has) > 0 {
		row += ", Flags: " + strings.Join(has, " | ")
	}
	specs, err := fields[8].ToArray()
	if err != nil {
		return err
	}
	var keys []string
	for _, spec := range specs {
		key, err := keySpec(spec)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if key != "" {
			keys = append(keys, key)
		}
	}
	if name == "sort" { // the server does not tell where the destination is; it is after this word
		keys = append(keys, `{Access: Writes, Keyword: "STORE", First: 2, Last: 0, Step: 1}`)
	}
	if len(keys) > 0 {
		row += ", Keys: []Keys{" + strings.Join(keys, ", ") + "}"
	}
	if len(subcommands) == 0 {
		row += fmt.Sprintf(", Syntax: %q", syntax[name])
	}
	*rows = append(*rows, row+"},")

	for _, sub := range subcommands {
		if err := collect(rows, sub, syntax); err != nil {
			return err
		}
	}
	return nil
}

// specification is the part of a key specification in COMMAND that the generator needs.
type specification struct {
	flags                         []string
	begin, find                   string // kinds
	keyword                       string
	index, startFrom              int
	lastKey, keyStep, keyNumIndex int
	limit                         int
}

func keySpec(message rueidis.RedisMessage) (string, error) {
	s, err := read(message)
	if err != nil || s.begin == "unknown" || slices.Contains(s.flags, "not_key") {
		return "", err
	}
	var access []string
	if slices.Contains(s.flags, "RO") || slices.Contains(s.flags, "access") {
		access = append(access, "Reads")
	}
	if !slices.Contains(s.flags, "RO") {
		access = append(access, "Writes")
	}
	first := s.index
	row := "Access: " + strings.Join(access, " | ")
	if s.begin == "keyword" {
		first = s.startFrom
		row += fmt.Sprintf(", Keyword: %q", s.keyword)
	}
	if s.find == "keynum" {
		return fmt.Sprintf("{%s, First: %d, NumKeys: true, Step: %d}", row, first+s.keyNumIndex, s.keyStep), nil
	}
	if s.limit > 1 {
		row += fmt.Sprintf(", Limit: %d", s.limit)
	}
	return fmt.Sprintf("{%s, First: %d, Last: %d, Step: %d}", row, first, s.lastKey, s.keyStep), nil
}

func read(message rueidis.RedisMessage) (s specification, err error) {
	fields, err := message.AsMap()
	if err != nil {
		return s, err
	}
	flags := fields["flags"]
	if s.flags, err = flags.AsStrSlice(); err != nil {
		return s, err
	}
	begin, spec, err := part(fields["begin_search"])
	if err != nil {
		return s, err
	}
	s.begin = begin
	s.index = number(spec["index"])
	s.startFrom = number(spec["startfrom"])
	if keyword, known := spec["keyword"]; known {
		s.keyword, _ = keyword.ToString()
	}
	find, spec, err := part(fields["find_keys"])
	if err != nil {
		return s, err
	}
	s.find = find
	s.lastKey = number(spec["lastkey"])
	s.keyStep = number(spec["keystep"])
	s.keyNumIndex = number(spec["keynumidx"])
	s.limit = number(spec["limit"])
	return s, nil
}

func part(message rueidis.RedisMessage) (kind string, spec map[string]rueidis.RedisMessage, err error) {
	fields, err := message.AsMap()
	if err != nil {
		return "", nil, err
	}
	name := fields["type"]
	if kind, err = name.ToString(); err != nil {
		return "", nil, err
	}
	inner := fields["spec"]
	spec, err = inner.AsMap()
	return kind, spec, err
}

// number reads a field that some specifications lack.
func number(message rueidis.RedisMessage) int {
	n, err := message.ToInt64()
	if err != nil {
		return 0
	}
	return int(n)
}
