package audit

// Client is what a rule depends on of the client that calls the scripts.
type Client struct {
	Caches   bool // it has a client-side cache, and asks the server to say what changes
	Replicas bool // it may send calls of scripts that only read to replicas

	note string // which rights a user needs in addition to the rules of its scripts
}

// Rueidis is rueidis with its default options.
func Rueidis(replicas bool) Client {
	return Client{Caches: true, Replicas: replicas, note: "" +
		"Each rule is for a client with a cache, which needs +client|tracking to connect. Load also needs\n" +
		"+script|load. A client of a cluster also needs +cluster|slots +cluster|shards +asking.\n"}
}

// Goredis is go-redis with its default options. What it asks of a server in addition, such as
// CLIENT SETINFO, it does without.
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
