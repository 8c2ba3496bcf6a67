package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/rlock-go/toolkit/rlock"
	"github.com/rlock-go/toolkit/rlock/rlocktest"
)

// server is the Redis that the demo runs on.
type server struct {
	name   string               // for the timeline
	option rueidis.ClientOption // how to reach it
	prefix string               // of all keys of this run
	client rueidis.Client       // for all that is not a lock
	close  func()
}

// connect reaches the server at addr, or starts one inside this program if addr is
// empty.
func connect(ctx context.Context, addr string) (*server, error) {
	// One hash tag for all keys: a Redis Cluster then keeps them in one slot,
	// without which it could not lock two accounts at one instant.
	s := &server{prefix: fmt.Sprintf("demo:%08x:{bank}:", rand.Uint32())}
	stop := func() {}
	if addr == "" {
		embedded, err := rlocktest.Open()
		if err != nil {
			return nil, err
		}
		stop = embedded.Close
		s.option = embedded.Option()
		s.name = "embedded (rlocktest) at " + embedded.Addr()
	} else {
		s.option = rueidis.ClientOption{InitAddress: []string{addr}}
	}
	client, err := rueidis.NewClient(s.option)
	if err != nil {
		stop()
		return nil, fmt.Errorf("connect: %w", err)
	}
	s.client = client
	s.close = func() {
		client.Close()
		stop()
	}
	if addr != "" {
		info, err := client.Do(ctx, client.B().Info().Section("server").Build()).ToString()
		if err != nil {
			s.close()
			return nil, fmt.Errorf("connect: %w", err)
		}
		s.name = fmt.Sprintf("%s at %s", product(info), addr)
	}
	return s, nil
}

// product reads name, version and mode of a server out of its INFO.
func product(info string) string {
	fields := map[string]string{}
	for line := range strings.Lines(info) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			fields[name] = value
		}
	}
	// Valkey says in redis_version which Redis it is compatible with.
	if version := fields["valkey_version"]; version != "" {
		return fmt.Sprintf("Valkey %s (%s)", version, fields["server_mode"])
	}
	return fmt.Sprintf("Redis %s (%s)", fields["redis_version"], fields["redis_mode"])
}

// locker returns a Locker with a client of its own, as another process would have
// one. Closing the Locker closes the client.
func (s *server) locker() (*rlock.Locker, error) {
	return rlock.Open(s.option, rlock.WithPrefix(s.lockPrefix()))
}

// lockPrefix keeps the locks of this run apart from those of others, and from
// what they protect.
func (s *server) lockPrefix() string { return s.prefix + "lock:" }

// existing returns those of keys that exist.
func (s *server) existing(ctx context.Context, keys []string) ([]string, error) {
	var found []string
	for _, key := range keys {
		n, err := s.client.Do(ctx, s.client.B().Exists().Key(key).Build()).AsInt64()
		if err != nil {
			return nil, err
		}
		if n > 0 {
			found = append(found, key)
		}
	}
	return found, nil
}

// delete removes keys, also for a caller whose context has ended: cleaning up is
// what is left to do then.
func (s *server) delete(ctx context.Context, keys []string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	return s.client.Do(ctx, s.client.B().Del().Key(keys...).Build()).Error()
}
