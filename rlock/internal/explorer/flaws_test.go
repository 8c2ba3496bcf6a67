package explorer

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// replace returns a flaw of a script: a text of it is another one.
func replace(t *testing.T, script, old, now string) func(map[string]string) {
	return func(texts map[string]string) {
		require.Contains(t, texts[script], old, script)
		texts[script] = strings.Replace(texts[script], old, now, 1)
	}
}

func both(a, b func(map[string]string)) func(map[string]string) {
	return func(texts map[string]string) { a(texts); b(texts) }
}

// The explorer finds what is wrong with each of these, and tells it.
func TestPlantedFlaws(t *testing.T) {
	t.Parallel()
	two := func(budget map[fault]uint8, f flaw) scenario {
		return scenario{processes: 2, wants: 1, budget: budget, flaw: f}
	}
	twice := func(budget map[fault]uint8, f flaw) scenario {
		return scenario{processes: 2, wants: 2, budget: budget, flaw: f}
	}
	shared := func(share string, budget map[fault]uint8, f flaw) scenario {
		return scenario{processes: 3, wants: 1, shares: [maxProcesses]string{share, "", share}, budget: budget, flaw: f}
	}
	permits := func(f flaw) scenario {
		return scenario{processes: 3, wants: 1, shares: [maxProcesses]string{"2:1", "2:1", "2:1"}, flaw: f}
	}
	limit := func(f flaw) scenario {
		return scenario{processes: 3, wants: 1, shares: [maxProcesses]string{"2:1", "2:1", "1:1"}, budget: map[fault]uint8{change: 1}, flaw: f}
	}
	three := func(f flaw) scenario { return scenario{processes: 3, wants: 1, flaw: f} }
	for name, c := range map[string]struct {
		scenario
		says  string
		tells string // what the shortest story has
		many  bool   // it takes more than a few worlds to find
	}{
		"no look at the channel": {scenario: two(map[fault]uint8{mishearing: 1}, flaw{scripts: both(
			replace(t, "pass", "    if listening[2] == 0 then\n      redis.pcall('ZREM', queue, member)\n      return false\n    end\n", ""),
			replace(t, "pass", "    if type(sent) == 'number' then\n", "    if sent == 0 then\n      redis.call('DEL', lock)\n      return false\n    end\n    if type(sent) == 'number' then\n"))}),
			says: "by its own deadline"},
		"a message before the grant": {scenario: two(map[fault]uint8{mistype: 1}, flaw{scripts: both(
			replace(t, "pass", "  local fence = next_fence(counter)\n", "  redis.pcall('SPUBLISH', channel, lease .. ' 9 0 4 lock ' .. token)\n  local fence = next_fence(counter)\n"),
			replace(t, "pass", "    local sent = redis.pcall('SPUBLISH', channel, message)\n", "    local sent = 1\n"))}),
			says: "by its own deadline"},
		"a lease counted from the arrival":           {scenario: two(nil, flaw{arrival: true}), says: "by its own deadline"},
		"a lease counted from a call without answer": {scenario: two(nil, flaw{sent: true}), says: "by its own deadline"},
		// A process that sees that its place is another one drops the token, which is safe too.
		"a heartbeat that inserts": {scenario: scenario{processes: 2, wants: 1, more: 1, apart: true, budget: map[fault]uint8{ticks: 2},
			flaw: flaw{blind: true, scripts: replace(t, "join", "elseif how == 'join' then", "elseif how ~= 'try' then")}}, says: "by its own deadline", many: true},
		"a token used twice":                          {scenario: twice(nil, flaw{reuses: true})},
		"a push about a held lock is a stray":         {scenario: two(nil, flaw{strays: true}), says: "by its own deadline"},
		"a push about a served place is ignored":      {scenario: twice(map[fault]uint8{failover: 1}, flaw{served: true}), says: "is left in the lock"},
		"leaving without a release":                   {scenario: two(map[fault]uint8{cancel: 1}, flaw{stays: true}), says: "does not wait for it"},
		"a silent place that is kept beside the next": {scenario: scenario{processes: 2, wants: 1, late: true, flaw: flaw{stays: true}}, says: "does not wait for it"},
		"a lost message is never looked for":          {scenario: two(map[fault]uint8{loss: 1}, flaw{silent: true}), says: "without a fault"},
		"a repetition that inserts the second token": {scenario: twice(map[fault]uint8{retry: 1, ticks: 2}, flaw{blind: true, scripts: replace(t, "requeue",
			"local score = redis.call('ZSCORE', queue, member_of(again, again_ttl, process))", "local score = enqueue(queue, member_of(again, again_ttl, process), 0)")}), many: true},
		"a token sent twice, and the last answer is trusted": {scenario: twice(map[fault]uint8{retry: 1, ticks: 2}, flaw{forgets: true}), says: "by its own deadline", many: true},
		"a heartbeat that shortens a lease": {scenario: two(map[fault]uint8{extension: 1}, flaw{scripts: replace(t, "join",
			"redis.call('PEXPIRE', lock, ttl, 'GT')", "redis.call('PEXPIRE', lock, ttl - 10000)")}), says: "by its own deadline", many: true},
		"a release that passes to the last": {scenario: three(flaw{scripts: replace(t, "pass",
			"local head = redis.pcall('ZRANGE', queue, 0, 0, 'WITHSCORES')", "local head = redis.pcall('ZRANGE', queue, -1, -1, 'WITHSCORES')")}), says: "had joined earlier"},
		"a fence that does not rise": {scenario: two(nil, flaw{scripts: replace(t, "pass", "local fence = redis.pcall('INCR', counter)", "local fence = 1")}), says: "had fence", many: true},
		"a reader's release that frees the lock of the others": {scenario: shared("0:1", nil, flaw{scripts: replace(t, "release_shared",
			"last = redis.call('ZCARD', holders) == 0", "last = true")}), says: "by its own deadline"},
		"readers who pass a writer that waits": {scenario: shared("0:1", nil, flaw{scripts: replace(t, "acquire_shared",
			"(alone or redis.call('EXISTS', queue) == 0) and fits", "fits")}), says: "had joined earlier"},
		"a key that lasts as long as the lease of the first reader": {scenario: shared("0:1", nil, flaw{scripts: replace(t, "acquire_shared",
			"      redis.pcall('ZREM', queue, member)\n    end\n    keep(lock, holders)\n", "      redis.pcall('ZREM', queue, member)\n    end\n")}), says: "by its own deadline"},
		"a phase that does not change": {scenario: shared("0:1", nil, flaw{scripts: replace(t, "acquire_shared",
			"local new = string.format('%.0f', fence)", "local new = '1'\n  fence = 1")}), says: "had fence", many: true},
		"permits that are not counted": {scenario: permits(flaw{scripts: replace(t, "acquire_shared",
			"redis.call('EXISTS', queue) == 0) and fits(holders, limit, permits)", "redis.call('EXISTS', queue) == 0)")}), says: "hold 3 permits of 2"},
		"a release that lets in all who wait": {scenario: permits(flaw{scripts: replace(t, "acquire_shared",
			"local stops = wanted ~= limit or not fits(holders, limit, tonumber(permits))", "local stops = wanted ~= limit")}), says: "hold 3 permits of 2"},
		"a hand-over without an answer that is forgotten":    {scenario: twice(map[fault]uint8{handing: 1, loss: 1}, flaw{drops: true}), says: "does not wait for it"},
		"a late call of a holder before a hand-over":         {scenario: twice(map[fault]uint8{handing: 1, retry: 1}, flaw{trusts: true}), says: "does not wait for it", many: true},
		"a hand-over that the next holder does not wait for": {scenario: twice(map[fault]uint8{handing: 1}, flaw{early: true}), says: "by its own deadline"},
		"a hand-over to whoever asks": {scenario: twice(map[fault]uint8{handing: 1, deletion: 1}, flaw{scripts: replace(t, "hand_over",
			"if holder ~= token and holder ~= next then", "if not holder then")}), says: "by its own deadline"},
		"a hand-over that begins no lease": {scenario: twice(map[fault]uint8{handing: 1}, flaw{scripts: replace(t, "hand_over",
			"redis.call('SET', lock, next, 'PX', ttl)", "redis.call('SET', lock, next, 'PX', redis.call('PTTL', lock))")}), says: "by its own deadline"},
		"a hand-over with the fence of before": {scenario: twice(map[fault]uint8{handing: 1}, flaw{scripts: replace(t, "hand_over",
			"fence = math.max(last + 1, minimum)", "fence = last")}), says: "had fence"},
		"a lease that is made shorter and counts as long until then": {scenario: two(map[fault]uint8{shortening: 1}, flaw{long: true}), says: "by its own deadline"},
		"a lease that is made shorter with the token of before": {scenario: two(map[fault]uint8{shortening: 1, extension: 1}, flaw{scripts: replace(t, "extend",
			"redis.call('SET', lock, token, 'PX', ttl)", "redis.call('PEXPIRE', lock, ttl)")}), says: "by its own deadline"},
		"a late call of a holder before an attach": {scenario: scenario{processes: 2, wants: 1, budget: map[fault]uint8{attachment: 1, retry: 1}, flaw: flaw{trusts: true}}, says: "does not wait for it"},
		"an attach that counts on a whole lease":   {scenario: two(map[fault]uint8{attachment: 1}, flaw{whole: true}), says: "by its own deadline"},
		"an attach that changes no token": {scenario: two(map[fault]uint8{attachment: 1}, flaw{scripts: replace(t, "attach",
			"redis.call('SET', lock, token, 'KEEPTTL')", "")}), says: "by its own deadline"},
		"an attach that finds the lock of anybody": {scenario: two(map[fault]uint8{attachment: 1}, flaw{scripts: replace(t, "attach",
			"if not accepted[holder] then", "if not holder then")}), says: "by its own deadline"},
		"an attach of a share that is repeated and begins no lease": {scenario: scenario{processes: 1, wants: 1, shares: [maxProcesses]string{"2:1"}, budget: map[fault]uint8{attachment: 1, loss: 1}, flaw: flaw{scripts: replace(t, "extend_shared",
			"if found or ttl == '' or score ~= 'inf' and tonumber(score) < tonumber(deadline) then", "if found then")}}, says: "by its own deadline", tells: "asks once more"},
		"an extension of a share that begins no lease": {scenario: scenario{processes: 1, wants: 1, shares: [maxProcesses]string{"2:1"}, budget: map[fault]uint8{extension: 1}, flaw: flaw{scripts: replace(t, "extend_shared",
			"if found or ttl == '' or score ~= 'inf' and tonumber(score) < tonumber(deadline) then", "if found then")}}, says: "by its own deadline"},
		"a try that passes those who wait": {scenario: scenario{processes: 3, wants: 1, budget: map[fault]uint8{trying: 1, deletion: 1}, flaw: flaw{scripts: replace(t, "join",
			"if wants and (alone or not head[1] or", "if wants and (alone or how == 'try' or not head[1] or")}}, says: "had joined earlier", many: true},
		"a short try that passes those who wait": {scenario: scenario{processes: 3, wants: 1, budget: map[fault]uint8{trying: 1, deletion: 1}, flaw: flaw{scripts: replace(t, "try",
			"redis.call('EXISTS', lock, queue)", "redis.call('EXISTS', lock)")}}, says: "had joined earlier", many: true},
		"a try for a share that passes those who wait": {scenario: scenario{processes: 3, wants: 1, shares: [maxProcesses]string{"0:1", "", "0:1"}, budget: map[fault]uint8{trying: 1}, flaw: flaw{scripts: replace(t, "acquire_shared",
			"(alone or redis.call('EXISTS', queue) == 0) and fits", "(alone or how == 'try' or redis.call('EXISTS', queue) == 0) and fits")}}, says: "had joined earlier"},
		"a reader who gives up and keeps what it has":     {scenario: scenario{processes: 2, wants: 1, leaving: true, shares: [maxProcesses]string{"0:1", ""}, flaw: flaw{stays: true}}, says: "does not wait for it"},
		"a caller of permits who gives up and keeps them": {scenario: scenario{processes: 2, wants: 1, leaving: true, shares: [maxProcesses]string{"1:1", "1:1"}, flaw: flaw{stays: true}}, says: "does not wait for it"},
		"a limit that begins a new phase": {scenario: limit(flaw{scripts: replace(t, "change_limit",
			"phase .. ' ' .. limit, 'KEEPTTL')", "phase .. '1 ' .. limit, 'KEEPTTL')")}), says: "by its own deadline"},
		"a limit that lets in all who ask for it": {scenario: scenario{processes: 2, wants: 1, shares: [maxProcesses]string{"2:1", "2:2"}, budget: map[fault]uint8{change: 1}, flaw: flaw{scripts: replace(t, "change_limit",
			"not fits(holders, limit, tonumber(permits))", "false")}}, says: "of 2"},
		"a limit that those who come do not look at": {scenario: limit(flaw{scripts: replace(t, "acquire_shared",
			"if present ~= limit then", "if not present then")}), says: "of 1"},
		"a waiter with another limit who stops those behind it": {scenario: scenario{processes: 3, wants: 1, shares: [maxProcesses]string{"", "2:1", "0:1"}, flaw: flaw{scripts: replace(t, "acquire_shared",
			"token ~= nil and (not wanted or wanted == limit)", "token ~= nil")}}, says: "can never get in"},
		"a wait that another limit has ended and that keeps its place": {scenario: scenario{processes: 3, wants: 1, shares: [maxProcesses]string{"2:1", "", "2:1"}, budget: map[fault]uint8{change: 1}, flaw: flaw{stays: true}}, says: "does not wait for it", many: true},
		// Locks do not expire, because a release of one that is over finds the lock with another token too.
		"a release that is repeated and frees the lock of the next": {scenario: scenario{processes: 2, wants: 1, endless: true, budget: map[fault]uint8{loss: 1}, flaw: flaw{scripts: replace(t, "pass",
			"redis.pcall('ZREM', queue, member_of(token, ttl, process))", "if redis.pcall('ZREM', queue, member_of(token, ttl, process)) == 0 and holder then\n  pass(lock, queue, counter, grants)\nend")}},
			says: "by its own deadline", tells: "the answer is lost"},
		"a release of a share that is repeated and frees that of another": {scenario: scenario{processes: 2, wants: 1, endless: true, shares: [maxProcesses]string{"0:1", "0:1"}, budget: map[fault]uint8{loss: 1}, flaw: flaw{scripts: replace(t, "release_shared",
			"  last = redis.call('ZCARD', holders) == 0", "  if freed == 0 then\n    redis.call('ZREM', holders, redis.call('ZRANGE', holders, 0, 0, 'WITHSCORES')[1] or '')\n  end\n  last = redis.call('ZCARD', holders) == 0")}},
			says: "by its own deadline", tells: "the answer is lost"},
		"a release that passes on what is to stay free": {scenario: two(map[fault]uint8{barging: 1}, flaw{scripts: replace(t, "pass",
			"    last = 1\n", "    last = 65\n")}), says: "was to stay free"},
		"a heartbeat that takes what is to stay free": {scenario: two(map[fault]uint8{barging: 1}, flaw{scripts: replace(t, "join",
			"if not holder and open == 0 then", "if not holder then")}), says: "was to stay free"},
		"readers who come in while a lock is to become free": {scenario: shared("0:1", map[fault]uint8{barging: 1}, flaw{scripts: replace(t, "acquire_shared",
			"local alone = open == 0 and admit(", "local alone = admit(")}), says: "was to stay free"},
		"a set that is released and passes nothing on": {scenario: scenario{processes: 2, wants: 1, sets: [maxProcesses]bool{true, true}, flaw: flaw{scripts: replace(t, "pass_all",
			"if redis.call('EXISTS', unpack(KEYS, locks + 2, 2 * locks + 1)) == 0 or open_for(ARGV[3]) > 0 then", "if true then")}}, says: "is free although"},
		"a set that overtakes the queue": {scenario: scenario{processes: 3, wants: 1, more: 1, apart: true, sets: [maxProcesses]bool{2: true}, budget: map[fault]uint8{trying: 1, deletion: 1}, flaw: flaw{scripts: replace(t, "acquire_all",
			"names > locks and redis.call('EXISTS', KEYS[locks + i]) == 1", "false")}}, says: "had joined earlier"},
		"a set whose release is repeated and frees the lock of the next": {scenario: scenario{processes: 2, wants: 1, endless: true, sets: [maxProcesses]bool{true, true}, budget: map[fault]uint8{loss: 1}, flaw: flaw{scripts: replace(t, "pass_all",
			"if holders[i] == token then", "if holders[i] then")}}, says: "by its own deadline"},
		"a release that does not look at the owner": {scenario: two(nil, flaw{scripts: replace(t, "pass", "if holder == token then", "if holder then")})},
	} {
		if c.many && *states <= few {
			continue // the step "explorer" of make test-all finds these too
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c.name = name
			f := newExplorer(t, c.scenario).explore(2_000_000, 5)
			t.Logf("%s\n%s", f, f.story)
			require.ErrorContains(t, f.broken, c.says)
			require.Contains(t, f.story, c.tells)
		})
	}
}
