package explorer

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// The server has five names: a lock, its queue, who shares it, its fence counter, and what channels start with.
const (
	lockKey    = "lock"
	queueKey   = "queue"
	counterKey = "counter"
	holdersKey = "holders"
	grants     = "{1}:"
)

const (
	maxProcesses = 4
	maxMembers   = 8
	endless      = -1      // what is left of a key without expiry
	forever      = 1 << 62 // what is left of a share that never ends
)

// processes are the names of the processes, as members and channels have them.
const processes = "pqrs"

// hearing is whether a process hears what is sent to its channel.
type hearing uint8

const (
	deaf hearing = iota
	listening
	uncounted // it hears, and the server does not count it, such as a subscriber of a replica
)

// member is an entry of the queue.
type member struct {
	name  string
	score int64
}

// token returns the token that waits.
func (m member) token() string { return strings.SplitN(m.name, ":", 3)[2] }

// sharer is a permit of a holder who shares the lock.
type sharer struct {
	name string // "<phase> <number> <token>"
	left int64  // of its lease; 0: it is over
}

func (h sharer) token() string { return strings.SplitN(h.name, " ", 3)[2] }

// server is what a server knows: a value that can be compared. Times are in milliseconds, as
// what is left.
type server struct {
	lock      string
	left      int64
	queue     [maxMembers]member // in the order of scores
	members   int
	queueLeft int64
	sharers   [maxMembers]sharer // in the order in which their leases end
	shares    int
	shareLeft int64 // of their key
	counter   int64
	broken    bool // the counter is of another type
	open      bool // a free lock stays free, whoever waits in the queue
	mute      bool // PUBSUB is refused
	hearing   [maxProcesses]hearing
}

// pushed is a message that the server has sent.
type pushed struct {
	process int
	text    string
}

// execution is one run of a script: what it does to the server, and when it is.
type execution struct {
	server server
	clock  int64 // microseconds
	pushed []pushed
}

// errModel is a call that the model does not know: a script uses more than it has.
var errModel = errors.New("the model of the server does not have this call")

var errPerm = errors.New("NOPERM this user has no permissions to run this command")

// do executes a command. A reply is an int64, a string, nil, "OK" as status, or a list.
func (x *execution) do(words []string) (any, error) {
	s := &x.server
	n := len(words)
	switch name := strings.ToUpper(words[0]); {
	case name == "GET" && n == 2 && words[1] == lockKey:
		if s.lock == "" {
			return nil, nil
		}
		return s.lock, nil
	case name == "GET" && n == 2 && words[1] == counterKey && !s.broken:
		if s.counter == 0 {
			return nil, nil
		}
		return strconv.FormatInt(s.counter, 10), nil
	case name == "SET" && n >= 3 && words[1] == lockKey:
		return x.set(words[2], words[3:])
	case name == "SET" && n == 3 && words[1] == counterKey:
		value, err := strconv.ParseInt(words[2], 10, 64)
		s.counter = value
		return status("OK"), err
	case name == "INCR" && n == 2 && words[1] == counterKey:
		if s.broken {
			return nil, errors.New("ERR value is not an integer or out of range")
		}
		s.counter++
		return s.counter, nil
	case name == "DEL" && n == 2:
		return x.del(words[1])
	case name == "MGET" && n == 2 && words[1] == lockKey:
		if s.lock == "" {
			return []any{nil}, nil
		}
		return []any{s.lock}, nil
	case name == "EXISTS" && n >= 2:
		exist := int64(0)
		for _, key := range words[1:] {
			exist += count(x.exists(key))
		}
		return exist, nil
	case name == "PTTL" && n == 2:
		return x.pttl(words[1])
	case name == "PERSIST" && n == 2:
		left, err := x.leftOf(words[1])
		if err != nil || !x.exists(words[1]) || *left == endless {
			return int64(0), err
		}
		*left = endless
		return int64(1), nil
	case name == "PEXPIRE" && (n == 3 || n == 4 && strings.ToUpper(words[3]) == "GT"):
		return x.pexpire(words[1], words[2], n == 4)
	case name == "TIME" && n == 1:
		return []any{strconv.FormatInt(x.clock/1e6, 10), strconv.FormatInt(x.clock%1e6, 10)}, nil
	case name == "PEXPIREAT" && n == 3:
		at, err := strconv.ParseInt(words[2], 10, 64)
		if err != nil {
			return nil, errors.New("ERR value is not an integer or out of range")
		}
		return x.pexpire(words[1], strconv.FormatInt(at-x.milliseconds(), 10), false)
	case name == "PEXPIRETIME" && n == 2:
		reply, err := x.pttl(words[1])
		if left, is := reply.(int64); is && left >= 0 {
			reply = left + x.milliseconds()
		}
		return reply, err
	case strings.HasPrefix(name, "Z") && n >= 2 && words[1] == holdersKey:
		return x.shared(name, words[2:])
	case strings.HasPrefix(name, "Z") && n >= 2 && words[1] == queueKey:
		return x.sorted(name, words[2:])
	case name == "PUBSUB" && n == 3 && strings.ToUpper(words[1]) == "SHARDNUMSUB":
		if s.mute {
			return nil, errPerm
		}
		heard := int64(0)
		if p := processOf(words[2]); p >= 0 && s.hearing[p] == listening {
			heard = 1
		}
		return []any{words[2], heard}, nil
	case name == "SPUBLISH" && n == 3:
		p := processOf(words[1])
		if p < 0 || s.hearing[p] == deaf {
			return int64(0), nil
		}
		x.pushed = append(x.pushed, pushed{p, words[2]})
		return count(s.hearing[p] == listening), nil
	}
	return nil, fmt.Errorf("%w: %q", errModel, words)
}

// status is a reply such as OK.
type status string

func count(yes bool) int64 {
	if yes {
		return 1
	}
	return 0
}

func processOf(channel string) int {
	if name, is := strings.CutPrefix(channel, grants); is && len(name) == 1 {
		return strings.Index(processes, name)
	}
	return -1
}

func (x *execution) set(value string, options []string) (any, error) {
	left := int64(endless)
	switch {
	case len(options) == 1 && options[0] == "KEEPTTL":
		if x.server.lock != "" {
			left = x.server.left
		}
	case len(options) == 2 && options[0] == "PX":
		var err error
		if left, err = strconv.ParseInt(options[1], 10, 64); err != nil || left <= 0 {
			return nil, errors.New("ERR invalid expire time in 'set' command")
		}
	case len(options) == 2 && options[0] == "PXAT":
		at, err := strconv.ParseInt(options[1], 10, 64)
		if err != nil || at <= 0 {
			return nil, errors.New("ERR invalid expire time in 'set' command")
		}
		if left = at - x.milliseconds(); left <= 0 {
			x.server.lock, x.server.left = "", 0
			return status("OK"), nil
		}
	case len(options) > 0:
		return nil, fmt.Errorf("%w: SET %q", errModel, options)
	}
	x.server.lock, x.server.left = value, left
	return status("OK"), nil
}

func (x *execution) exists(key string) bool {
	switch key {
	case lockKey:
		return x.server.lock != ""
	case queueKey:
		return x.server.members > 0
	case holdersKey:
		return x.server.shares > 0
	}
	return x.server.counter != 0
}

func (x *execution) leftOf(key string) (*int64, error) {
	switch key {
	case lockKey:
		return &x.server.left, nil
	case queueKey:
		return &x.server.queueLeft, nil
	case holdersKey:
		return &x.server.shareLeft, nil
	}
	return nil, fmt.Errorf("%w: expiry of %s", errModel, key)
}

func (x *execution) del(key string) (any, error) {
	existed := x.exists(key)
	switch key {
	case lockKey:
		x.server.lock, x.server.left = "", 0
	case queueKey:
		x.server.drop()
	case holdersKey:
		x.server.unshare()
	default:
		x.server.counter = 0
	}
	return count(existed), nil
}

func (s *server) unshare() { s.sharers, s.shares, s.shareLeft = [maxMembers]sharer{}, 0, 0 }

// milliseconds is the time as TIME tells it.
func (x *execution) milliseconds() int64 { return x.clock / 1000 }

// drop deletes the queue.
func (s *server) drop() { s.queue, s.members, s.queueLeft = [maxMembers]member{}, 0, 0 }

func (x *execution) pttl(key string) (any, error) {
	left, err := x.leftOf(key)
	switch {
	case err != nil:
		return nil, err
	case !x.exists(key):
		return int64(-2), nil
	}
	return *left, nil
}

func (x *execution) pexpire(key, text string, longer bool) (any, error) {
	wanted, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return nil, errors.New("ERR value is not an integer or out of range")
	}
	left, err := x.leftOf(key)
	if err != nil || !x.exists(key) || longer && (*left == endless || wanted <= *left) {
		return int64(0), err
	}
	if wanted <= 0 {
		_, err := x.del(key)
		return int64(1), err
	}
	*left = wanted
	return int64(1), nil
}

// sorted executes a command on the queue.
func (x *execution) sorted(name string, words []string) (any, error) {
	s := &x.server
	find := func(m string) int {
		return slices.IndexFunc(s.queue[:s.members], func(e member) bool { return e.name == m })
	}
	switch n := len(words); {
	case name == "ZADD" && n == 2:
		score, err := strconv.ParseFloat(words[0], 64)
		if err != nil {
			return nil, errors.New("ERR value is not a valid float")
		}
		return x.add(member{words[1], int64(score)}, find(words[1]))
	case name == "ZREM" && n == 1:
		i := find(words[0])
		if i >= 0 {
			s.remove(i)
		}
		return count(i >= 0), nil
	case name == "ZCARD" && n == 0:
		return int64(s.members), nil
	case name == "ZSCORE" && n == 1:
		if i := find(words[0]); i >= 0 {
			return strconv.FormatInt(s.queue[i].score, 10), nil
		}
		return nil, nil
	case name == "ZRANK" && n == 1:
		if i := find(words[0]); i >= 0 {
			return int64(i), nil
		}
		return nil, nil
	case name == "ZRANGE" && n == 2 && words[0] == "0" && words[1] == "0":
		if s.members == 0 {
			return []any{}, nil
		}
		return []any{s.queue[0].name}, nil
	case name == "ZRANGE" && n == 3 && words[0] == words[1] && words[2] == "WITHSCORES":
		at := map[string]int{"0": 0, "-1": s.members - 1}[words[0]]
		if s.members == 0 {
			return []any{}, nil
		}
		return []any{s.queue[at].name, strconv.FormatInt(s.queue[at].score, 10)}, nil
	}
	return nil, fmt.Errorf("%w: %s %q", errModel, name, words)
}

// shared executes a command on those who share the lock. Scores are ends of leases, of which the model has
// what is left.
func (x *execution) shared(name string, words []string) (any, error) {
	s := &x.server
	now := x.milliseconds()
	at := func(name string) int {
		return slices.IndexFunc(s.sharers[:s.shares], func(h sharer) bool { return h.name == name })
	}
	score := func(h sharer) string {
		if h.left == forever {
			return "inf"
		}
		return strconv.FormatInt(h.left+now, 10)
	}
	switch n := len(words); {
	case name == "ZADD" && n == 2:
		left := int64(forever)
		if words[0] != "+inf" {
			end, err := strconv.ParseInt(words[0], 10, 64)
			if err != nil {
				return nil, errors.New("ERR value is not a valid float")
			}
			left = end - now
		}
		return x.share(sharer{words[1], left}, at(words[1]))
	case name == "ZREM" && n == 1:
		i := at(words[0])
		if i >= 0 {
			copy(s.sharers[i:s.shares], s.sharers[i+1:s.shares])
			s.shares--
			s.sharers[s.shares] = sharer{}
			if s.shares == 0 {
				s.unshare()
			}
		}
		return count(i >= 0), nil
	case name == "ZCARD" && n == 0:
		return int64(s.shares), nil
	case name == "ZSCORE" && n == 1:
		if i := at(words[0]); i >= 0 {
			return score(s.sharers[i]), nil
		}
		return nil, nil
	case name == "ZRANGE" && n == 3 && words[0] == "-inf" && words[2] == "BYSCORE":
		end, err := strconv.ParseInt(words[1], 10, 64)
		if err != nil {
			return nil, errors.New("ERR min or max is not a float")
		}
		list := []any{}
		for _, h := range s.sharers[:s.shares] {
			if h.left != forever && h.left+now <= end {
				list = append(list, h.name)
			}
		}
		return list, nil
	case name == "ZRANGE" && n == 2 && words[0] == "0" && words[1] == "-1":
		list := []any{}
		for _, h := range s.sharers[:s.shares] {
			list = append(list, h.name)
		}
		return list, nil
	case name == "ZRANGE" && n == 3 && words[0] == words[1] && words[2] == "WITHSCORES":
		i := map[string]int{"0": 0, "-1": s.shares - 1}[words[0]]
		if s.shares == 0 {
			return []any{}, nil
		}
		return []any{s.sharers[i].name, score(s.sharers[i])}, nil
	}
	return nil, fmt.Errorf("%w: %s %q", errModel, name, words)
}

func (x *execution) share(h sharer, at int) (any, error) {
	s := &x.server
	if at >= 0 {
		s.sharers[at].left = h.left
	} else {
		if s.shares == maxMembers {
			return nil, fmt.Errorf("%w: too many share the lock", errModel)
		}
		if s.shares == 0 {
			s.shareLeft = endless
		}
		s.sharers[s.shares] = h
		s.shares++
	}
	s.sortSharers()
	return count(at < 0), nil
}

func (s *server) sortSharers() {
	slices.SortFunc(s.sharers[:s.shares], func(a, b sharer) int {
		return cmp.Or(cmp.Compare(a.left, b.left), cmp.Compare(a.name, b.name))
	})
}

// phase returns what the value of the lock starts with while it is shared, and its limit.
func (s *server) phase() (phase string, limit int64, shared bool) {
	rest, shared := strings.CutPrefix(s.lock, "rlock:shared ")
	if !shared {
		return "", 0, false
	}
	phase, text, _ := strings.Cut(rest, " ")
	limit, err := strconv.ParseInt(text, 10, 64)
	return phase, limit, err == nil
}

// holders returns the tokens that have the lock, or a share of it, and have not lost it: one for each
// permit.
func (s *server) holders() (tokens []string) {
	phase, _, shared := s.phase()
	if !shared {
		if s.lock != "" {
			tokens = append(tokens, s.lock)
		}
		return tokens
	}
	for _, h := range s.sharers[:s.shares] {
		if h.left > 0 && strings.HasPrefix(h.name, phase+" ") {
			tokens = append(tokens, h.token())
		}
	}
	return tokens
}

// eachPhase calls f for each phase that the server knows, which may change it.
func (s *server) eachPhase(f func(*int64)) {
	change := func(text, before string) string {
		digits, after, _ := strings.Cut(text[len(before):], " ")
		n, err := strconv.ParseInt(digits, 10, 64)
		if err != nil {
			return text
		}
		f(&n)
		return before + strconv.FormatInt(n, 10) + " " + after
	}
	if _, _, shared := s.phase(); shared {
		s.lock = change(s.lock, "rlock:shared ")
	}
	for i := range s.shares {
		s.sharers[i].name = change(s.sharers[i].name, "")
	}
}

func (x *execution) add(m member, at int) (any, error) {
	s := &x.server
	if at >= 0 {
		s.queue[at].score = m.score
	} else {
		if s.members == maxMembers {
			return nil, fmt.Errorf("%w: the queue is full", errModel)
		}
		if s.members == 0 {
			s.queueLeft = endless
		}
		s.queue[s.members] = m
		s.members++
	}
	slices.SortFunc(s.queue[:s.members], func(a, b member) int {
		return cmp.Or(cmp.Compare(a.score, b.score), cmp.Compare(a.name, b.name))
	})
	return count(at < 0), nil
}

func (s *server) remove(i int) {
	copy(s.queue[i:s.members], s.queue[i+1:s.members])
	s.members--
	s.queue[s.members] = member{}
	if s.members == 0 {
		s.drop()
	}
}

// pass lets time go by.
func (s *server) pass(ms int64) {
	if s.lock != "" && s.left != endless {
		if s.left -= ms; s.left <= 0 {
			s.lock, s.left = "", 0
		}
	}
	if s.members > 0 && s.queueLeft != endless {
		if s.queueLeft -= ms; s.queueLeft <= 0 {
			s.drop()
		}
	}
	if s.shares > 0 && s.shareLeft != endless {
		if s.shareLeft -= ms; s.shareLeft <= 0 {
			s.unshare()
		}
	}
	for i := range s.shares {
		if h := &s.sharers[i]; h.left != forever {
			h.left = max(h.left-ms, 0)
		}
	}
	s.sortSharers()
}
