package bindings

// Job is a piece of work that a queue holds.
type Job struct {
	Kind  string   `json:"kind"`
	Args  []string `json:"args,omitempty"`
	Tries int      `json:"tries"`
}

// Receipt is what an operation that has been done once answers for ever.
type Receipt struct {
	Number string `json:"number"`
	Cents  int64  `json:"cents"`
}

// Profile is what a user tells about themselves.
type Profile struct {
	Name string `json:"name"`
	City string `json:"city,omitempty"`
}

// Cart is what a visitor is about to buy: quantities by article.
type Cart struct {
	Items map[string]int `json:"items"`
}

// Event is something that has happened.
type Event struct {
	Kind string `json:"kind"`
	At   int64  `json:"at"` // milliseconds since 1970
}
