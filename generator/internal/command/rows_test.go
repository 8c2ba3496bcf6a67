package command

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/rlock_test/env"
)

func TestRows(t *testing.T) {
	t.Parallel()
	for name, c := range commands {
		_, err := parseSyntax(c.Syntax)
		require.NoError(t, err, name)
	}
	for name, row := range facts {
		require.Contains(t, commands, name)
		_, err := parseReplies(row.Reply)
		require.NoError(t, err, name)
	}
}

// harmful are the commands that a test does not send: they end others, or take what they share.
var harmful = regexp.MustCompile(
	`^(acl|client|cluster|config|debug|function|latency|module|memory|script|slowlog|shutdown|failover|replicaof|slaveof|wait|swapdb|flush|select|migrate|asking|read(only|write)|lolwut|command|pubsub|.* help|object help|bg.*|save|psync|sync|replconf|restore-asking|pfselftest|pfdebug|move|info)\b`)

// scarce are the commands of which no sentence that a test makes succeeds: they want what DUMP has answered.
var scarce = []string{"restore"}

// lenient are the commands of which a server takes more: it finds no group and looks no further, takes no ids
// for none, or is newer, and takes a start without an end.
var lenient = []string{"xack", "xclaim", "bitcount"}

// refusals are the errors by which a server says that it does not take the words.
var refusals = regexp.MustCompile(
	`(?i)syntax error script|wrong number|unknown (sub)?command|unsupported|invalid stream id|must be an int`)

// Each row is sent as it says, on data of every type, in both versions of the protocol. Servers take its
// words, and answer what it declares. What they answer when the words are mixed up, it does not refuse.
func TestCommandsAsServersHaveThem(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		client := e.Start(t).Client(t)
		for name, c := range commands {
			if c.Flags&(NoScript|Container) != 0 || harmful.MatchString(name) || c.Syntax == "" {
				continue
			}
			s := sender{T: t, client: client, Command: c, Rand: rand.New(rand.NewPCG(1, uint64(len(name))))}
			fine := true
			for i := 0; fine && (i < 100 || s.answered == 0 && i < 3000); i++ {
				fine = s.send()
			}
			if fine && s.answered == 0 {
				assert.Contains(t, scarce, name, "no call succeeded")
			}
		}
	})
}

// sender sends calls of a command.
type sender struct {
	*testing.T
	*rand.Rand
	Command
	client   rueidis.Client
	answered int
}

// prepare are calls that make the data.
const prepare = `redis.call('FLUSHALL')
redis.call('MSET', 'string', 'abc', 'number', '7')
redis.call('RPUSH', 'list', 'm', '2', '3')
redis.call('HSET', 'hash', 'f', '1', 'g', 'x')
redis.call('SADD', 'set', 'm', '2')
redis.call('ZADD', 'zset', 1, 'm', 2.5, 'n')
redis.call('GEOADD', 'places', 13, 38, 'm', 15, 37, 'n')
redis.call('XADD', 'stream', '1-1', 'f', 'v')
redis.call('XADD', 'stream', '2-1', 'f', 'v')
redis.call('XGROUP', 'CREATE', 'stream', 'g', '0')
redis.call('XREADGROUP', 'GROUP', 'g', 'c', 'COUNT', 1, 'STREAMS', 'stream', '>')
redis.call('SET', 'lease', 'x', 'EX', 1000)
redis.call('PFADD', 'log', 'a')`

// send sends a call, and one that is mixed up. It reports false after the first difference.
func (s *sender) send() bool {
	words := s.sentence()
	if m := s.match(words); !m.OK {
		return assert.Fail(s, "a sentence of the syntax is refused", "%s %q: %d", s.Name, words, m.Stop)
	}
	for _, version := range []int{2, 3} {
		reply, err := s.call(words, version)
		if err != nil {
			if !assert.NotRegexp(s, refusals, err.Error(), "%s %q", s.Name, words) {
				return false
			}
			continue
		}
		s.answered++
		replies := s.Replies(s.match(words))
		if len(replies) == 0 {
			continue
		}
		var wrong error
		for _, r := range replies {
			if wrong = fits(r, reply, version == 3); wrong == nil {
				break
			}
		}
		if !assert.NoError(s, wrong, "%s %q in version %d", s.Name, words, version) {
			return false
		}
	}
	mixed := s.mixUp(words)
	// A server may answer before it has read all words, where the key is not there, and takes an option twice.
	if len(words) == 0 || slices.Contains(words, "missing") || mixed[0] != words[0] || twice(mixed) ||
		slices.Contains(lenient, s.Name) || !s.Takes(len(mixed)+len(strings.Fields(s.Name))) || s.match(mixed).OK {
		return true
	}
	_, err := s.call(mixed, 2)
	return assert.Error(s, err, "the syntax refuses %s %q, and the server takes it", s.Name, mixed)
}

func (s *sender) call(words []string, version int) (rueidis.RedisMessage, error) {
	_, err := env.Do(s.T, s.client, "EVAL", prepare, "0").ToMessage()
	if err != nil && !rueidis.IsRedisNil(err) {
		require.NoError(s, err)
	}
	script := fmt.Sprintf("redis.setresp(%d) return redis.call(unpack(ARGV))", version)
	all := slices.Concat([]string{"EVAL", script, "0"}, strings.Fields(s.Name), words)
	m, err := env.Do(s.T, s.client, all...).ToMessage()
	if rueidis.IsRedisNil(err) {
		err = nil
	}
	return m, err
}

func (s *sender) match(words []string) *Match {
	return s.Match(Words{
		N:   len(words),
		May: func(i int, p *Place) bool { return p.Takes(words[i]) },
		Num: func(i int) (int, bool) { n, err := strconv.Atoi(words[i]); return n, err == nil },
	})
}

// sentence is a random walk through the syntax.
func (s *sender) sentence() []string {
	keys := 1 + s.IntN(2)
	a := s.automaton(Words{N: 100, Num: func(int) (int, bool) { return keys, true }})
	var words []string
	used := map[*Place]bool{}
	for at := 0; ; {
		var ways []edge
		ends := false
		for near := range a.closure(at) {
			ends = ends || near == a.end
			for _, e := range a.edges[near] {
				excluded := false
				for p := range used {
					excluded = excluded || e.place.Keyword && (p.Excludes(e.place) || p == e.place)
				}
				if !excluded {
					ways = append(ways, e)
				}
			}
		}
		if ends && (len(ways) == 0 || s.IntN(3) == 0 || len(words) > 12) {
			if !paired(words) {
				return s.sentence()
			}
			return words
		}
		if len(ways) == 0 {
			return s.sentence()
		}
		slices.SortFunc(ways, func(a, b edge) int { return strings.Compare(a.place.Name, b.place.Name) })
		e := ways[s.IntN(len(ways))]
		if e.place.Keyword {
			used[e.place] = true
		}
		words = append(words, s.word(e.place, keys))
		at = e.to
	}
}

// paired reports whether there is an id for each stream.
func paired(words []string) bool {
	at := slices.Index(words, "STREAMS")
	if at < 0 {
		return true
	}
	ids := 0
	for _, w := range words[at+1:] {
		if w == ">" || texts[LastID].MatchString(w) {
			ids++
		}
	}
	return 2*ids == len(words)-at-1
}

// word is a text for a place.
func (s *sender) word(p *Place, keys int) string {
	any := func(texts ...string) string { return texts[s.IntN(len(texts))] }
	switch {
	case p.Keyword:
		return p.Name
	case p.Type == Key:
		return any("string", "number", "list", "hash", "set", "zset", "places", "stream", "missing", "lease", "log")
	case p.Type == NumKeys:
		return strconv.Itoa(keys)
	case p.Type == UnixSeconds:
		return "4000000000"
	case p.Type == UnixMillis:
		return "4000000000000"
	case p.Type.Whole():
		return any("1", "2")
	case p.Type == Double, p.Type == Timeout:
		return any("1", "0.5", "2")
	case p.Type == Bound:
		return any("-inf", "(1", "2", "+inf")
	case p.Type == NewID:
		return any("*", "7-*", "9-9")
	case p.Type.Entry():
		return any("0", "1-1", "9-9")
	}
	switch p.Name {
	case "operation":
		return "AND"
	case "encoding":
		return any("u8", "i5")
	case "cursor":
		return "0"
	case "type":
		return "string"
	case "group", "groupname":
		return "g"
	case "consumer", "consumername":
		return "c"
	case "pattern":
		return "*"
	case "min", "max", "start", "stop":
		return any("0", "1", "-", "+", "[m")
	}
	return any("m", "f", "1")
}

// twice reports whether an option stands twice.
func twice(words []string) bool {
	seen := map[string]bool{}
	for _, w := range words {
		if seen[w] && strings.ToUpper(w) == w && strings.ToLower(w) != w {
			return true
		}
		seen[w] = true
	}
	return false
}

// mixUp changes one word of a call.
func (s *sender) mixUp(words []string) []string {
	mixed := slices.Clone(words)
	if len(mixed) < 2 {
		return append(mixed, "m")
	}
	i, j := s.IntN(len(mixed)), s.IntN(len(mixed))
	switch s.IntN(4) {
	case 0:
		return slices.Delete(mixed, i, i+1)
	case 1:
		return slices.Insert(mixed, i, mixed[j])
	case 2:
		mixed[i], mixed[j] = mixed[j], mixed[i]
	default:
		mixed[i] = "m"
	}
	return mixed
}

// fits compares an answer with a row.
func fits(r *Reply, m rueidis.RedisMessage, resp3 bool) error {
	wrong := func(want string) error { return fmt.Errorf("want %s %s, and not %s", r.Form, want, m.String()) }
	if m.IsNil() {
		if r.OrNil {
			return nil
		}
		return wrong("")
	}
	list := func(of rueidis.RedisMessage, each func(i int) *Reply, n int) error {
		items, err := of.ToArray()
		if err != nil {
			return wrong("as a list")
		}
		if n >= 0 && len(items) != n {
			return wrong(fmt.Sprint("with ", n, " elements"))
		}
		for i, item := range items {
			if each(i) == nil {
				continue
			}
			if err := fits(each(i), item, resp3); err != nil {
				return err
			}
		}
		return nil
	}
	text, isText := "", m.IsString()
	if isText {
		text, _ = m.ToString()
	}
	number := func() error {
		if _, err := strconv.ParseFloat(text, 64); !isText || err != nil {
			return wrong("as a text")
		}
		return nil
	}
	switch r.Form {
	case Int, Bit:
		n, err := m.ToInt64()
		if err != nil || r.Form == Bit && n != 0 && n != 1 {
			return wrong("")
		}
		return nil
	case Text, Blank, Sent, Label, Verbatim, OK, Status:
		if !isText || r.Form == OK && text != "OK" {
			return wrong("")
		}
		return nil
	case Whole:
		if _, err := strconv.ParseInt(text, 10, 64); err != nil {
			return wrong("")
		}
		return nil
	case Decimal, Real:
		return number()
	case Score, Float:
		if resp3 {
			if !m.IsFloat64() {
				return wrong("as a double")
			}
			return nil
		}
		return number()
	case List, Set:
		return list(m, func(int) *Reply { return r.Elem }, -1)
	case Tuple:
		return list(m, func(i int) *Reply { return r.Elems[i] }, len(r.Elems))
	}
	pairs := &Reply{Form: Tuple, Elems: []*Reply{{Form: Text}, r.Elem}}
	inTurn := func(i int) *Reply { return pairs.Elems[i%2] }
	switch {
	case r.Single:
		return list(m, inTurn, -1)
	case r.Form == Scored && resp3, r.Form == Streams && !resp3:
		return list(m, func(int) *Reply { return pairs }, -1)
	case resp3 && r.Form != Flat:
		values, err := m.AsMap()
		if !m.IsMap() || err != nil {
			return wrong("as a map")
		}
		for _, v := range values {
			err = errors.Join(err, fits(r.Elem, v, resp3))
		}
		return err
	}
	return list(m, inTurn, -1)
}
