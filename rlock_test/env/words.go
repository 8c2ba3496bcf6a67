package env

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/gen"
)

// Words are the words of a call of a script, in the order of the script's header.
type Words struct {
	Script     string // the method of gen.Scripts, such as Wait
	SHA1       string
	Keys, Args []string
}

// WordsOf returns the words that the bindings make of params, such as a gen.WaitParams. An argument that the
// test does not name has its zero value. The client only builds the command, and sends nothing.
func WordsOf(tb testing.TB, client rueidis.Client, params any) Words {
	tb.Helper()
	name, is := strings.CutSuffix(reflect.TypeOf(params).Name(), "Params")
	call := reflect.ValueOf(gen.New()).MethodByName(name)
	require.True(tb, is && call.IsValid(), "%T is not the parameters of a script", params)
	recorder := &recorder{Client: client}
	results := call.Call([]reflect.Value{
		reflect.ValueOf(context.Background()), reflect.ValueOf(recorder), reflect.ValueOf(params),
	})
	err, _ := results[1].Interface().(error)
	require.ErrorIs(tb, err, errRecorded, "the bindings refuse %+v", params)
	words := recorder.words // EVALSHA, the SHA1, the number of keys, the keys, the arguments
	keys, err := strconv.Atoi(words[2])
	require.NoError(tb, err)
	return Words{name, words[1], words[3 : 3+keys], words[3+keys:]}
}

var errRecorded = errors.New("the command is recorded, and not sent")

// recorder is a client that sends nothing.
type recorder struct {
	rueidis.Client
	words []string
}

func (r *recorder) Do(_ context.Context, command rueidis.Completed) rueidis.RedisResult {
	r.words = slices.Clone(command.Commands())
	return rueidis.NewErrorResult(errRecorded)
}

// Decode returns what a call of the bindings, such as gen.New().Wait, makes of a reply to params.
func Decode[P, R any](
	client rueidis.Client, call func(context.Context, rueidis.Client, P) (R, error), params P,
	reply rueidis.RedisResult,
) (R, error) {
	return call(context.Background(), &replayer{client, reply}, params)
}

// replayer is a client that already has a reply.
type replayer struct {
	rueidis.Client
	reply rueidis.RedisResult
}

func (r *replayer) Do(context.Context, rueidis.Completed) rueidis.RedisResult { return r.reply }
