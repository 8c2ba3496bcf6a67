package api

import (
	"bytes"
	"context"
	"fmt"
	"iter"
	"reflect"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/rlock"
	"github.com/rlock-go/toolkit/rlock/rlocktest"
	"github.com/rlock-go/toolkit/rlock_test/env"
)

// formatState is what fmt gives to a Format method.
type formatState struct{ bytes.Buffer }

func (*formatState) Width() (int, bool) { return 0, false }

func (*formatState) Precision() (int, bool) { return 0, false }

func (*formatState) Flag(int) bool { return false }

// Every method of a nil or zero Lock or Locker answers ErrInvalid where it can fail, and
// else that there is nothing. None panics.
func TestNilAndZeroValues(t *testing.T) {
	t.Parallel()
	arguments := map[reflect.Type]any{
		reflect.TypeFor[context.Context](): t.Context(),
		reflect.TypeFor[string]():          "key",
		reflect.TypeFor[[]string]():        []string{"key"},
		reflect.TypeFor[time.Duration]():   time.Second,
		reflect.TypeFor[uint64]():          uint64(1),
		reflect.TypeFor[rune]():            'v',
		reflect.TypeFor[rlock.Handoff]():   rlock.Handoff{},
		reflect.TypeFor[fmt.State]():       &formatState{},
		reflect.TypeFor[[]*rlock.Lock]():   []*rlock.Lock{{}},
		reflect.TypeFor[int]():             1,
		reflect.TypeFor[func(context.Context, *rlock.Lock) error](): func(context.Context, *rlock.Lock) error {
			t.Error("it runs")
			return nil
		},
	}
	said := map[string]bool{"String": true, "LogValue": true} // that there is no lock
	for name, value := range map[string]any{
		"nil Lock": (*rlock.Lock)(nil), "zero Lock": &rlock.Lock{},
		"nil Locker": (*rlock.Locker)(nil), "zero Locker": &rlock.Locker{},
	} {
		of := reflect.ValueOf(value)
		for i := range of.NumMethod() {
			method, about := of.Method(i), of.Type().Method(i).Name
			t.Run(name+"/"+about, func(t *testing.T) {
				kind := method.Type()
				var in []reflect.Value
				for n := range kind.NumIn() {
					if kind.IsVariadic() && n == kind.NumIn()-1 && kind.In(n) != reflect.TypeFor[[]string]() {
						continue // options
					}
					argument, known := arguments[kind.In(n)]
					require.True(t, known, "the test has no %v", kind.In(n))
					if kind.IsVariadic() && n == kind.NumIn()-1 {
						argument = "key"
					}
					in = append(in, reflect.ValueOf(argument))
				}
				var out []reflect.Value
				require.NotPanics(t, func() { out = method.Call(in) })
				for n, result := range out {
					switch kind.Out(n) {
					case reflect.TypeFor[error]():
						err, _ := result.Interface().(error)
						require.ErrorIs(t, err, rlock.ErrInvalid)
					case reflect.TypeFor[[]error]():
						require.Equal(t, 1, result.Len())
						require.ErrorIs(t, result.Index(0).Interface().(error), rlock.ErrInvalid)
					case reflect.TypeFor[context.Context]():
						ctx := result.Interface().(context.Context)
						require.Error(t, ctx.Err())
						require.ErrorIs(t, context.Cause(ctx), rlock.ErrInvalid)
					case reflect.TypeFor[iter.Seq2[rlock.State, error]]():
						for state, err := range result.Interface().(iter.Seq2[rlock.State, error]) {
							require.Zero(t, state)
							require.ErrorIs(t, err, rlock.ErrInvalid)
						}
					default:
						if said[about] {
							require.Equal(t, "no lock", fmt.Sprint(result.Interface()))
						} else {
							require.True(t, result.IsZero(), "%v", result)
						}
					}
				}
			})
		}
	}
	for _, err := range func() []error {
		locker := env.NewLocker(t, rlocktest.Client(t))
		return append(locker.ReleaseEach(t.Context(), []*rlock.Lock{nil, {}}),
			locker.ExtendEach(t.Context(), []*rlock.Lock{nil, {}}, time.Second)...)
	}() {
		require.ErrorIs(t, err, rlock.ErrInvalid)
	}
}
