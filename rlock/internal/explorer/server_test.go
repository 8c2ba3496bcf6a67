package explorer

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// The server has six names: a lock, its queue, who waits in it, who shares the lock, its fence counter, and
// what channels start with.
const (
	lockKey    = "lock"
	queueKey   = "queue"
	waitersKey = "waiters"
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

// member is a token in the queue.
type member struct {
	token string
	score int64
}

// entry is what the server knows of a token that waits.
type entry struct {
	token string
	ago   int64  // when it was heard of
	beat  int64  // for how long that is enough
	rest  string // its lease and its process
}

// oldest is as long ago as makes no difference: no beat lasts so long.
const oldest = 61_000

// sharer is one of those who share the lock, or how many permits they have.
type sharer struct {
	name string // "<phase> <permits> <token>", or "<phase>"
	left int64  // of its lease, 0: it is over; of "<phase>" the number
}

func (h sharer) counts() bool  { return !strings.Contains(h.name, " ") }
func (h sharer) token() string { return strings.SplitN(h.name, " ", 3)[2] }
func (h sharer) permits() int64 {
	n, _ := strconv.ParseInt(strings.SplitN(h.name, " ", 3)[1], 10, 64)
	return n
}

// server is what a server knows: a value that can be compared. Times are in milliseconds, as
// what is left.
type server struct {
	lock      string
	left      int64
	queue     [maxMembers]member // in the order of scores
	members   int
	queueLeft int64
	entries   [maxMembers]entry // of those who wait, in the order of tokens
	waiters   int
	waitLeft  int64
	sharers   [maxMembers]sharer // in the order in which their leases end
	shares    int
	shareLeft int64 // of their key
	counter   int64
	broken    bool // the counter is of another type
	open      bool // a free lock stays free, whoever waits in the queue
	mute      bool // PUBSUB is refused
	slow      bool // those who wait may be silent for long
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
	case (name == "DEL" || name == "UNLINK") && n == 2:
		return x.del(words[1])
	case strings.HasPrefix(name, "H") && n >= 3 && words[1] == waitersKey:
		return x.hash(name, words[2:])
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
	case waitersKey:
		return x.server.waiters > 0
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
	case waitersKey:
		return &x.server.waitLeft, nil
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
	case waitersKey:
		x.server.forget()
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

// forget deletes what the server knows of those who wait.
func (s *server) forget() { s.entries, s.waiters, s.waitLeft = [maxMembers]entry{}, 0, 0 }

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
	if key != lockKey && wanted == longestQueue {
		// Without a heartbeat all who wait are dead by then too.
		wanted = 3 * tick.Milliseconds()
		if x.server.slow {
			wanted = 7 * tick.Milliseconds()
		}
	}
	*left = wanted
	return int64(1), nil
}

// longestQueue is how long scripts let a queue last without a heartbeat, in milliseconds.
const longestQueue = 30_000

// hash executes a command on what the server knows of those who wait.
func (x *execution) hash(name string, words []string) (any, error) {
	s := &x.server
	at := func(token string) int {
		return slices.IndexFunc(s.entries[:s.waiters], func(e entry) bool { return e.token == token })
	}
	text := func(token string) any {
		i := at(token)
		if i < 0 {
			return nil
		}
		e := s.entries[i]
		return fmt.Sprintf("%d %d %s", x.milliseconds()-e.ago, e.beat, e.rest)
	}
	switch n := len(words); {
	case name == "HSET" && n == 2:
		var heard, beat int64
		numbers, err := fmt.Sscanf(words[1], "%d %d", &heard, &beat)
		if err != nil || numbers != 2 {
			return nil, fmt.Errorf("%w: HSET %q", errModel, words)
		}
		e := entry{words[0], x.milliseconds() - heard, beat, strings.SplitN(words[1], " ", 3)[2]}
		i := at(words[0])
		if i >= 0 {
			s.entries[i] = e
			return int64(0), nil
		}
		if s.waiters == maxMembers {
			return nil, fmt.Errorf("%w: too many wait", errModel)
		}
		if s.waiters == 0 {
			s.waitLeft = endless
		}
		s.entries[s.waiters] = e
		s.waiters++
		slices.SortFunc(s.entries[:s.waiters], func(a, b entry) int { return cmp.Compare(a.token, b.token) })
		return int64(1), nil
	case name == "HGET" && n == 1:
		return text(words[0]), nil
	case name == "HDEL" && n == 1:
		i := at(words[0])
		if i < 0 {
			return int64(0), nil
		}
		copy(s.entries[i:s.waiters], s.entries[i+1:s.waiters])
		s.waiters--
		s.entries[s.waiters] = entry{}
		if s.waiters == 0 {
			s.forget()
		}
		return int64(1), nil
	}
	return nil, fmt.Errorf("%w: %s %q", errModel, name, words)
}

// sorted executes a command on the queue.
func (x *execution) sorted(name string, words []string) (any, error) {
	s := &x.server
	find := func(m string) int {
		return slices.IndexFunc(s.queue[:s.members], func(e member) bool { return e.token == m })
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
	case name == "ZRANGE" && n == 2 && words[0] == "0" && words[1] == "199":
		list := []any{}
		for _, m := range s.queue[:s.members] {
			list = append(list, m.token)
		}
		return list, nil
	case name == "ZRANGE" && n == 3 && words[0] == words[1] && words[2] == "WITHSCORES":
		at := map[string]int{"0": 0, "-1": s.members - 1}[words[0]]
		if s.members == 0 {
			return []any{}, nil
		}
		return []any{s.queue[at].token, strconv.FormatInt(s.queue[at].score, 10)}, nil
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
		switch {
		case h.counts():
			return strconv.FormatInt(h.left, 10)
		case h.left == forever:
			return "inf"
		}
		return strconv.FormatInt(h.left+now, 10)
	}
	switch n := len(words); {
	case name == "ZADD" && (n == 2 || n == 4 && words[0] != "XX"):
		added := int64(0)
		for ; len(words) > 0; words = words[2:] {
			h, err := readSharer(words[0], words[1], now)
			if err != nil {
				return nil, err
			}
			reply, err := x.share(h, at(h.name))
			if err != nil {
				return nil, err
			}
			added += reply.(int64)
		}
		return added, nil
	case name == "ZADD" && n == 4 && words[0] == "XX" && words[1] == "GT":
		h, err := readSharer(words[2], words[3], now)
		i := at(h.name)
		if err == nil && i >= 0 && h.left > s.sharers[i].left {
			_, err = x.share(h, i)
		}
		return int64(0), err
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
	case name == "ZRANGE" && n == 6 && words[0] == firstEnd && words[2] == "BYSCORE" && words[5] == "64":
		end, err := strconv.ParseInt(words[1], 10, 64)
		if err != nil {
			return nil, errors.New("ERR min or max is not a float")
		}
		list := []any{}
		for _, h := range s.sharers[:s.shares] {
			if !h.counts() && h.left != forever && h.left+now <= end {
				list = append(list, h.name)
			}
		}
		return list, nil
	case name == "ZRANGE" && n == 2 && words[0] == "0" && words[1] == "0":
		if s.shares == 0 {
			return []any{}, nil
		}
		return []any{s.sharers[0].name}, nil
	case name == "ZRANGE" && n == 3 && words[2] == "WITHSCORES":
		position := map[string]int{"0": 0, "1": 1, "-1": max(s.shares-1, 0)}
		list := []any{}
		for i := position[words[0]]; i <= position[words[1]] && i < s.shares; i++ {
			list = append(list, s.sharers[i].name, score(s.sharers[i]))
		}
		return list, nil
	}
	return nil, fmt.Errorf("%w: %s %q", errModel, name, words)
}

// firstEnd is what scripts take for the earliest end of a lease: scores below are no ends.
const firstEnd = "100000000000"

func readSharer(score, name string, now int64) (sharer, error) {
	h := sharer{name, forever}
	if score == "+inf" || score == "inf" {
		return h, nil
	}
	end, err := strconv.ParseInt(score, 10, 64)
	if err != nil {
		return h, errors.New("ERR value is not a valid float")
	}
	if h.left = end - now; h.counts() {
		h.left = end
	}
	return h, nil
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
		if a.counts() != b.counts() {
			return map[bool]int{true: -1, false: 1}[a.counts()]
		}
		return cmp.Or(cmp.Compare(a.left, b.left), cmp.Compare(a.name, b.name))
	})
}

// phase returns the phase of a lock that is shared, and who shares it.
func (s *server) phase() (phase, mode string, shared bool) {
	rest, shared := strings.CutPrefix(s.lock, "rlock:")
	if !shared {
		return "", "", false
	}
	mode, phase, shared = strings.Cut(rest, " ")
	return phase, mode, shared
}

// used returns how many permits the server counts, and how many the holders have that it has not removed.
func (s *server) used() (counted, had int64) {
	phase, _, _ := s.phase()
	for _, h := range s.sharers[:s.shares] {
		switch {
		case h.name == phase:
			counted = h.left
		case strings.HasPrefix(h.name, phase+" "):
			had += h.permits()
		}
	}
	return counted, had
}

// holders returns the tokens that have the lock, or a share of it, and have not lost it.
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
		digits, after, more := strings.Cut(text[len(before):], " ")
		n, err := strconv.ParseInt(digits, 10, 64)
		if err != nil {
			return text
		}
		f(&n)
		text = before + strconv.FormatInt(n, 10)
		if more {
			text += " " + after
		}
		return text
	}
	if _, mode, shared := s.phase(); shared {
		s.lock = change(s.lock, "rlock:"+mode+" ")
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
		return cmp.Or(cmp.Compare(a.score, b.score), cmp.Compare(a.token, b.token))
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
	if s.waiters > 0 && s.waitLeft != endless {
		if s.waitLeft -= ms; s.waitLeft <= 0 {
			s.forget()
		}
	}
	for i := range s.waiters {
		s.entries[i].ago = min(s.entries[i].ago+ms, oldest)
	}
	for i := range s.shares {
		if h := &s.sharers[i]; h.left != forever && !h.counts() {
			h.left = max(h.left-ms, 0)
		}
	}
	s.sortSharers()
}
