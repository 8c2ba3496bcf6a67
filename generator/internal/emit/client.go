package emit

import (
	"fmt"
	"slices"
	"strings"

	"github.com/dave/jennifer/jen"
)

// Client is a client of Redis that bindings are written for: the types that stand in their
// code, and what differs in their comments. The code that talks to the client is in a package
// luaimpl for the client.
type Client struct {
	Name   string // as -client has it
	Caches bool   // it has a client-side cache, so scripts with mode: read cached have a second call
	pkg    string // path of its package
	alias  string // the name of its package
	impl   string // path of the package that the bindings call
	copied string // the directory of copies with that package's file of the client

	handle func() *jen.Statement // what a call sends commands with
	raw    func() *jen.Statement // the Go type of a raw reply

	about []string // what New says about the client
}

const (
	rueidisPath  = "github.com/redis/rueidis"
	goredisPath  = "github.com/redis/go-redis/v9"
	redisluaPath = "github.com/rlock-go/toolkit/redislua"
)

// Rueidis is the client that bindings are written for by default.
var Rueidis = &Client{
	Name: "rueidis", Caches: true, pkg: rueidisPath, alias: "rueidis",
	impl: redisluaPath + "/luaimpl", copied: "rueidis",
	handle: func() *jen.Statement { return jen.Qual(rueidisPath, "Client") },
	raw:    func() *jen.Statement { return jen.Qual(rueidisPath, "RedisMessage") },
	about: []string{
		"New returns the scripts. After a network error, or while the server loads its data, the client",
		"sends a call again until ctx ends, and returns the last answer. The client does so for scripts",
		"that only read, and for scripts that may be repeated. [redislua.WithoutRetry] switches that off.",
	},
}

// Goredis is github.com/redis/go-redis.
var Goredis = &Client{
	Name: "goredis", pkg: goredisPath, alias: "redis",
	impl: redisluaPath + "/goredis/luaimpl", copied: "goredis",
	handle: func() *jen.Statement { return jen.Qual(goredisPath, "UniversalClient") },
	raw:    jen.Any,
	about: []string{
		"New returns the scripts. After a network error, or while the server loads its data, the client",
		"sends a call again, and returns the last answer. MaxRetries says how often, or MaxRedirects in",
		"a cluster. The client does so for scripts that only read, and for scripts that may be repeated,",
		"but never for others. [redislua.WithoutRetry] switches that off.",
		"",
		"A deadline of ctx ends a call that waits for the server if the client has",
		"ContextTimeoutEnabled. Otherwise its ReadTimeout ends the call. A call refuses a *redis.Ring.",
	},
}

var clients = []*Client{Rueidis, Goredis}

// ClientOf returns the client that a name stands for.
func ClientOf(name string) (*Client, error) {
	i := slices.IndexFunc(clients, func(c *Client) bool { return c.Name == name })
	if i < 0 {
		var names []string
		for _, c := range clients {
			names = append(names, c.Name)
		}
		return nil, fmt.Errorf("want %s", strings.Join(names, " or "))
	}
	return clients[i], nil
}
