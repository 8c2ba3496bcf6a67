package failure

import (
	"errors"
	"net"
	"testing"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/rlock"
	"github.com/rlock-go/toolkit/rlock_test/env"
)

// What a server lacks is told with what to do about it, and as a refusal: nobody waits for it to pass.
func TestAdviceAboutMissingCommands(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		for command, advice := range map[string]string{
			"EVALSHA": "Sentinel.MasterSet", "EVAL": "has removed EVALSHA and EVAL", "SET": "rename-command",
		} {
			locker := env.OpenLocker(t, e.Start(t, "--rename-command", command, "").Option())
			_, err := locker.Acquire(t.Context(), "job")
			var failed *rlock.AcquireError
			require.ErrorAs(t, err, &failed, command)
			require.Equal(t, rlock.ReasonRefused, failed.Reason(), command)
			var server *rueidis.RedisError
			require.ErrorAs(t, err, &server, command)
			require.ErrorContains(t, err, advice, command)
		}
	})
}

// Check needs no transaction: where MULTI is missing, it asks the server.
func TestCheckWithoutTransactions(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		locker := env.OpenOn(t, e.Start(t, "--rename-command", "MULTI", ""))
		lock, err := locker.Acquire(t.Context(), "job")
		require.NoError(t, err)
		for range 2 {
			state, err := locker.Check(t.Context(), "job")
			require.NoError(t, err)
			require.Equal(t, lock.Token(), state.Token())
			require.False(t, state.Cached)
		}
	})
}

// Passwords are told at once, at the start of a program and when they change while it runs.
func TestAdviceAboutPasswords(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		server := e.Start(t)
		server.Do(t, "ACL", "SETUSER", "app", "on", ">old", "~*", "&*", "+@all")
		option := server.Option()
		option.Username, option.Password = "app", "wrong"
		_, err := rlock.Open(option)
		var refusal *rueidis.RedisError
		require.ErrorAs(t, err, &refusal)
		require.ErrorContains(t, err, "the user or the password is wrong")

		option.Password = "old"
		locker := env.OpenLocker(t, option)
		server.Do(t, "ACL", "SETUSER", "app", "resetpass", ">new")
		server.Do(t, "CLIENT", "KILL", "USER", "app")
		// The client may not have noticed yet that the server has closed the connection.
		env.Soon(t, func() bool {
			lock, err := locker.TryAcquire(t.Context(), "job")
			if err == nil {
				_ = lock.Release(t.Context())
			}
			var failed *rlock.AcquireError
			return errors.As(err, &failed) && failed.Reason() == rlock.ReasonRefused
		}, "the refusal of the old password")
		_, err = locker.TryAcquire(t.Context(), "job")
		require.ErrorContains(t, err, "AuthCredentialsFn")

		server.Do(t, "ACL", "SETUSER", "default", "resetpass", ">secret")
		_, err = rlock.Open(server.Option())
		require.ErrorContains(t, err, "the server wants a password")
	})
}

// Where a connection is closed, refused, or ends at another kind of server, Open says what to look at.
func TestAdviceAboutConnections(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		full := e.Start(t, "--maxclients", "4")
		for range 4 {
			conn, err := net.Dial("tcp", full.Addr())
			require.NoError(t, err)
			defer conn.Close()
		}
		free, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		require.NoError(t, free.Close())
		sentinels := e.StartSentinel(t).Option()
		nobody := sentinels
		nobody.Sentinel.MasterSet = "nobody"
		sentinels.Sentinel = rueidis.SentinelOption{}
		lone := sentinels
		lone.InitAddress = lone.InitAddress[:1]
		for advice, option := range map[string]rueidis.ClientOption{
			"maxclients":         full.Option(),
			"nothing listens":    {InitAddress: []string{free.Addr().String()}},
			"SENTINEL MASTERS":   nobody,
			"Sentinel.MasterSet": sentinels,
		} {
			_, err := rlock.Open(option)
			require.ErrorContains(t, err, advice)
		}
		locker := env.OpenLocker(t, lone)
		_, err = locker.TryAcquire(t.Context(), "job")
		require.ErrorContains(t, err, "Sentinel.MasterSet")
	})
}
