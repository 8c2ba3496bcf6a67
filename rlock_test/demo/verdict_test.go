package main

import (
	"bytes"
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/gen"
)

// wrong requires an error with this text, or none.
func wrong(t *testing.T, want string, err error) {
	t.Helper()
	if want == "" {
		require.NoError(t, err)
	} else {
		require.ErrorContains(t, err, want)
	}
}

func TestPassage(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		token             string
		least, most, left time.Duration
		want              string
		unsure            bool
	}{
		"at once": {"first", time.Second, time.Second, time.Second, "", false},
		"a millisecond early": {"first", time.Second - time.Millisecond, time.Second - time.Millisecond,
			time.Second, "", false},
		"on a busy machine":   {"first", time.Second + slack, time.Second + slack, time.Second, "", false},
		"the answer was late": {"first", 900 * time.Millisecond, time.Second, time.Second, "", false},
		"the call was early":  {"first", time.Second, time.Second + slack + 1, time.Second, "", false},
		"the last moment":     {"first", 0, 0, 0, "", false},
		"too late": {"first", time.Second + slack + 1, time.Second + slack + 1, time.Second,
			"after the lease ended", true},
		"too early": {"first", 900 * time.Millisecond, 900 * time.Millisecond, time.Second,
			"100ms before the lease ended", false},
		"never expires":    {"first", 0, 0, -time.Millisecond, "the lease had -1ms left", false},
		"too long a lease": {"first", 2 * lease, 2 * lease, 2 * lease, "the lease had 3s left", false},
		"nobody's": {"", 100 * time.Millisecond, 100 * time.Millisecond, -2 * time.Millisecond,
			"did not have the lock any more", true},
		"the next one's": {"second", 400 * time.Microsecond, 500 * time.Microsecond, lease,
			"did not have the lock any more", true},
	} {
		t.Run(name, func(t *testing.T) {
			next := time.Now()
			seen := passage{"first", look{test.token, test.left, next.Add(-test.most), next.Add(-test.least)}, next}
			got, unsure := seen.wrong()
			wrong(t, test.want, got)
			require.Equal(t, test.unsure, unsure)
		})
	}
}

// late is a client whose first look at a lock takes longer than a lease lasts.
type late struct {
	rueidis.Client
	once *sync.Once
}

func (l late) Do(ctx context.Context, command rueidis.Completed) rueidis.RedisResult {
	if words := command.Commands(); len(words) > 1 && words[1] == gen.InspectSHA1 {
		l.once.Do(func() { time.Sleep(lease * 4 / 3) })
	}
	return l.Client.Do(ctx, command)
}

// Where the killed holder's key is the next one's before the demo sees it, the lease that it
// sees is not the one that ended.
func TestTakeoverOnAMachineThatStandsStill(t *testing.T) {
	t.Parallel()
	s, err := connect(t.Context(), "")
	require.NoError(t, err)
	t.Cleanup(s.close)
	s.client = late{s.client, new(sync.Once)}
	var out bytes.Buffer
	d := &demo{timeline: newTimeline(&out), server: s}
	require.NoError(t, d.takeover(t.Context()), out.String())
	require.NoError(t, d.verdict(), out.String())
	require.Contains(t, out.String(), "it does not have the lock any more")
	require.GreaterOrEqual(t, d.started, 4, "it was played once more")
}

func TestToldOf(t *testing.T) {
	t.Parallel()
	wrong(t, "", toldOf(event{Lost: true}, time.Millisecond))
	wrong(t, "it took 7s", toldOf(event{Lost: true}, 7*time.Second))
	wrong(t, `ended with "rlock: lease ended"`, toldOf(event{Cause: "rlock: lease ended"}, time.Millisecond))
}

func TestFalls(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		visits []int64 // at one account
		fences []uint64
		want   string
	}{
		"none":           {nil, nil, ""},
		"rising":         {[]int64{1, 2, 3}, []uint64{7, 9, 10}, ""},
		"told late":      {[]int64{3, 1, 2}, []uint64{10, 7, 9}, ""},
		"the same again": {[]int64{1, 2}, []uint64{7, 7}, "7 comes after 7 at ada"},
		"fallen":         {[]int64{2, 1}, []uint64{7, 8}, "7 comes after 8 at ada"},
		"no fence":       {[]int64{1}, []uint64{0}, "0 comes after 0 at ada"},
		"one is missing": {[]int64{1, 3}, []uint64{7, 9}, "0 comes after 7 at ada"},
	} {
		t.Run(name, func(t *testing.T) {
			var tally tally
			for i, visit := range test.visits {
				tally.add(event{From: "ada", To: "ben", Fence: test.fences[i],
					Move: transferred{Visits: [2]int64{visit, int64(i + 1)}}})
			}
			delete(tally.fences, "ben")
			wrong(t, test.want, tally.falls())
		})
	}
}

// The locks are what keeps the workers apart: without them, they meet, and the money does
// not survive it.
func TestMovesWithoutLocks(t *testing.T) {
	t.Parallel()
	s, err := connect(t.Context(), "")
	require.NoError(t, err)
	t.Cleanup(s.close)
	bank := newBank(s.prefix)
	require.NoError(t, bank.open(t.Context(), s.client))
	var mu sync.Mutex
	var others int64
	// What is lost may by chance be made elsewhere, so there are many rounds.
	for range 50 {
		var group sync.WaitGroup
		for range bankers {
			group.Go(func() {
				for range transfers {
					from, to := bank.pair()
					done, err := move(t.Context(), s.client, from, to, 5)
					if err != nil {
						t.Error(err)
						return
					}
					mu.Lock()
					others += done.Others
					mu.Unlock()
				}
			})
		}
		group.Wait()
		total, err := bank.total(t.Context(), s.client)
		require.NoError(t, err)
		if total != int64(opening*len(bank.accounts)) {
			require.Positive(t, others)
			return
		}
	}
	t.Fatal("the total is right without locks, so it proves nothing about them")
}

// Whatever did not hold fails the demo, and the others are shown to hold.
func TestVerdict(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	d := &demo{timeline: newTimeline(&out)}
	d.judge("the sky is blue", nil)
	require.NoError(t, d.verdict())
	d.judge("the sky is green", errors.New("it is blue"))
	require.EqualError(t, d.verdict(), "1 of 2 things that must be true are not")
	require.Contains(t, out.String(), "  PASS  the sky is blue\n  FAIL  the sky is green: it is blue\n")
}

// A lock that is left is found.
func TestLocksLeft(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	s, err := connect(t.Context(), "")
	require.NoError(t, err)
	t.Cleanup(s.close)
	d := &demo{timeline: newTimeline(&out), server: s}
	require.NoError(t, d.judgeTheEnd(t.Context()))
	require.NoError(t, d.verdict())
	set := s.client.B().Set().Key(s.lockKey("account:ada")).Value("token").Build()
	require.NoError(t, s.client.Do(t.Context(), set).Error())
	require.NoError(t, d.judgeTheEnd(t.Context()))
	require.Error(t, d.verdict())
	require.Contains(t, out.String(), "FAIL  no lock is left on the server: "+s.lockKey("account:ada"))
}
