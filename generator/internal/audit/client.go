package audit

// Client has the facts about a client that change the rights of a script.
type Client struct {
	Caches   bool // the client has a client-side cache, and asks the server for invalidations
	Replicas bool // the client may send calls of read scripts to replicas

	note string // the rights that a user needs in addition to the rules of its scripts
}

// Rueidis is rueidis with its default options.
func Rueidis(replicas bool) Client {
	return Client{Caches: true, Replicas: replicas, note: "" +
		"Each rule is for a client with a cache, which needs +client|tracking to connect. Load also needs\n" +
		"+script|load. A client of a cluster also needs +cluster|slots +cluster|shards +asking.\n"}
}

// Goredis is go-redis with its default options. It also sends commands such as CLIENT SETINFO, and works
// without the right to them.
func Goredis(replicas bool) Client {
	note := "Each rule is for go-redis. Load also needs +script|load. A client of a cluster also needs " +
		"+cluster|slots\n" +
		"+command +asking"
	if replicas {
		note += ", and +readonly to send calls to replicas"
	}
	note += ".\n"
	return Client{Replicas: replicas, note: note}
}
