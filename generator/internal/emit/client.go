package emit

import (
	"fmt"
	"slices"
	"strings"

	"github.com/dave/jennifer/jen"
)

// Client is a Redis client that bindings can use: the types in their code, and the differences in their
// comments. Each client has a package luaimpl with the code that talks to the client.
type Client struct {
	Name   string // the value of -client
	Caches bool   // the client has a client-side cache, so scripts with mode: read cached get a second call
	pkg    string // the import path of the client
	alias  string // its package name
	impl   string // the import path of its luaimpl
	copied string // the directory in _runtime with the client's file of luaimpl

	handle func() *jen.Statement // the Go type that sends the commands of a call
	raw    func() *jen.Statement // the Go type of a raw reply

	about []string // what the comment of New says about the client
}

const (
	rueidisPath  = "github.com/redis/rueidis"
	goredisPath  = "github.com/redis/go-redis/v9"
	redisluaPath = "github.com/rlock-go/toolkit/redislua"
)

// Rueidis is the default client of bindings.
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

// ClientOf returns the client with a name.
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
