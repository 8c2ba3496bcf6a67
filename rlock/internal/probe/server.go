package probe

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/rueidis"

	"github.com/rlock-go/toolkit/rlock/internal/clock"
)

// servers asks every server that the client knows about the server itself.
func (p *probe) servers(ctx context.Context) error {
	nodes := p.Client.Nodes()
	for _, addr := range slices.Sorted(maps.Keys(nodes)) {
		first := len(p.rows)
		p.server(ctx, nodes[addr])
		for i := range p.rows[first:] {
			p.rows[first+i].Server = addr
		}
		if ctx.Err() != nil {
			return clock.ContextError(ctx, nil)
		}
	}
	return nil
}

func (p *probe) server(ctx context.Context, node rueidis.Client) {
	hello, err := node.Do(ctx, node.B().Arbitrary("HELLO").Build()).AsMap()
	if err != nil {
		p.add("version", Note, err, "the server does not tell; it must be Redis 7.0 or later, or Valkey")
	} else {
		p.hello(hello)
	}
	p.eviction(ctx, node)
	p.replication(ctx, node)
}

func (p *probe) hello(hello map[string]rueidis.RedisMessage) {
	field := func(name string) string {
		m := hello[name]
		text, _ := m.ToString()
		return text
	}
	major, _, _ := strings.Cut(field("version"), ".")
	if n, err := strconv.Atoi(major); err == nil && n < 7 {
		p.add("version", Fault, nil, "it is %s %s; the scripts need Redis 7.0 or later, or Valkey", field("server"),
			field("version"))
	} else {
		p.add("version", OK, nil, "%s %s", field("server"), field("version"))
	}
	proto := hello["proto"]
	if n, _ := proto.AsInt64(); n == 3 {
		p.add("protocol", OK, nil, "RESP3")
	} else {
		p.add("protocol", Note, nil,
			"RESP%d: the server cannot push, so there is no cache, and no process hears of changed keys", n)
	}
}

// eviction tells whether the server may drop locks when its memory is full.
func (p *probe) eviction(ctx context.Context, node rueidis.Client) {
	settings, err := node.Do(ctx,
		node.B().ConfigGet().Parameter("maxmemory", "maxmemory-policy").Build()).AsStrMap()
	limit, policy := settings["maxmemory"], settings["maxmemory-policy"]
	if err != nil || policy == "" {
		var memory map[string]string
		memory, err = info(ctx, node, "memory")
		limit, policy = memory["maxmemory"], memory["maxmemory_policy"]
	}
	switch {
	case policy == "":
		p.add("eviction", Note, err,
			"the server does not tell; its maxmemory-policy must be noeviction, or it may drop locks and "+
				"fence counters")
	case policy == "noeviction":
		p.add("eviction", OK, nil, "maxmemory-policy is noeviction")
	case limit == "0":
		p.add("eviction", Note, nil,
			"maxmemory-policy is %s, but there is no maxmemory; with one, locks could be dropped", policy)
	default:
		p.add("eviction", Fault, nil,
			"maxmemory-policy is %s and maxmemory %s: locks may be dropped while they are held; set noeviction",
			policy, limit)
	}
}

// replication tells whether a failover can lose locks.
func (p *probe) replication(ctx context.Context, node rueidis.Client) {
	fields, err := info(ctx, node, "replication")
	replicas, wrong := strconv.Atoi(fields["connected_slaves"])
	switch {
	case err != nil || wrong != nil:
		p.add("replication", Note, err,
			"the server does not tell; a failover to a replica can lose locks that were granted, so let the resource "+
				"check the fence")
	case fields["role"] == "slave":
		p.add("replication", Note, nil, "it is a replica; locks are taken on its primary")
	case replicas > 0:
		p.add("replication", Note, nil,
			"replicas: %d. They learn of a lock after the primary has granted it, so a failover can lose it; let "+
				"the resource check the fence", replicas)
	default:
		p.add("replication", OK, nil, "there is no replica, so no failover can lose locks")
	}
}

func info(ctx context.Context, node rueidis.Client, section string) (map[string]string, error) {
	text, err := node.Do(ctx, node.B().Info().Section(section).Build()).ToString()
	if err != nil {
		return nil, err
	}
	fields := map[string]string{}
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			fields[name] = value
		}
	}
	return fields, nil
}
