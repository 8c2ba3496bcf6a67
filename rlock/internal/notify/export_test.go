package notify

// Tell is OnInvalidations for one key: a test cannot make a message.
func (h *Hub) Tell(key string) { h.shard(key).wake(key) }
