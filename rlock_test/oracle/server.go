package oracle

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"maps"
	"math/rand/v2"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/rlock-go/toolkit/rlock_test/env"
)

// The users that run programs, as text and through their bindings.
const (
	user   = "oracle"
	binder = "binder"
)

// server is a server to run programs on.
type server struct {
	engine  string
	addr    string
	admin   rueidis.Client
	limited rueidis.Client // a client of the user whom the audit describes
}

func start(tb testing.TB, e env.Engine) *server {
	tb.Helper()
	process := e.Start(tb)
	s := &server{engine: e.Version, addr: process.Addr(), admin: process.Client(tb, patient)}
	// A script is slow on a busy machine.
	process.Do(tb, "CONFIG", "SET", "busy-reply-threshold", "600000")
	for _, name := range []string{user, binder} {
		process.Do(tb, "ACL", "SETUSER", name, "on", "nopass", "~*", "&*", "+@all")
	}
	option := process.Option()
	option.Username, option.Password = user, "any"
	patient(&option)
	option.DisableCache, option.DisableRetry, option.ForceSingleClient = true, true, true
	var err error
	if s.limited, err = rueidis.NewClient(option); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(s.limited.Close)
	return s
}

// patient makes a client wait on a busy machine.
func patient(option *rueidis.ClientOption) {
	option.ConnWriteTimeout, option.Dialer.Timeout = 10*time.Minute, 10*time.Minute
}

// call is one call of a program.
type call struct {
	keys, args []string
	good       bool // the token is the lock's token
	fence      int64
	lease      int64 // the longest that the call passed, in milliseconds
}

// dataset returns commands that store values of a type. An expiry is an instant, so the data is the
// same in each repetition.
func dataset(r *rand.Rand, key, kind string) [][]string {
	if r.IntN(6) == 0 {
		return nil
	}
	expire := []string{"PEXPIREAT", key,
		strconv.FormatInt(time.Now().Add(ofTheData*time.Millisecond).UnixMilli(), 10)}
	switch kind {
	case "string":
		return [][]string{{"SET", key, []string{"1", "5", "text", "outside", "OK", "0"}[r.IntN(6)]}, expire}
	case "hash":
		return [][]string{{"HSET", key, "f", "1", "g", "2", "b", "3"}}
	case "list":
		return [][]string{append([]string{"RPUSH", key},
			either(key, []string{"3", "1", "2"}, "v", "a", "3", "v", "")...)}
	case "set": // in any order: Redis 7.0 orders the members anew each time it starts
		return [][]string{append([]string{"SADD", key},
			either(key, []string{"v", "w"}, "v", "w", "a", "b", "1", "2")...)}
	case "zset":
		return [][]string{{"ZADD", key, "1", "v", "2", "w"}}
	case "stream":
		return [][]string{{"XADD", key, "1-1", "f", "v"}}
	}
	return nil
}

// ofTheData is the TTL of the data in milliseconds.
const ofTheData = 60_000

// either returns the usual words, or at least one of words in any order. The key decides which.
func either(key string, usual []string, words ...string) []string {
	sum := fnv.New64a()
	sum.Write([]byte(key))
	r := rand.New(rand.NewPCG(sum.Sum64(), 0))
	if r.IntN(2) == 0 {
		return usual
	}
	r.Shuffle(len(words), func(i, j int) { words[i], words[j] = words[j], words[i] })
	return words[:1+r.IntN(len(words))]
}

// draw draws the data and the calls of a run.
func draw(p *Program, r *rand.Rand) (data [][]string, calls []call) {
	data = [][]string{{"FLUSHALL"}, {"SET", "outside", "kept"}, {"SET", "7", "kept"}, {"SET", "a", "kept"},
		{"SET", "b", "kept"}}
	keys := make([]string, len(p.Keys), len(p.Keys)+2)
	for i, k := range p.Keys {
		keys[i] = fmt.Sprintf("{x}:%s:%d", k.Name, r.IntN(1000))
		if k.Kind == "token" {
			data = append(data, []string{"SET", keys[i], "the token"})
			continue
		}
		if p.Guard == "fenced" && k.Bound {
			continue // the calls write the fence of this key
		}
		data = append(data, dataset(r, keys[i], k.Kind)...)
	}
	if p.Rest != "" {
		for i := range 1 + r.IntN(2) {
			keys = append(keys, fmt.Sprintf("{x}:rest:%d", i))
			data = append(data, dataset(r, keys[len(keys)-1], p.Rest)...)
		}
	}
	number := 1
	if p.Guard == "fenced" {
		number = 5
	}
	for range number {
		c := call{keys: keys, args: make([]string, len(p.Args)), good: r.IntN(3) == 0}
		for i, a := range p.Args {
			c.args[i] = c.draw(a, r)
		}
		if p.More != "" {
			for range r.IntN(4) {
				c.args = append(c.args, c.draw(Entry{Name: "more", Kind: p.More}, r))
			}
		}
		calls = append(calls, c)
	}
	return data, calls
}

// draw draws an argument.
func (c *call) draw(a Entry, r *rand.Rand) string {
	kind, optional := strings.CutSuffix(a.Kind, "?")
	if a.Name == unused || optional && r.IntN(3) == 0 {
		return ""
	}
	if values, ok := strings.CutPrefix(kind, "enum("); ok {
		choices := strings.Split(strings.TrimSuffix(values, ")"), "|")
		return choices[r.IntN(len(choices))]
	}
	switch kind {
	case "bool":
		return strconv.Itoa(r.IntN(2))
	case "int":
		return []string{"0", "1", "60", "7", "100"}[r.IntN(5)]
	case "float":
		return []string{"0.5", "3", "60.25"}[r.IntN(3)]
	case "duration":
		lease := int64(20_000 + r.IntN(20_000))
		c.lease = max(c.lease, lease)
		return strconv.FormatInt(lease, 10)
	case "time":
		return strconv.FormatInt(time.Now().Add(30*time.Second).UnixMilli(), 10)
	case "channel":
		return []string{"news", "a:channel", "{x}:news"}[r.IntN(3)]
	case "fence":
		c.fence = int64(1 + r.IntN(120))
		return strconv.FormatInt(c.fence, 10)
	}
	if a.Bound && c.good {
		return "the token"
	}
	if a.Name == "more" && r.IntN(2) == 0 { // words that commands look for, and undeclared keys
		return []string{"outside", "STORE", "STREAMS", "BY", "GET", "7", "2"}[r.IntN(7)]
	}
	return []string{"a", "b", "1", "KEYS", "x"}[r.IntN(5)]
}

// forbidden is the server's answer to a command or a key for which the script's user has no right,
// from Redis 7.0 on.
var forbidden = regexp.MustCompile(`NOPERM|ACL failure|The user executing the script can't`)

// excluded are the server's errors that no accepted script has, as the generator says.
var excluded = regexp.MustCompile(
	`Unknown Redis command|Wrong number of args|nonexistent global|readonly table|` +
		`Please specify at least one argument|not allowed from script|Write commands are not allowed`)

// spread matches what gives a command an unknown number of words, so perhaps too few.
var spread = regexp.MustCompile(`unpack\(|\.\.\.|table\.remove\(`)

// lacking are the server's errors for a command with too few words.
var lacking = regexp.MustCompile(`Wrong number of args|Please specify at least one argument`)

// fault is what is wrong with an accepted program.
type fault struct {
	kind  string // the broken promise
	why   string
	given string // data and arguments of a run
}

func (f fault) String() string { return f.kind + ": " + f.why + f.given }

// timed reports whether time may be the cause of the fault. A key may expire between two looks at
// the data, and on a busy machine the time between them is long.
func (f fault) timed() bool {
	return slices.Contains([]string{"read only", "guard", "fence", "cached", "lease"}, f.kind)
}

// promised returns what is wrong with the audit of a program before the program runs.
func promised(p *Program, r rule) *fault {
	if waived := len(p.Waivers) > 0; waived != (len(r.Unproved) > 0) || waived == r.Whole {
		return &fault{kind: "audit",
			why: fmt.Sprintf("the header waives %q, of which the audit says not proved: %q, rule is whole: %t",
				p.Waivers, r.Unproved, r.Whole)}
	}
	return p.assembled(r)
}

// run runs an accepted program on random data. It returns what is wrong with the program, or nil.
func (s *server) run(ctx context.Context, p *Program, r rule, seed *rand.Rand) (*fault, error) {
	if f := promised(p, r); f != nil {
		return f, nil
	}
	data, calls := draw(p, seed)
	f, err := s.calls(ctx, p, r, data, calls)
	if f != nil {
		f.given = fmt.Sprintf("\nwith the data %q\nand the keys %q, in calls with the arguments", data,
			calls[0].keys)
		for _, c := range calls {
			f.given += fmt.Sprintf(" %q", c.args)
		}
	}
	return f, err
}

// calls makes calls of a program on data. It returns what is wrong with the program.
func (s *server) calls(ctx context.Context, p *Program, r rule, data [][]string, calls []call) (*fault,
	error) {
	if err := s.prepare(ctx, data); err != nil {
		return nil, err
	}
	if err := s.restrict(ctx, p, r, calls); err != nil {
		return nil, err
	}
	var largest int64 // of the fences with which a call changed the data
	for _, c := range calls {
		before, err := s.digest(ctx)
		if err != nil {
			return nil, err
		}
		reply := s.limited.Do(ctx, s.limited.B().Arbitrary("EVAL", r.Text,
			strconv.Itoa(len(c.keys))).Args(c.keys...).Args(c.args...).Build())
		text, err := refusal(reply)
		if err != nil {
			return nil, err
		}
		if forbidden.MatchString(text) {
			return &fault{kind: "rights", why: fmt.Sprintf("the server says %q; the audit's rule is %q", text, r.ACL)},
				nil
		}
		if spread.MatchString(p.Body) && lacking.MatchString(text) {
			text = "" // the length of the list is unknown
		}
		if !p.waives("dynamic-command", "unknown-command") && excluded.MatchString(text) {
			return &fault{kind: "error", why: fmt.Sprintf("the server says %q", text)}, nil
		}
		after, err := s.digest(ctx)
		if err != nil {
			return nil, err
		}
		changed := after != before
		switch {
		case changed && p.Mode != "write" && !p.waives("dynamic-command", "unknown-command"):
			return &fault{kind: "read only", why: "a script of mode " + p.Mode + " changed data"}, nil
		case changed && p.Guard == "held" && !c.good:
			return &fault{kind: "guard", why: "data was changed without the lock"}, nil
		case changed && p.Guard == "fenced" && c.fence < largest:
			return &fault{kind: "fence",
				why: fmt.Sprintf("data was changed with the fence %d after %d", c.fence, largest)}, nil
		case changed:
			largest = max(largest, c.fence)
		}
		if p.Lease && c.lease > 0 {
			if f, err := s.leases(ctx, c); f != nil || err != nil {
				return f, err
			}
		}
	}
	return s.reply(ctx, p, r, data, calls[0])
}

// reply runs the copy of the program that describes its value.
func (s *server) reply(ctx context.Context, p *Program, r rule, data [][]string, c call) (*fault, error) {
	if p.waives("dynamic-command", "unknown-command") {
		return nil, nil
	}
	declared := parseType(p.Returns)
	var first string
	verb, times := "EVAL", 1
	if p.Mode != "write" {
		verb = "EVAL_RO"
	}
	if p.Mode == "read cached" {
		times = 2
	}
	for n := range times {
		if err := s.prepare(ctx, data); err != nil {
			return nil, err
		}
		reply := s.admin.Do(ctx, s.admin.B().Arbitrary(verb, fmt.Sprintf(describer, r.Text),
			strconv.Itoa(len(c.keys))).Args(c.keys...).Args(c.args...).Build())
		text, err := refusal(reply)
		if err != nil {
			return nil, err
		}
		if text != "" {
			if strings.Contains(text, "Write commands are not allowed") {
				return &fault{kind: "read only", why: "EVAL_RO says " + text}, nil
			}
			return nil, nil // a program may fail: WRONGTYPE, arithmetic on nil …
		}
		text, err = reply.ToString()
		if err != nil {
			return nil, err
		}
		var value described
		if err := json.Unmarshal([]byte(text), &value); err != nil {
			return nil, fmt.Errorf("the describer answers %q: %w", text, err)
		}
		if value.Kind == "given" {
			return &fault{kind: "argument", why: "a " + value.Text + " is the argument of a command"}, nil
		}
		if value.Kind == "string" && p.Texts {
			continue // the generator trusts this text to decode
		}
		if why := value.fits(declared); why != "" {
			return &fault{kind: "reply", why: fmt.Sprintf("the header says %s: %s", p.Returns, why)}, nil
		}
		if err := json.Unmarshal([]byte(strings.ReplaceAll(text, `"read":true`, `"read":false`)),
			&value); err != nil {
			return nil, err
		}
		p.Trusting = p.Trusting || value.fits(declared) != ""
		if n > 0 && text != first {
			return &fault{kind: "cached",
				why: fmt.Sprintf("the same data is answered with %s, then with %s", first, text)}, nil
		}
		first = text
	}
	return nil, nil
}

// leases looks for keys with a longer lease than the call passed.
func (s *server) leases(ctx context.Context, c call) (*fault, error) {
	for _, key := range c.keys {
		left, err := s.admin.Do(ctx, s.admin.B().Pttl().Key(key).Build()).AsInt64()
		if err != nil {
			return nil, err
		}
		if left > max(c.lease, ofTheData) {
			return &fault{kind: "lease", why: fmt.Sprintf("a lease of %d ms became %d ms", c.lease, left)}, nil
		}
	}
	return nil, nil
}

// refusal is the text of the server's error, or "".
func refusal(reply rueidis.RedisResult) (string, error) {
	err := reply.Error()
	var server *rueidis.RedisError
	switch {
	case err == nil:
		return "", nil
	case errors.As(err, &server):
		if server.IsNil() {
			return "", nil
		}
		return server.Error(), nil
	}
	return "", err
}

func (s *server) prepare(ctx context.Context, data [][]string) error {
	commands := make([]rueidis.Completed, len(data))
	for i, args := range data {
		commands[i] = s.admin.B().Arbitrary(args...).Build()
	}
	for i, reply := range s.admin.DoMulti(ctx, commands...) {
		if err := reply.Error(); err != nil && !rueidis.IsRedisNil(err) {
			return fmt.Errorf("%v: %w", data[i], err)
		}
	}
	return nil
}

var placeholder = regexp.MustCompile(`<(\w+)>`)

// restrict gives the user the rights of the audit, and no other rights.
func (s *server) restrict(ctx context.Context, p *Program, r rule, calls []call) error {
	words, err := rights(user, p, r, calls)
	if err != nil {
		return err
	}
	return s.admin.Do(ctx, s.admin.B().Arbitrary("ACL").Args(words...).Build()).Error()
}

// rights returns the words that give a user the rights of the audit.
func rights(user string, p *Program, r rule, calls []call) ([]string, error) {
	named := map[string][]string{}
	for i, a := range p.Args {
		for _, c := range calls {
			named[a.Name] = append(named[a.Name], c.args[i])
		}
	}
	for i, k := range p.Keys {
		named[k.Name] = calls[0].keys[i : i+1]
	}
	if p.Rest != "" {
		named["rest"] = calls[0].keys[len(p.Keys):]
	}
	rights := []string{"SETUSER", user, "reset", "on", "nopass", "+ping"}
	any := p.waives("dynamic-command", "unknown-command")
	for _, word := range r.ACL {
		if any && strings.HasPrefix(word, "+") {
			continue // this server may not know the command
		}
		name := placeholder.FindString(word)
		if name == "" {
			rights = append(rights, word)
			continue
		}
		keys, ok := named[strings.Trim(name, "<>")]
		if !ok {
			return nil, fmt.Errorf("the audit's rule %q names %s, which is none of %v", r.ACL, name,
				slices.Sorted(maps.Keys(named)))
		}
		for _, key := range keys {
			rights = append(rights, strings.Replace(word, name, key, 1))
		}
	}
	switch { // a waiver opens what it names
	case any:
		rights = append(rights, "~*", "&*", "+@all")
	case p.waives("undeclared-key"):
		rights = append(rights, "~*")
	case p.waives("undeclared-channel"):
		rights = append(rights, "&*")
	}
	return rights, nil
}

// digest is a sum of all data and its leases. Before the sum, the server removes expired keys. Else
// a command of the program might remove them, and the program would seem to change data.
func (s *server) digest(ctx context.Context) (string, error) {
	replies := s.admin.DoMulti(ctx, s.admin.B().Scan().Cursor(0).Count(1000).Build(),
		s.admin.B().Arbitrary("DEBUG", "DIGEST").Build())
	if err := replies[0].Error(); err != nil {
		return "", err
	}
	return replies[1].ToString()
}
