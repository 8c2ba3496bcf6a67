package renew_test

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/rlock/internal/renew"
	"github.com/rlock-go/toolkit/rlock/internal/wire"
)

// asked is an extension that a caller has asked for.
type asked struct {
	token    string
	ends     bool    // there is nothing to ask
	again    []error // what Settle returns, one after the other
	answers  []wire.Extended
	finished int
	breaks   string // the method that panics, as user code in it may
}

func (a *asked) Start() (wire.Extension, bool) { return wire.Extension{Token: a.token}, !a.ends }

func (a *asked) Settle(answer wire.Extended) error {
	a.answers = append(a.answers, answer)
	a.breakIn("Settle")
	if n := len(a.answers); n <= len(a.again) {
		return a.again[n-1]
	}
	return nil
}

func (a *asked) Finish() {
	a.finished++
	a.breakIn("Finish")
}

func (a *asked) breakIn(method string) {
	if a.breaks == method {
		panic("of a context")
	}
}

// extender is a server.
type extender func(tokens []string) []wire.Extended

func (e extender) Extend(_ context.Context, list []wire.Extension, answered func([]int, []wire.Extended)) {
	var (
		tokens    []string
		positions []int
	)
	for i, ask := range list {
		tokens, positions = append(tokens, ask.Token), append(positions, i)
	}
	answered(positions, e(tokens))
}

// What has no answer is asked for again, and nothing else is.
func TestNow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		lost, refused := errors.New("no answer"), error(nil)
		a, b, c := &asked{token: "a"}, &asked{token: "b", again: []error{lost, lost}},
			&asked{token: "c", ends: true}
		d := &asked{token: "d", again: []error{refused}}
		var calls [][]string
		renew.Now(t.Context(), extender(func(tokens []string) []wire.Extended {
			calls = append(calls, tokens)
			answers := make([]wire.Extended, len(tokens))
			for i, token := range tokens {
				answers[i].Lost = "of " + token
			}
			return answers
		}), []*asked{a, b, c, d})
		require.Equal(t, [][]string{{"a", "b", "d"}, {"b"}, {"b"}}, calls)
		require.Equal(t, []wire.Extended{{Lost: "of a"}}, a.answers)
		require.Equal(t, []wire.Extended{{Lost: "of b"}, {Lost: "of b"}, {Lost: "of b"}}, b.answers)
		require.Empty(t, c.answers)
		require.Equal(t, []wire.Extended{{Lost: "of d"}}, d.answers)
		for _, x := range []*asked{a, b, c, d} {
			require.Equal(t, 1, x.finished)
		}
	})
}

// If there is nothing to ask, the server is not asked.
func TestNowAsksNothing(t *testing.T) {
	t.Parallel()
	a := &asked{ends: true}
	renew.Now(t.Context(), extender(func([]string) []wire.Extended {
		t.Error("it was asked")
		return nil
	}), []*asked{a})
	require.Equal(t, 1, a.finished)
}

// User code in the call may panic or end the goroutine: every try gets an answer that says so, and
// is not made again.
func TestNowIsInterrupted(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(){"panic": func() { panic("of a hook") }, "goexit": runtime.Goexit} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			all := []*asked{{token: "a", again: []error{errors.New("no answer")}}, {token: "b", ends: true},
				{token: "c"}}
			done := make(chan struct{})
			calls := 0
			go func() {
				defer close(done)
				defer func() { _ = recover() }()
				renew.Now(context.Background(), extender(func([]string) []wire.Extended {
					calls++
					end()
					return nil
				}), all)
			}()
			<-done
			require.Equal(t, 1, calls)
			for _, a := range all {
				require.Equal(t, 1, a.finished)
				if a.ends {
					require.Empty(t, a.answers)
					continue
				}
				require.Len(t, a.answers, 1)
				require.ErrorIs(t, a.answers[0].Err, wire.ErrInterrupted)
			}
		})
	}
}

// User code may panic in what follows an answer: the others have their answers, and are finished.
func TestOneOfManyPanics(t *testing.T) {
	t.Parallel()
	for _, method := range []string{"Settle", "Finish"} {
		t.Run(method, func(t *testing.T) {
			t.Parallel()
			all := []*asked{{breaks: method}, {breaks: method}, {}}
			require.PanicsWithValue(t, "of a context", func() {
				renew.Now(t.Context(), extender(func(tokens []string) []wire.Extended {
					return make([]wire.Extended, len(tokens))
				}), all)
			})
			for _, a := range all {
				require.Equal(t, []wire.Extended{{}}, a.answers)
				require.Equal(t, 1, a.finished)
			}
		})
	}
}
