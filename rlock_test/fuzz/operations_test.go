package fuzz

import (
	"context"
	"crypto/tls"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/rlock"
	"github.com/rlock-go/toolkit/rlock_test/env"
)

// FuzzOperations: whatever is done one after the other, every answer is that of a
// simple model: on a real server, and in fake time on an embedded one, where leases
// end too.
func FuzzOperations(f *testing.F) {
	for first := range byte(operations) {
		for second := range byte(operations) {
			f.Add([]byte{0, 0, 0, 0, 0, 1, first, 0, 0, 1, 2, second, 0, 0, 1, 3, first, 1, 0, 0, 0, 0, second, 1, 2,
				1})
			f.Add([]byte{0, 0, 4, 2, 0, 0, 0, 1, 1, 3, 3, 1, first, 0, 1, 1, second, 0, 1, 0, 0, first, 1, 1, 0})
		}
	}
	// what is attached has less than a millisecond left
	f.Add([]byte{0, 0, 0, 0, 0, 0, 9, 0, 0, 0, 1, 6, 0, 0, 0})
	// Acquire of "a", whose key is deleted or set to another's, and then TryAcquire by the same Locker.
	f.Add([]byte{1, 0, 0, 0, 1, 0, 11, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0})
	f.Add([]byte{1, 0, 0, 0, 1, 0, 10, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0})
	server := env.Start(f)
	client := server.Client(f, func(option *rueidis.ClientOption) { option.DisableCache = true })
	f.Fuzz(func(t *testing.T, data []byte) {
		synctest.Test(t, func(t *testing.T) {
			m := newModel(t, embedded(t), time.Millisecond, 20*time.Millisecond, 300*time.Millisecond, 10*time.Second,
				rlock.NoExpiry)
			m.run(&source{data}, time.Sleep)
		})
		require.NoError(t, env.Do(t, client, "FLUSHALL").Error())
		m := newModel(t, client, 10*time.Second, time.Minute, time.Hour, 24*time.Hour, rlock.NoExpiry)
		m.run(&source{data}, func(time.Duration) {})
	})
}

// embedded returns a client of an embedded server in the bubble of a test.
func embedded(t *testing.T) rueidis.Client {
	server := miniredis.NewMiniRedis()
	server.ClockTTL(true)
	first, err := server.Dial() // it has no server before
	require.NoError(t, err)
	t.Cleanup(server.Close)
	client, err := rueidis.NewClient(rueidis.ClientOption{
		InitAddress: []string{"pipe"}, ForceSingleClient: true, DisableCache: true, PipelineMultiplex: -1,
		RingScaleEachConn: 2, ReadBufferEachConn: 1 << 12, WriteBufferEachConn: 1 << 12,
		DialCtxFn: func(context.Context, string, *net.Dialer, *tls.Config) (net.Conn, error) {
			if conn := first; conn != nil {
				first = nil
				return conn, nil
			}
			return server.Dial()
		},
	})
	require.NoError(t, err)
	t.Cleanup(client.Close)
	return client
}

const (
	operations    = 14
	mostOperation = 40
)

// run does things that the bytes of a fuzzer say. What passes time is only worth it
// in fake time.
func (m *model) run(s *source, pass func(time.Duration)) {
	keys := []string{"a", "b", "c"}
	sets := [][]string{{"a"}, {"a"}, {"b"}, {"c"}, {"a", "b"}, {"c", "a", "b"}}
	for range mostOperation {
		if len(s.rest) == 0 {
			return
		}
		operation := s.of(operations)
		locker, key := m.lockers[s.of(2)], keys[s.of(len(keys))]
		var h *handle
		if len(m.handles) > 0 {
			h = m.handles[len(m.handles)-1-s.of(len(m.handles))]
		} else if operation >= 2 && operation <= 7 {
			continue
		}
		switch operation {
		case 0, 1:
			m.acquire(locker, sets[s.of(len(sets))], m.ttls[s.of(len(m.ttls))], []string{"", "", "mine"}[s.of(3)],
				operation == 1)
		case 2:
			m.extend(h, m.ttls[s.of(len(m.ttls))])
		case 3:
			m.release(h)
		case 4:
			m.check(h)
		case 5:
			m.detach(h)
		case 6:
			m.attach(locker, h)
		case 7:
			m.forceRelease(locker, key, h.token)
		case 8:
			m.inspect(locker, key)
		case 9:
			// Never a whole number of milliseconds, so that no lease ends just then.
			pass([]time.Duration{3 * time.Millisecond, 19 * time.Millisecond, 150 * time.Millisecond,
				11 * time.Second}[s.of(4)] + 13*time.Microsecond)
		case 10:
			m.foreign("SET", key, "foreign", "PX", "60000")
			m.leases[key] = lease{"foreign", time.Now().Add(time.Minute)}
		case 11:
			m.foreign("DEL", key)
			delete(m.leases, key)
		case 12:
			m.foreign("FLUSHALL")
			clear(m.leases)
			pass(time.Millisecond + 13*time.Microsecond) // fences go on with the clock
		case 13:
			m.foreign("SCRIPT", "FLUSH")
		}
		m.agrees(keys)
	}
}

func (m *model) foreign(words ...string) {
	m.t.Helper()
	require.NoError(m.t, env.Do(m.t, m.client, words...).Error())
}
