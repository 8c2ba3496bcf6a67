package emit

import (
	"fmt"
	"slices"
	"strings"

	"github.com/dave/jennifer/jen"
)

// Client is a client of Redis that bindings are written for: the types that stand in their
// code, and what differs in their comments. The code that talks to the client is in the
// runtime package, in the client's own file.
type Client struct {
	Name    string // as -client has it
	Caches  bool   // it has a client-side cache, so scripts with mode: read cached have a second call
	pkg     string // path of its package
	alias   string // the name of its package
	runtime string // its file in the runtime package

	handle  func() *jen.Statement // what a call sends commands with
	result  func() *jen.Statement // of a call
	message func() *jen.Statement // a reply, or a value in it, before it is decoded
	raw     func() *jen.Statement // the Go type of a raw reply
	noRaw   func() *jen.Statement // its zero value

	options []string // fields of the runtime's options that newLuaScript takes
	about   []string // what New says about the client
}

const (
	rueidisPath = "github.com/redis/rueidis"
	goredisPath = "github.com/redis/go-redis/v9"
)

// Rueidis is the client that bindings are written for by default.
var Rueidis = &Client{
	Name: "rueidis", Caches: true, pkg: rueidisPath, alias: "rueidis", runtime: "client_rueidis",
	handle:  func() *jen.Statement { return jen.Qual(rueidisPath, "Client") },
	result:  func() *jen.Statement { return jen.Qual(rueidisPath, "RedisResult") },
	message: func() *jen.Statement { return jen.Qual(rueidisPath, "RedisMessage") },
	raw:     func() *jen.Statement { return jen.Qual(rueidisPath, "RedisMessage") },
	noRaw:   func() *jen.Statement { return jen.Qual(rueidisPath, "RedisMessage").Values() },
	options: []string{"lua"},
	about: []string{
		"New returns the scripts. After a network error, or while the server loads its data,",
		"the client sends a call again until ctx ends, and returns the last answer. It does so",
		"for scripts that only read, and for those that may be repeated. [WithoutRetry]",
		"switches that off.",
		"",
		"If crypto/sha1 is forbidden (FIPS), pass [WithLuaOptions] rueidis.WithLoadSHA1(true).",
	},
}

// Goredis is github.com/redis/go-redis.
var Goredis = &Client{
	Name: "goredis", pkg: goredisPath, alias: "redis", runtime: "client_goredis",
	handle:  func() *jen.Statement { return jen.Qual(goredisPath, "UniversalClient") },
	result:  func() *jen.Statement { return jen.Op("*").Qual(goredisPath, "Cmd") },
	message: func() *jen.Statement { return jen.Id("message") },
	raw:     jen.Any,
	noRaw:   jen.Nil,
	about: []string{
		"New returns the scripts. After a network error, or while the server loads its data,",
		"the client sends a call again as often as its MaxRetries says (in a cluster: its",
		"MaxRedirects), and returns the last answer. It does so for scripts that only read, and",
		"for those that may be repeated, but never for others. [WithoutRetry] switches that off.",
		"",
		"A deadline of ctx ends a call that waits for the server only if the client has",
		"ContextTimeoutEnabled; otherwise its ReadTimeout does. A *redis.Ring is refused.",
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
