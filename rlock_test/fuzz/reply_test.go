package fuzz

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/gen"
	"github.com/rlock-go/toolkit/rlock"
	"github.com/rlock-go/toolkit/rlock/rlockadmin"
	"github.com/rlock-go/toolkit/rlock_test/env"
)

// FuzzReply: whatever a server answers, every call returns, with an error of the
// package or with what the answer says.
func FuzzReply(f *testing.F) {
	for i := range asking {
		for reply := range len(kinds) + len(replies) {
			f.Add([]byte{byte(i), byte(reply), 1, 0, 2, 3, 1, 7, 0, 2, 1, 1})
		}
	}
	// 2 is neither yes nor no
	values := reflect.TypeFor[gen.WaitResult]().NumField()
	require.Less(f, values, mostItems)
	rest := bytes.Repeat([]byte{2, 6}, values-1)
	f.Add(append([]byte{0, choice(undone), 4, byte(values), 2, 8}, rest...))
	// the text 1 is a yes
	f.Add(append([]byte{0, choice(undone), 4, byte(values), 0, 4}, rest...))
	// the lock is not handed over
	f.Add([]byte{8, choice(taken), choice(reply(gen.HandOverResult{}))})
	// more keys are freed than were asked for
	f.Add([]byte{12, 7, 9, 2, 2})
	// extended for more than a minute
	f.Add(append([]byte{13}, bytes.Repeat([]byte{choice(nothingLost)}, 22)...))
	// What stand is told at first, when it subscribes, and when it joins; what is pushed then; and what else it
	// is told.
	stand, any, queued := byte(len(asking)-1), choice(joined), choice(queued)
	others := choice(busy)
	for reply := range replies {
		next := byte(len(kinds) + reply)
		f.Add([]byte{stand, others, any, queued, 2, next, 0, 10, 8, 1, next, 1, 3, next})
		f.Add([]byte{stand, others, any, queued, 0, 9, 8, 1, next, 2, next, 2})
		f.Add([]byte{stand, others, any, next, 2, next, 2, next, 2, next, 2})
		f.Add([]byte{stand, others, 7, 9, queued, queued, queued, next, next}) // it may not subscribe
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		b := &source{data}
		ask := asking[b.of(len(asking))]
		var first []value
		if ask.held {
			first = append(first, taken)
		}
		answer := func(string) value {
			if len(first) > 0 {
				v := first[0]
				first = nil
				return v
			}
			if len(b.rest) == 0 {
				return value{kind: 'N', wire: "_\r\n"}
			}
			return b.value(3)
		}
		push := func(key, token string) (message string, granted bool) {
			switch b.of(4) {
			case 0:
				lease, fence := uint64(b.number()), uint64(b.number())
				// The largest that a script counts with has 16 digits.
				lease, fence = lease%1e16, fence%1e16
				return fmt.Sprintf("%d %d %d %d %s %s", lease, fence, b.of(3), len(key), key, token), lease > 0
			case 1:
				return b.text(), false
			}
			return "", false
		}
		onPuppet(t, answer, push, func(t *testing.T, client rueidis.Client, p *puppet) {
			r := &replied{t: t, puppet: p, locker: env.NewLocker(t, client)}
			start := time.Now()
			if ask.held {
				var err error
				r.lock, err = r.locker.Acquire(t.Context(), "job", rlock.WithToken("token"),
					rlock.WithAutoExtend(ask.extended))
				require.NoError(t, err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			ask.ask(r, ctx)
			if !ask.extended {
				require.LessOrEqual(t, time.Since(start), 2*time.Minute)
			}
		})
	})
}

// asking are the calls that read replies.
var asking = []struct {
	held     bool // a lock is held before
	extended bool // and extended
	ask      func(r *replied, ctx context.Context)
}{
	{ask: (*replied).acquire},
	{ask: (*replied).acquireAll},
	{ask: (*replied).acquireEach},
	{ask: (*replied).inspect},
	{ask: (*replied).check},
	{ask: (*replied).waitFree},
	{ask: (*replied).attach},
	{ask: (*replied).forceRelease},
	{ask: (*replied).handOver},
	{ask: (*replied).probe},
	{held: true, ask: (*replied).extend},
	{held: true, ask: (*replied).checkLock},
	{held: true, ask: (*replied).release},
	{held: true, extended: true, ask: (*replied).renew},
	{ask: (*replied).stand},
}

// replied is what a call has to do with.
type replied struct {
	*puppet
	t      *testing.T
	locker *rlock.Locker
	lock   *rlock.Lock
}

// means checks that a call succeeds if the answer says so, and has an error of the
// package if not.
func (r *replied) means(want bool, err error) {
	r.t.Helper()
	if want {
		require.NoError(r.t, err)
		return
	}
	require.Error(r.t, err, "%q", r.said)
	known := errors.As(err, new(*rlock.AcquireError)) || errors.As(err, new(*rlock.LockError))
	require.True(r.t, known, "%v", err)
}

// hasValuesOf reports whether an answer has as many values as the script's bindings expect.
func hasValuesOf[Result any](v value) bool { return v.isList(reflect.TypeFor[Result]().NumField()) }

// grants reports whether an answer says that a lock was acquired.
func grants[Result any](v value) bool {
	if !hasValuesOf[Result](v) || !v.items[0].yes() {
		return false
	}
	for _, item := range v.items[1:] {
		if _, ok := item.int(); !ok {
			return false
		}
	}
	return true
}

// takes reports whether an answer to a try says that a lock of one key was acquired.
func takes(v value) bool {
	if !hasValuesOf[gen.AcquireResult](v) {
		return false
	}
	outcome, said := v.items[0].int()
	_, fenced := v.items[1].int()
	return said && fenced && outcome == 1
}

func isInt(v value) bool { _, ok := v.int(); return ok }

// granted counts the answers that say that a lock of one key was acquired.
func (r *replied) granted() (n int) {
	for _, answer := range r.answers(gen.AcquireSHA1) {
		if takes(answer) {
			n++
		}
	}
	for _, answer := range r.answers(gen.WaitSHA1) {
		if grants[gen.WaitResult](answer) {
			n++
		}
	}
	for _, answer := range r.answers(gen.AcquireManySHA1) {
		if !answer.isList(4) || !answer.isListOf(isInt) {
			continue
		}
		for i := 0; i < 4; i += 2 {
			if outcome, _ := answer.items[i].int(); outcome == 1 {
				n++
			}
		}
	}
	return n
}

func (r *replied) acquire(ctx context.Context) {
	lock, err := r.locker.TryAcquire(ctx, "job")
	answer := r.last(gen.AcquireSHA1)
	granted := takes(answer)
	// the try has done nothing; one that is repeated may take it
	if !granted && len(r.answers(gen.WaitSHA1)) > 0 {
		answer = r.last(gen.WaitSHA1)
		granted = grants[gen.WaitResult](answer)
	}
	r.means(granted, err)
	if err == nil {
		require.NoError(r.t, lock.Err())
		fence, _ := answer.items[1].int()
		require.Equal(r.t, uint64(fence), lock.Fence())
	}
}

func (r *replied) acquireAll(ctx context.Context) {
	_, err := r.locker.TryAcquireAll(ctx, []string{"a", "b"})
	r.means(grants[gen.AcquireAllResult](r.last(gen.AcquireAllSHA1)), err)
}

func (r *replied) acquireEach(ctx context.Context) {
	results, err := r.locker.TryAcquireEach(ctx, []string{"a", "b"})
	require.NoError(r.t, err)
	require.Len(r.t, results, 2)
	said, got := r.granted(), 0
	for _, result := range results {
		r.means(result.Lock != nil, result.Err)
		if result.Lock != nil {
			got++
		}
	}
	require.Equal(r.t, said, got)
}

// owner returns whom an answer of inspect.lua for one key names, and whether it is one.
func owner(v value) (token string, ok bool) {
	if !hasValuesOf[gen.InspectResult](v) || !v.items[0].isList(1) || !v.items[1].isList(1) ||
		len(v.items[2].items) != len(v.items[3].items) {
		return "", false
	}
	if !v.items[2].isListOf(value.isText) || !v.items[3].isListOf(isInt) || !v.items[4].isListOf(value.isText) {
		return "", false
	}
	name := v.items[0].items[0]
	_, left := v.items[1].items[0].int()
	return name.text, left && (name.isText() || name.isNil())
}

func (r *replied) inspect(ctx context.Context) {
	state, err := env.Admin(r.locker).Inspect(ctx, "job")
	answer := r.last(gen.InspectSHA1)
	token, ok := owner(answer)
	r.means(ok, err)
	require.Equal(r.t, ok && !answer.items[0].items[0].isNil(), state.Mode != rlockadmin.Free)
	if state.Mode == rlockadmin.Exclusive {
		require.Equal(r.t, token, state.Holders[0].Token())
	}
}

func (r *replied) check(ctx context.Context) {
	state, err := r.locker.Check(ctx, "job")
	if answers := r.answers(gen.InspectSHA1); len(answers) > 0 { // there is no cache
		_, ok := owner(r.last(gen.InspectSHA1))
		r.means(ok, err)
		return
	}
	answer := r.last(gen.CheckSHA1)
	r.means(answer.isText() || answer.isNil(), err)
	require.Equal(r.t, answer.isText(), state.Held)
}

func (r *replied) waitFree(ctx context.Context) {
	err := r.locker.WaitFree(ctx, "job")
	answer := r.last(gen.InspectSHA1)
	_, ok := owner(answer)
	r.means(ok && answer.items[0].items[0].isNil(), err)
}

func (r *replied) attach(ctx context.Context) {
	lock, err := r.locker.Attach(ctx, env.NewHandoff(r.t, "token", 5, "job"))
	r.means(lock != nil, err)
	if lock != nil {
		answer := r.last(gen.AttachSHA1)
		require.True(r.t, hasValuesOf[gen.AttachResult](answer))
		position, ok := answer.items[0].int()
		require.True(r.t, ok)
		require.Zero(r.t, position)
		left, ok := answer.items[1].int()
		require.True(r.t, ok)
		require.NotZero(r.t, left)
	}
}

// requeues returns what an answer of requeue.lua says of the key, and whether it is one.
func requeues(v value) (freed int64, ok bool) {
	if !hasValuesOf[gen.RequeueResult](v) || !v.items[0].isBool() || !v.items[1].isBool() {
		return 0, false
	}
	for _, item := range v.items[2:] {
		if _, ok := item.int(); !ok {
			return 0, false
		}
	}
	if v.items[0].yes() {
		freed = 1
	}
	return freed, true
}

// freed reports whether a script says that the key was freed, or that it is not there after a try that may
// have done it. Where the user may not use the queue, release_many.lua says so. If that answers for other
// keys too, it depends on what the server answers later whether the call knows, and certain is false.
func (r *replied) freed() (freed, certain bool) {
	var done, none, unsure bool
	certain = true
	note := func(answer value, n int64, ok bool) {
		done = done || ok && n == 1
		none = none || ok && n == 0
		unsure = unsure || !ok && !answer.isError()
	}
	for _, answer := range r.answers(gen.RequeueSHA1) {
		n, ok := requeues(answer)
		note(answer, n, ok)
	}
	for _, answer := range r.answers(gen.ReleaseSHA1) {
		n, ok := answer.int()
		note(answer, n, ok)
	}
	for _, answer := range r.answers(gen.ReleaseManySHA1) {
		switch {
		case !answer.isListOf(isInt):
			note(answer, 0, false)
		case answer.isList(1):
			n, _ := answer.items[0].int()
			note(answer, n, true)
		default:
			certain = false
		}
	}
	return done || none && unsure, certain
}

// meansFreed checks that a call succeeds if the answers say that the key was freed, and only then.
func (r *replied) meansFreed(err error) {
	if freed, certain := r.freed(); certain {
		r.means(freed, err)
	}
}

func (r *replied) forceRelease(ctx context.Context) {
	err := env.Admin(r.locker).ForceRelease(ctx, "job", "token")
	r.meansFreed(err)
}

func (r *replied) release(ctx context.Context) {
	err := r.lock.Release(ctx)
	require.Error(r.t, r.lock.Err())
	r.meansFreed(err)
}

func (r *replied) extend(ctx context.Context) {
	err := r.lock.Extend(ctx, time.Hour)
	answer := r.last(gen.ExtendSHA1)
	ok := answer.isListOf(isInt)
	var lost []int64 // positions of the locks that are lost; 0 is none
	for _, item := range answer.items {
		n, _ := item.int()
		lost = append(lost, n)
	}
	if len(lost) > 0 && lost[0] != 0 {
		lost = []int64{1} // the script has one lock to name
	}
	ok = ok && !slices.ContainsFunc(lost, func(n int64) bool { return n < 0 || n > 1 })
	isLost := ok && slices.Contains(lost, 1)
	r.means(ok && !isLost, err)
	require.Equal(r.t, isLost, errors.Is(err, rlock.ErrLost))
	require.Equal(r.t, !errors.Is(err, rlock.ErrLost), r.lock.Err() == nil)
}

func (r *replied) checkLock(ctx context.Context) {
	err := r.lock.Verify(ctx)
	token, ok := owner(r.last(gen.InspectSHA1))
	r.means(ok && token == "token", err)
	require.Equal(r.t, ok && token != "token", errors.Is(err, rlock.ErrLost))
}

// renew lets the lock be extended automatically for as long as there are answers.
// Every list that the script answers is worth a lease, at most.
func (r *replied) renew(context.Context) {
	end := r.lock.Deadline()
	for ; r.lock.Err() == nil; time.Sleep(time.Second) {
		leases := 0
		for _, answer := range r.answers(gen.ExtendSHA1) {
			if answer.kind == '*' || answer.kind == '~' {
				leases++
			}
		}
		require.Less(r.t, time.Now(), end.Add(time.Duration(leases)*rlock.DefaultTTL))
	}
}

// passedOn reports whether requeue.lua says that the next of the process has the lock.
func (r *replied) passedOn() bool {
	for _, answer := range r.answers(gen.RequeueSHA1) {
		if _, ok := requeues(answer); ok && answer.items[1].yes() {
			return true
		}
	}
	return false
}

// stand waits in the queue, where the server may say anything too, and push what nobody asked for.
func (r *replied) stand(ctx context.Context) {
	lock, err := r.locker.Acquire(ctx, "job")
	if err != nil {
		r.means(false, err)
		return
	}
	require.True(r.t, r.granted() > 0 || r.told)
	_ = lock.Release(ctx)
	require.Error(r.t, lock.Err())
}

// handOver has a second acquisition wait for the release of the first.
func (r *replied) handOver(ctx context.Context) {
	first, err := r.locker.Acquire(ctx, "job")
	if err != nil {
		r.means(false, err)
		return
	}
	granted := r.granted()
	type outcome struct {
		lock *rlock.Lock
		err  error
	}
	second := make(chan outcome, 1)
	go func() {
		lock, err := r.locker.Acquire(ctx, "job")
		second <- outcome{lock, err}
	}()
	synctest.Wait()
	_ = first.Release(ctx)
	require.Error(r.t, first.Err())
	got := <-second
	r.means(got.lock != nil, got.err)
	if got.lock != nil {
		require.True(r.t, r.granted() > granted || grants[gen.HandOverResult](r.last(gen.HandOverSHA1)) ||
			r.passedOn() || r.told)
	}
}

// probe reads many replies, and only has to end.
func (r *replied) probe(ctx context.Context) {
	_, err := r.locker.Probe(ctx)
	if err != nil {
		r.means(false, err)
	}
}
