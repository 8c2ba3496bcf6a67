package notify

// Tell is OnInvalidations for one key: a test cannot make a message.
func (h *Hub) Tell(key string) { h.shard(key).wake(key) }

// Holding is how many locks are told of changes.
func (h *Hub) Holding() (n int) {
	for i := range h.shards {
		h.shards[i].mu.Lock()
		for _, list := range h.shards[i].holding {
			n += len(list)
		}
		h.shards[i].mu.Unlock()
	}
	return n
}
