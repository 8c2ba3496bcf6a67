package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/rlock-go/toolkit/gen"
	"github.com/rlock-go/toolkit/rlock/rlocktest"
)

// server is the Redis that the demo runs on.
type server struct {
	name    string // for people, without a password
	address string // for the workers, as in REDIS_ADDR
	prefix  string // of all keys of this run
	client  rueidis.Client
	close   func()
}

// options returns the options of a client of the server at address, which is host:port or a URL.
func options(address string) (rueidis.ClientOption, error) {
	if !strings.Contains(address, "://") {
		return rueidis.ClientOption{InitAddress: []string{address}}, nil
	}
	option, err := rueidis.ParseURL(address)
	if err != nil {
		// The error contains the URL, and the URL may contain a password.
		return option,
			errors.New(addressVariable + " is not host:port, nor a URL as redis://user:password@host:6379 or " +
				"rediss://host:6379")
	}
	return option, nil
}

// connect connects to the server at address. If address is empty, it starts a server inside this program.
func connect(ctx context.Context, address string) (*server, error) {
	// One hash tag for all keys: a Redis Cluster then keeps them in one slot. Only in one slot can the server
	// lock two accounts at one instant.
	s := &server{address: address, prefix: fmt.Sprintf("demo:%08x:{demo}:", rand.Uint32())}
	stop := func() {}
	if address == "" {
		embedded, err := rlocktest.Open()
		if err != nil {
			return nil, err
		}
		stop = embedded.Close
		s.address = embedded.Addr()
	}
	option, err := options(s.address)
	if err != nil {
		return nil, err
	}
	if s.client, err = rueidis.NewClient(option); err != nil {
		stop()
		return nil, fmt.Errorf("connect: %w", err)
	}
	s.close = func() {
		s.client.Close()
		stop()
	}
	if address == "" {
		s.name = "embedded (rlocktest) at " + s.address
		return s, nil
	}
	info, err := s.client.Do(ctx, s.client.B().Info().Section("server").Build()).ToString()
	if err != nil {
		s.close()
		return nil, fmt.Errorf("connect: %w", err)
	}
	s.name = fmt.Sprintf("%s at %s", product(info), strings.Join(option.InitAddress, ", "))
	return s, nil
}

// product returns the name, version and mode of a server from its INFO.
func product(info string) string {
	fields := map[string]string{}
	for line := range strings.Lines(info) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			fields[name] = value
		}
	}
	// In redis_version, Valkey names the Redis version that it is compatible with.
	if version := fields["valkey_version"]; version != "" {
		return fmt.Sprintf("Valkey %s (%s)", version, fields["server_mode"])
	}
	return fmt.Sprintf("Redis %s (%s)", fields["redis_version"], fields["redis_mode"])
}

// lockKey is the key of a lock of this run.
func (s *server) lockKey(name string) string { return s.prefix + "lock:" + name }

// look is the server's answer about the key of a lock.
type look struct {
	token           string        // the holder's; "": the lock has no holder
	left            time.Duration // of the holder's lease
	asked, answered time.Time     // the server looked between the two
}

// look asks for the holder of a lock and for the lease in one call, so that the lease belongs to this holder.
func (s *server) look(ctx context.Context, name string) (l look, err error) {
	l.asked = time.Now()
	seen, err := gen.New().Inspect(
		ctx, s.client, gen.InspectParams{Keys: []string{s.lockKey(name)}, Waiters: -1},
	)
	l.answered = time.Now()
	if err != nil {
		return l, err
	}
	l.token, l.left = seen.Values[0].V, seen.Remaining[0]
	return l, nil
}

// roundTrip returns the shortest of 20 round trips.
func (s *server) roundTrip(ctx context.Context) (time.Duration, error) {
	shortest := time.Minute
	for range 20 {
		begin := time.Now()
		// Not PING, because the client of a cluster may send PING to any node.
		if err := s.client.Do(ctx, s.client.B().Exists().Key(s.prefix+"value").Build()).Error(); err != nil {
			return 0, err
		}
		shortest = min(shortest, time.Since(begin))
	}
	return shortest, nil
}

// written returns the values that the guarded and the fenced script have written.
func (s *server) written(ctx context.Context) (value, fenced string, err error) {
	if value, err = s.client.Do(ctx, s.client.B().Get().Key(s.prefix+"value").Build()).ToString(); err != nil {
		return "", "", err
	}
	fenced, err = s.client.Do(ctx,
		s.client.B().Hget().Key(s.prefix+"value:fenced").Field("value").Build()).ToString()
	return value, fenced, err
}

// lockNames returns the names of all locks of the demo.
func lockNames() []string {
	names := []string{"report", "import", "config"}
	for _, a := range newBank("").accounts {
		names = append(names, a.lock())
	}
	return names
}

// locks returns the keys of the locks that exist.
func (s *server) locks(ctx context.Context) ([]string, error) {
	var found []string
	for _, name := range lockNames() {
		n, err := s.client.Do(ctx, s.client.B().Exists().Key(s.lockKey(name)).Build()).AsInt64()
		if err != nil {
			return nil, err
		}
		if n > 0 {
			found = append(found, s.lockKey(name))
		}
	}
	return found, nil
}

// delete deletes all keys of this run, even if ctx has ended.
func (s *server) delete(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	keys := []string{s.prefix + "value", s.prefix + "value:fenced"}
	for _, a := range newBank(s.prefix).accounts {
		keys = append(keys, a.key, a.visitor, a.visits)
	}
	for _, name := range lockNames() {
		keys = append(keys, s.lockKey(name))
	}
	return s.client.Do(ctx, s.client.B().Del().Key(keys...).Build()).Error()
}
