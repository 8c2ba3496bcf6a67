package api

import (
	"errors"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/rlock"
	"github.com/rlock-go/toolkit/rlock_test/env"
)

// What is wrong with the options of Open is said before anything is dialled.
func TestOpenRefusesBeforeItDials(t *testing.T) {
	t.Parallel()
	nowhere := rueidis.ClientOption{InitAddress: []string{"127.0.0.1:1"}}
	uncached := nowhere
	uncached.DisableCache = true
	onlyReplicas := nowhere
	onlyReplicas.ReplicaOnly = true
	renewed := nowhere
	renewed.ConnLifetime = time.Hour
	for name, test := range map[string]struct {
		option rueidis.ClientOption
		opts   []rlock.LockerOption
		says   string
	}{
		"a hook of a client without a cache": {uncached,
			[]rlock.LockerOption{rlock.WithInvalidations(rlock.NewInvalidations())}, "DisableCache"},
		"replicas only":               {onlyReplicas, nil, "SendToReplicas"},
		"connections with a lifetime": {renewed, nil, "sends all commands again"},
		"a bad option": {nowhere, []rlock.LockerOption{rlock.WithTTL(time.Microsecond)},
			"below 1ms"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := rlock.Open(test.option, test.opts...)
			require.ErrorIs(t, err, rlock.ErrInvalid)
			require.ErrorContains(t, err, test.says)
		})
	}
}

// What a client cannot be built with is said by Open.
func TestOptionsThatOpenRefuses(t *testing.T) {
	t.Parallel()
	server := env.Start(t)
	for name, test := range map[string]struct {
		change func(o *rueidis.ClientOption)
		want   error
	}{
		"RESP2 with a cache":     {func(o *rueidis.ClientOption) { o.AlwaysRESP2 = true }, rueidis.ErrNoCache},
		"replicas without a use": {func(o *rueidis.ClientOption) { o.Standalone.ReplicaAddress = []string{server.Addr()} }, rueidis.ErrNoSendToReplicas},
	} {
		t.Run(name, func(t *testing.T) {
			option := server.Option()
			test.change(&option)
			_, err := rlock.Open(option)
			require.ErrorIs(t, err, test.want)
		})
	}
}

func TestOpenReportsAnUnreachableServer(t *testing.T) {
	t.Parallel()
	server := env.Start(t)
	option := server.Option()
	server.Kill()
	_, err := rlock.Open(option)
	require.Error(t, err)
	require.False(t, errors.Is(err, rlock.ErrInvalid))
}

func TestOpenOwnsItsClient(t *testing.T) {
	t.Parallel()
	locker, err := rlock.Open(env.Start(t).Option())
	require.NoError(t, err)
	lock, err := locker.Acquire(t.Context(), "job")
	require.NoError(t, err)
	locker.Close()
	require.ErrorIs(t, lock.Release(t.Context()), rueidis.ErrClosing)
}
