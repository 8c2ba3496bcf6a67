package probe

import (
	"context"
	"strings"

	"github.com/redis/rueidis"

	"github.com/rlock-go/toolkit/rlock/internal/slot"
)

// holdersKeys are the keys of the holders who share a lock, in the words of an ACL rule.
var holdersKeys = "~" + strings.TrimSuffix(slot.HoldersPrefix, "{") + "*"

// shared tells whether locks can be shared. It sends commands of the scripts about the holders of the
// scratch lock. The scratch lock has no holders, so the commands change nothing. queued says that the user
// has the rights for the queue, which these scripts need too.
func (p *probe) shared(ctx context.Context, queued bool) error {
	key := slot.NamesOf(p.Scratch.Key()).Holders
	tries := []struct {
		command []string
		rule    string
	}{
		{[]string{"ZADD", key, "XX", "1", "probe"}, "+zadd " + holdersKeys},
		{[]string{"ZRANGE", key, "0", "0"}, "+zrange " + holdersKeys},
		{[]string{"ZSCORE", key, "probe"}, "+zscore " + holdersKeys},
		{[]string{"ZCARD", key}, "+zcard " + holdersKeys},
		{[]string{"ZREM", key, "probe"}, "+zrem " + holdersKeys},
		{[]string{"PEXPIREAT", key, "1"}, "+pexpireat " + holdersKeys},
		{[]string{"PERSIST", key}, "+persist " + holdersKeys},
		{[]string{"DEL", key}, "+del " + holdersKeys},
	}
	commands := make(rueidis.Commands, len(tries))
	for i, try := range tries {
		commands[i] = p.command(try.command)
	}
	var lacking rights
	for i, reply := range p.Client.DoMulti(ctx, commands...) {
		lacking.note(reply.Error(), tries[i].rule)
	}
	switch {
	case lacking.unanswered != nil:
		return lacking.unanswered
	case lacking.first != nil:
		p.add("shared", Note, lacking.first, "readers and holders of permits cannot share a lock: "+
			"AcquireShared and AcquirePermits are refused%s", lacking.rule())
	case !queued:
		p.add("shared", Note, nil, "readers and holders of permits cannot share a lock, "+
			"because sharing needs the queue")
	default:
		p.add("shared", OK, nil, "readers and holders of permits can share a lock")
	}
	return nil
}
