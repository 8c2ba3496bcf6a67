package probe

import (
	"context"

	"github.com/rlock-go/toolkit/rlock/internal/wire"
)

// NewScratch returns a Scratch of a key, for a token that no other caller has.
func NewScratch(server *wire.Server, key, token string, fenced bool) Scratch {
	return &scratch{server, wire.One(key), wire.Request{Token: token, TTL: TTL, Fenced: fenced}}
}

type scratch struct {
	server  *wire.Server
	claim   wire.Claim
	request wire.Request
}

func (s *scratch) Key() string { return s.claim.Key() }

// Acquire lets the reaper free what commands without an answer may take.
func (s *scratch) Acquire(ctx context.Context) (acquired bool, err error) {
	answer, err := s.server.Acquire(ctx, &s.claim, s.request)
	if !s.claim.Settled() {
		s.server.Abandon(&s.claim, nil, TTL)
	}
	return answer.Acquired, err
}

func (s *scratch) Peek(ctx context.Context) (held, cached bool, err error) {
	peeked, err := s.server.Peek(ctx, s.claim.Key(), TTL)
	if err == wire.ErrUncached { // alone: otherwise it says what fails
		return peeked.Held, false, nil
	}
	return peeked.Held, true, err
}

func (s *scratch) Stand(ctx context.Context) error {
	request := s.request
	request.Token = wire.NewToken("")
	claim := wire.One(s.claim.Key())
	_, err := s.server.Queues().Ask(ctx, &claim, request, wire.Place{Keep: true})
	return err
}

func (s *scratch) Channel() string { return s.server.Queues().Channel(s.Key()) }

func (s *scratch) Release(ctx context.Context) error {
	_, err := s.server.Release(ctx, &s.claim, s.request.Token, nil)
	return err
}
