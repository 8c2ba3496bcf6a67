package probe

import (
	"context"
	"slices"
	"strings"

	"github.com/redis/rueidis"

	"github.com/rlock-go/toolkit/rlock/internal/clock"
	"github.com/rlock-go/toolkit/rlock/internal/slot"
	"github.com/rlock-go/toolkit/rlock/internal/wire"
)

// Listener hears of the grants of the server to this process.
type Listener interface {
	// Listen returns nil when the server has confirmed that it tells this process.
	Listen(ctx context.Context) error
}

// Keys and channels of the queue, in the words of an ACL rule.
var (
	waitersKeys   = "~" + strings.TrimSuffix(slot.WaitersPrefix, "{") + "*"
	queueKeys     = "~" + strings.TrimSuffix(slot.QueuePrefix, "{") + "*"
	fenceKeys     = "~" + strings.TrimSuffix(slot.FencePrefix, "{") + "*"
	grantKeys     = "~" + strings.TrimSuffix(slot.GrantPrefix, "{") + "*"
	grantChannels = "&" + strings.TrimSuffix(slot.GrantPrefix, "{") + "*"
)

// queue tells whether processes can wait in the queue of a key. It reports whether the user has the rights
// that scripts need for the queue. It sends the commands of the scripts itself, because a script goes on
// without some of these rights. The commands change nothing.
//
// queue comes after pushes. When the client closes a connection, its cache and the waiters hear of a
// change.
func (p *probe) queue(ctx context.Context) (queued bool, err error) {
	names, channel := slot.NamesOf(p.Scratch.Key()), p.Scratch.Channel()
	key, waiters := names.Queue, names.Waiters
	tries := []struct {
		command []string
		rule    string
	}{
		{[]string{"EXISTS", key}, "+exists " + queueKeys},
		{[]string{"ZADD", key, "XX", "1", "probe"}, "+zadd " + queueKeys},
		{[]string{"ZRANGE", key, "0", "0"}, "+zrange " + queueKeys},
		{[]string{"ZRANK", key, "probe"}, "+zrank " + queueKeys},
		{[]string{"ZSCORE", key, "probe"}, "+zscore " + queueKeys},
		{[]string{"ZCARD", key}, "+zcard " + queueKeys},
		{[]string{"ZREM", key, "probe"}, "+zrem " + queueKeys},
		{[]string{"HGET", waiters, "probe"}, "+hget " + waitersKeys},
		{[]string{"HDEL", waiters, "probe"}, "+hdel " + waitersKeys},
		{[]string{"ZSCORE", names.Holders, "probe"}, "+zscore " + holdersKeys}, // for the sharers of the key
		{[]string{"PUBSUB", "SHARDNUMSUB", channel}, "+pubsub|shardnumsub"},    // any node can answer
		// the listeners ignore it, since it is no grant
		{[]string{"SPUBLISH", channel, "probe"}, "+spublish " + grantChannels},
		// A release gives a fence to a waiter, even if this process wants none for its locks.
		{[]string{"GET", slot.FenceCounter(p.Scratch.Key())[0]}, "+get " + fenceKeys},
	}
	commands := make(rueidis.Commands, len(tries))
	for i, try := range tries {
		commands[i] = p.command(try.command)
	}
	var lacking rights
	for i, reply := range p.Client.DoMulti(ctx, commands...) {
		lacking.note(reply.Error(), tries[i].rule)
	}
	lacking.note(p.Scratch.Stand(ctx), queueKeys+" "+waitersKeys+" "+holdersKeys+" "+grantKeys+" +hset")
	if lacking.unanswered != nil {
		return false, lacking.unanswered
	}
	queued = lacking.first == nil
	limited, cancel := context.WithTimeout(ctx, wire.Patience) // the client may have no connection left
	defer cancel()
	heard := p.Grants.Listen(limited)
	switch {
	case ctx.Err() != nil:
		return false, clock.ContextError(ctx, heard)
	case heard == clock.ErrStopped:
		return false, heard
	case p.Mode == wire.Polling:
		p.add("queue", Note, nil, "WithQueue(false): the first process that asks for a freed key gets it")
	case lacking.first != nil && p.Mode == wire.Queued:
		lacking.listen(heard)
		p.add("queue", Fault, lacking.first,
			"WithQueue(true): each waiter gets this error, and each holder who releases a lock with waiters%s",
			lacking.rule())
	case lacking.first != nil:
		lacking.listen(heard)
		p.add("queue", Note, lacking.first,
			"a waiter has no place in a queue, or a release cannot pass the lock on: the first process that asks "+
				"for a freed key gets it%s", lacking.rule())
	case denied(heard):
		lacking.listen(heard)
		p.add("queue", Note, heard, "this process keeps its place in a queue, but does not hear of grants, and "+
			"asks every %v%s", p.Poll, lacking.rule())
	case heard != nil:
		p.add("queue", Note, heard, "this process keeps its place in a queue, but does not hear of grants so far, "+
			"and asks every %v", p.Poll)
	default:
		p.add("queue", OK, nil, "a waiter has a place in the queue of the key, and hears of the grant")
	}
	return queued, nil
}

// command returns a command about a key or a channel, which follows the command's name. On a cluster the
// command goes to the node that has the key.
func (p *probe) command(words []string) rueidis.Completed {
	if words[0] == "PUBSUB" {
		return p.Client.B().Arbitrary(words...).Build()
	}
	return p.Client.B().Arbitrary(words[0]).Keys(words[1]).Args(words[2:]...).Build()
}

type rights struct {
	first      error // the first refusal
	unanswered error
	words      []string // of an ACL rule
}

// note takes the error of a call that needs the rights of a rule. A server may refuse the call for another
// reason: it does not know the command.
func (r *rights) note(err error, rule string) {
	switch {
	case err == nil || rueidis.IsRedisNil(err):
		return
	case wire.OutcomeOf(err) == wire.Indeterminate:
		r.unanswered = err
		return
	case r.first == nil:
		r.first = err
	}
	if !denied(err) {
		return
	}
	for word := range strings.SplitSeq(rule, " ") {
		if !slices.Contains(r.words, word) {
			r.words = append(r.words, word)
		}
	}
}

func (r *rights) listen(err error) {
	if denied(err) {
		r.note(err, "+ssubscribe "+grantChannels)
	}
}

// rule says what to grant, if that would help.
func (r *rights) rule() string {
	if len(r.words) == 0 {
		return ""
	}
	slices.Sort(r.words)
	return "; grant " + strings.Join(r.words, " ")
}
