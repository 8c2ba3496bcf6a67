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

func all(flaws ...func(map[string]string)) func(map[string]string) {
	return func(texts map[string]string) {
		for _, f := range flaws {
			f(texts)
		}
	}
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
		return scenario{processes: 3, wants: 1, shares: [maxProcesses]string{share, "", share}, budget: budget,
			flaw: f}
	}
	permits := func(f flaw) scenario {
		return scenario{processes: 3, wants: 1, shares: [maxProcesses]string{"2:1", "2:1", "2:1"}, flaw: f}
	}
	onePermit := func(budget map[fault]uint8, f flaw) scenario {
		return scenario{
			processes: 1, wants: 1, shares: [maxProcesses]string{"2:1"}, budget: budget, flaw: f,
		}
	}
	three := func(f flaw) scenario { return scenario{processes: 3, wants: 1, flaw: f} }
	for name, c := range map[string]struct {
		scenario
		says  string
		tells string // what the shortest story has
		many  bool   // it takes more than a few worlds to find
	}{
		"no look at the channel": {scenario: two(map[fault]uint8{mishearing: 1}, flaw{scripts: all(
			replace(t, "release", " or listening and listening[2] == 0", ""),
			replace(
				t, "release", "        redis.pcall('SPUBLISH', grants .. process,\n",
				"        local sent = redis.pcall('SPUBLISH', grants .. process,\n",
			),
			replace(
				t, "release", ".. lock .. ' ' .. token)\n",
				".. lock .. ' ' .. token)\n        if sent == 0 then\n"+
					"          redis.call('DEL', lock)\n          s.value = false\n        end\n",
			))}),
			says: "by its own deadline"},
		"a message before the grant": {scenario: two(map[fault]uint8{mistype: 1},
			flaw{scripts: replace(t, "release",
				"      local fence = give(lock,",
				"      redis.pcall('SPUBLISH', grants .. process, lease .. ' 9 0 4 lock ' .. token)\n"+
					"      local fence = give(lock,")}),
			says: "by its own deadline"},
		"a lease counted from the arrival": {scenario: two(nil, flaw{arrival: true}),
			says: "by its own deadline"},
		"a lease counted from a call without answer": {scenario: two(nil, flaw{sent: true}),
			says: "by its own deadline"},
		// A process that sees that its place is another one drops the token, which is safe too.
		"a heartbeat that inserts": {scenario: scenario{processes: 2, wants: 1, more: 1, apart: true,
			budget: map[fault]uint8{ticks: 2},
			flaw: flaw{blind: true, scripts: all(
				replace(
					t, "wait", "if score or waited and how == 'join' then", "if score or waited and how ~= 'try' then",
				),
				replace(t, "wait", "if not waited and how == 'join' then", "if not waited and how ~= 'try' then"))}},
			says: "by its own deadline", many: true},
		"a token used twice": {scenario: twice(nil, flaw{reuses: true})},
		"a push about a held lock is a stray": {
			scenario: two(nil, flaw{strays: true}), says: "by its own deadline",
		},
		"leaving without a release": {
			scenario: two(map[fault]uint8{cancel: 1}, flaw{stays: true}),
			says:     "does not wait for it", many: true,
		},
		"a lost message is never looked for": {
			scenario: two(map[fault]uint8{loss: 1}, flaw{silent: true}), says: "without a fault",
		},
		"a repetition that inserts the second token": {scenario: twice(map[fault]uint8{retry: 1, ticks: 2},
			flaw{blind: true, scripts: replace(t, "requeue",
				"  return {0, 0, 0, 0, tonumber(redis.call('ZSCORE', queue, again) or 0)}", "")}), many: true},
		"a token sent twice, and the last answer is trusted": {
			scenario: twice(map[fault]uint8{retry: 1, ticks: 2}, flaw{forgets: true}), many: true,
		},
		"a heartbeat that shortens a lease": {scenario: two(map[fault]uint8{
			extension: 1,
		}, flaw{scripts: replace(t, "wait",
			"redis.call('PEXPIRE', lock, ttl, 'GT')", "redis.call('PEXPIRE', lock, ttl - 1000)")}),
			says: "has lost its place", many: true},
		"a release that passes to the last": {scenario: three(flaw{scripts: replace(t, "release",
			"local head = redis.pcall('ZRANGE', queue, 0, 0, 'WITHSCORES')",
			"local head = redis.pcall('ZRANGE', queue, -1, -1, 'WITHSCORES')")}), says: "had joined earlier"},
		"a fence that does not rise": {
			scenario: two(nil, flaw{scripts: replace(t, "release",
				"  if fence < minimum then\n", "  fence = fence - 1\n  if false then\n")}),
			says: "had fence",
		},
		"a reader's release that frees the lock of the others": {scenario: shared("0:1", nil,
			flaw{scripts: replace(t, "release",
				"if not last[2] or last[2] ~= 'inf' and tonumber(last[2]) <= now then", "if true then")}),
			says: "by its own deadline"},
		"readers who pass a writer that waits": {scenario: shared("0:1", nil, flaw{scripts: replace(t, "wait",
			"wants and (alone or not waited or redis.call('EXISTS', queue) == 0)", "wants")}),
			says: "had joined earlier"},
		"a key that lasts as long as the lease of the first reader": {scenario: shared("0:1", nil,
			flaw{scripts: all(
				replace(t, "wait", "    keep(lock, holders, ends, lease, now)\n", ""),
				replace(t, "wait", "phase, 'PXAT', last)", "phase, 'PXAT', ends)"))}),
			says: "by its own deadline"},
		"a phase that does not change": {scenario: shared("0:1", nil, flaw{scripts: replace(t, "wait",
			"local phase, mode = string.format('%.0f', fence), mode_of(limit)",
			"fence = 1\n  local phase, mode = '1', mode_of(limit)")}), says: "had fence", many: true},
		"permits that are not counted": {scenario: permits(flaw{scripts: replace(t, "wait",
			"(limit == '0' or s.used + permits <= tonumber(limit))", "true")}), says: "have 3 permits"},
		"a release that lets in all who wait": {scenario: permits(flaw{scripts: replace(t, "release",
			"if not dead and not fits(s, limit, tonumber(permits)) then",
			"if not dead and not limit and s.value then")}), says: "have 3 permits"},
		"a hand-over without an answer that is forgotten": {scenario: twice(map[fault]uint8{handing: 1, loss: 1},
			flaw{drops: true}), says: "does not wait for it"},
		"a late call of a holder before a hand-over": {scenario: twice(
			map[fault]uint8{handing: 1, retry: 1}, flaw{trusts: true}), says: "does not wait for it", many: true},
		"a hand-over that the next holder does not wait for": {scenario: twice(map[fault]uint8{handing: 1},
			flaw{early: true}), says: "by its own deadline"},
		"a hand-over to whoever asks": {scenario: twice(map[fault]uint8{handing: 1, deletion: 1},
			flaw{scripts: replace(t, "hand_over",
				"if holder ~= token and holder ~= next then", "if not holder then")}), says: "by its own deadline"},
		"a hand-over that begins no lease": {scenario: twice(map[fault]uint8{handing: 1},
			flaw{scripts: replace(t, "hand_over",
				"redis.call('SET', lock, next, 'PX', ttl)",
				"redis.call('SET', lock, next, 'PX', redis.call('PTTL', lock))")}), says: "by its own deadline"},
		"a hand-over with the fence of before": {scenario: twice(map[fault]uint8{handing: 1},
			flaw{scripts: replace(t, "hand_over",
				"fence = math.max(last + 1, minimum)", "fence = last")}), says: "had fence"},
		"a lease that is made shorter and counts as long until then": {scenario: two(map[fault]uint8{shortening: 1},
			flaw{long: true}), says: "by its own deadline"},
		"a lease that is made shorter with the token of before": {scenario: two(map[fault]uint8{
			shortening: 1, extension: 1,
		}, flaw{scripts: replace(t, "attach",
			"redis.call('SET', lock, token, 'PX', ttl)", "redis.call('PEXPIRE', lock, ttl)")}),
			says: "by its own deadline"},
		"a late call of a holder before an attach": {scenario: scenario{processes: 2, wants: 1,
			budget: map[fault]uint8{attachment: 1, retry: 1}, flaw: flaw{trusts: true}}, says: "does not wait for it"},
		"an attach that counts on a whole lease": {scenario: two(map[fault]uint8{attachment: 1}, flaw{whole: true}),
			says: "by its own deadline"},
		"an attach that changes no token": {scenario: two(map[fault]uint8{attachment: 1},
			flaw{scripts: replace(t, "attach",
				"redis.call('SET', lock, token, 'KEEPTTL')", "")}), says: "by its own deadline"},
		"an attach that finds the lock of anybody": {scenario: two(map[fault]uint8{attachment: 1},
			flaw{scripts: replace(t, "attach",
				"if not accepted[holder] then", "if not holder then")}), says: "by its own deadline"},
		"an attach of a share that is repeated and begins no lease": {
			scenario: onePermit(map[fault]uint8{attachment: 1, loss: 1}, flaw{scripts: replace(t, "attach",
				"    redis.call('ZADD', holders, 'XX', 'GT', ends, before .. token)\n", "    keeps = true\n")}),
			says: "by its own deadline", tells: "asks once more",
		},
		"an attach of a share beside the former token": {
			scenario: onePermit(map[fault]uint8{attachment: 1, retry: 1}, flaw{scripts: replace(t, "attach",
				"if added == 0 and s.used then", "if false then")}),
			many: true,
		},
		"an extension of a share that begins no lease": {
			scenario: onePermit(map[fault]uint8{extension: 1}, flaw{scripts: replace(t, "extend",
				"redis.call('ZADD', holders, 'XX', 'GT', ends, member)\n", "")}),
			says: "by its own deadline",
		},
		"an extension of a share that adds one": {
			scenario: onePermit(map[fault]uint8{extension: 1}, flaw{scripts: all(
				replace(t, "extend", "if not score or score", "if score and score"),
				replace(t, "extend", "'XX', 'GT', ends, member", "ends, member"))}),
		},
		"a release of a share that is not counted": {scenario: permits(flaw{scripts: replace(t, "release",
			"        redis.call('ZADD', holders, string.format('%.0f', s.used), s.phase)\n", "")}),
			says: "the server counts"},
		"a short try that passes those who wait": {
			scenario: scenario{
				processes: 3, wants: 1, budget: map[fault]uint8{trying: 1, deletion: 1}, flaw: flaw{scripts: all(
					replace(t, "acquire", "redis.call('EXISTS', lock, queue)", "redis.call('EXISTS', lock)"),
					replace(t, "acquire", "(not holder or", "(holder and"))},
			},
			says: "had joined earlier", many: true,
		},
		"a try for a share that passes those who wait": {
			scenario: shared("0:1", map[fault]uint8{trying: 1}, flaw{scripts: replace(t, "wait",
				"(alone or not waited or", "(alone or how == 'try' or not waited or")}),
			says: "had joined earlier",
		},
		"a reader who gives up and keeps what it has": {
			scenario: scenario{
				processes: 2, wants: 1, leaving: true, shares: [maxProcesses]string{"0:1", ""},
				flaw: flaw{stays: true},
			},
			says: "does not wait for it", many: true,
		},
		"a caller of permits who gives up and keeps them": {
			scenario: scenario{
				processes: 2, wants: 1, leaving: true, shares: [maxProcesses]string{"1:1", "1:1"},
				flaw: flaw{stays: true},
			},
			says: "does not wait for it", many: true,
		},
		"a limit that is another's": {scenario: scenario{processes: 2, wants: 1, shares: [maxProcesses]string{
			"3:1", "1:1",
		}, flaw: flaw{scripts: replace(t, "wait",
			"(limit == '0' or s.used + permits <= tonumber(limit))", "(limit == '0' or s.used + permits <= 3)")}},
			says: "asked for a limit of 1"},
		"a waiter that is dead and stops those behind it": {scenario: scenario{processes: 3, wants: 1,
			budget: map[fault]uint8{crash: 1}, flaw: flaw{scripts: all(
				replace(t, "wait", "dead = left <= 0 or", "left = 2000\n        dead ="),
				replace(t, "release", "dead = left <= 0 or", "left = 2000\n        dead ="))}}, says: "is free although",
			many: true},
		"a waiter far behind that is not asked": {
			scenario: scenario{
				processes: 2, wants: 1, slow: true, within: 2, budget: map[fault]uint8{crash: 1, taking: 1},
				flaw: flaw{scripts: all(
					replace(t, "wait", "            ask_front(queue, waiters, grants, now)\n", ""),
					replace(t, "release", "            ask_front(queue, waiters, grants, now)\n", ""))},
			},
			says: "after 2 ticks without a fault",
		},
		"a heartbeat that is not noted": {scenario: scenario{processes: 3, wants: 1,
			flaw: flaw{scripts: replace(t, "wait",
				"if score or waited and how == 'join' then", "if not score and waited and how == 'join' then")}},
			says: "",
			many: true},
		// Locks do not expire, because a release of one that is over finds the lock with another token too.
		"a release that is repeated and frees the lock of the next": {scenario: scenario{processes: 2, wants: 1,
			endless: true, budget: map[fault]uint8{loss: 1}, flaw: flaw{scripts: replace(t, "release",
				"    s = look(lock, holders, now)\n",
				"    s = look(lock, holders, now)\n    whole = not s.phase and s.value\n    s.value = false\n")}},
			says: "by its own deadline", tells: "the answer is lost"},
		"a release of a share that is repeated and frees that of another": {
			scenario: scenario{
				processes: 2, wants: 1, endless: true, shares: [maxProcesses]string{"0:1", "0:1"},
				budget: map[fault]uint8{loss: 1}, flaw: flaw{scripts: replace(t, "release",
					"    local ends = redis.call('ZSCORE', holders, member)\n",
					"    local ends = redis.call('ZSCORE', holders, member)\n    if not ends then\n"+
						"      member = redis.call('ZRANGE', holders, 1, 1, 'WITHSCORES')[1]\n"+
						"      ends = '1'\n    end\n")},
			},
			says: "by its own deadline", tells: "the answer is lost",
		},
		"a release that passes on what is to stay free": {scenario: two(map[fault]uint8{barging: 1},
			flaw{scripts: replace(t, "release",
				" and open_for(barging, now) == 0 then", " then")}), says: "was to stay free"},
		"a heartbeat that takes what is to stay free": {scenario: two(map[fault]uint8{barging: 1},
			flaw{scripts: replace(t, "wait",
				"if free and open == 0 then", "if free then")}), says: "was to stay free"},
		"readers who come in while a lock is to become free": {scenario: shared("0:1", map[fault]uint8{barging: 1},
			flaw{scripts: replace(t, "wait",
				"if free and open == 0 then", "if free then")}), says: "was to stay free"},
		"a set that is released and passes nothing on": {scenario: scenario{processes: 2, wants: 1,
			sets: [maxProcesses]bool{true, true}, flaw: flaw{scripts: replace(t, "release_many",
				"waited = waited or #KEYS > n and", "waited = waited or false and")}}, says: "is free although"},
		"a set that overtakes the queue": {scenario: scenario{processes: 3, wants: 1, more: 1, apart: true,
			sets: [maxProcesses]bool{2: true}, budget: map[fault]uint8{trying: 1, deletion: 1},
			flaw: flaw{scripts: replace(t, "acquire_all",
				"names > locks and redis.call('EXISTS', KEYS[locks + i]) == 1", "false")}}, says: "had joined earlier"},
		"a set whose release is repeated and frees the lock of the next": {scenario: scenario{processes: 2,
			wants: 1, endless: true, sets: [maxProcesses]bool{true, true}, budget: map[fault]uint8{loss: 1},
			flaw: flaw{scripts: replace(t, "release_many",
				"if values[i] == (ARGV[i + 1] or ARGV[2]) and", "if values[i] and")}}, says: "by its own deadline"},
		"a client that sends a join once more by itself": {
			scenario: twice(map[fault]uint8{resending: 1}, flaw{}), says: "does not wait for it",
		},
		"a release that does not look at the owner": {
			scenario: two(
				nil,
				flaw{
					scripts: replace(
						t, "release", "local whole = redis.call('GET', KEYS[1]) == ARGV[1]",
						"local whole = redis.call('GET', KEYS[1]) ~= false",
					),
				},
			),
		},
	} {
		if c.flaw.scripts != nil {
			c.flaw.scripts(scripts(t)) // it has the text that the flaw changes
		}
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
