package generator

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/rlock_test/env"
)

// crowdSize is how many calls rlock sends with one script at most.
const crowdSize = 128

// snapshot tells what the server has of many keys, in one call.
const snapshot = `
local all = {}
for i, key in ipairs(KEYS) do
  local kind, value = redis.call('TYPE', key).ok, ''
  if kind == 'string' then
    value = redis.call('GET', key)
  elseif kind == 'zset' then
    value = table.concat(redis.call('ZRANGE', key, 0, -1, 'WITHSCORES'), ' ')
  end
  all[#all + 1] = kind
  all[#all + 1] = value
  all[#all + 1] = tostring(redis.call('PTTL', key))
end
return all`

// outcomes makes the state, calls, and tells of each lock what came of it, without its name.
func (w world) outcomes(call func(together bool) []string, together bool) (told, granted []string) {
	w.Helper()
	commands := rueidis.Commands{w.client.B().Flushall().Build()}
	var keys []string
	for _, o := range w.locks {
		for _, words := range o.state {
			commands = append(commands, w.client.B().Arbitrary(words...).Build())
		}
		keys = append(keys, o.lock, o.queue, o.counter)
	}
	for _, reply := range w.client.DoMulti(w.Context(), commands...) {
		require.NoError(w, reply.Error())
	}
	told = call(together)
	have, err := w.client.Do(w.Context(),
		w.client.B().Eval().Script(snapshot).Numkeys(int64(len(keys))).Key(keys...).Build()).AsStrSlice()
	require.NoError(w, err)
	granted = w.grantsTold()
	for i, o := range w.locks {
		for n := range 3 {
			kind, value, left := have[9*i+3*n], have[9*i+3*n+1], have[9*i+3*n+2]
			if fence, err := strconv.ParseInt(value, 10, 64); err == nil {
				value = number(fence)
			}
			ms, err := strconv.ParseInt(left, 10, 64)
			require.NoError(w, err)
			told[i] += fmt.Sprint("; ", kind, " ", value, " ", about(time.Duration(ms)*time.Millisecond))
		}
		nameless := strings.NewReplacer(o.token, "<T>", o.lock, "<K>")
		told[i] = nameless.Replace(told[i])
		for n := range granted {
			if strings.Contains(granted[n], o.lock+" ") || strings.HasSuffix(granted[n], o.lock) {
				granted[n] = nameless.Replace(granted[n])
			}
		}
	}
	return told, granted
}

// A lock in whatever state, for whose call the server has whatever error, changes nothing for the 127
// whose calls go with it, and gets what a call by itself gets, wherever it stands among them.
func TestEachPositionAmongMany(t *testing.T) {
	t.Parallel()
	env.Long(t)
	manyAsEach(t, func(t *testing.T, _ *env.Server, name string, w world, call func(world) func(bool) []string) {
		plain := [3]string{"free", "no queue", "new"}
		if name == "release" {
			plain[0] = "own"
		}
		for part, states := range []map[string]string{lockStates, queueStates, counterStates} {
			for _, state := range slices.Sorted(maps.Keys(states)) {
				t.Run(name+", "+state, func(t *testing.T) {
					w := w
					w.T = t
					odd := plain
					odd[part] = state
					w.eachPosition(call, plain, odd)
				})
			}
		}
	})
}

// eachPosition has one lock in another state than the others stand in each place.
func (w world) eachPosition(call func(world) func(bool) []string, plain, odd [3]string) {
	w.Helper()
	w.locks = make([]one, crowdSize)
	for i := range w.locks {
		w.locks[i] = named(i, lockStates[plain[0]], queueStates[plain[1]], counterStates[plain[2]])
	}
	w.locks[0] = named(0, lockStates[odd[0]], queueStates[odd[1]], counterStates[odd[2]])
	// Every second lock has no end, so there are two outcomes of each kind.
	var each, granted [2][]string
	for at := range each {
		w.locks[0], w.locks[at] = w.locks[at], w.locks[0]
		each[at], granted[at] = w.outcomes(call(w), false)
		w.locks[0], w.locks[at] = w.locks[at], w.locks[0]
	}
	for at := range w.locks {
		w.locks[0], w.locks[at] = w.locks[at], w.locks[0]
		together, grantedTogether := w.outcomes(call(w), true)
		for i := range together {
			wanted := each[1-at%2][2+i%2] // of a plain one
			if i == at {
				wanted = each[at%2][at%2]
			}
			require.Equal(w, wanted, together[i], "number %d, with the other one at %d", i, at)
		}
		require.Equal(w, granted[at%2], grantedTogether, "with the other one at %d", at)
		w.locks[0], w.locks[at] = w.locks[at], w.locks[0]
	}
}
