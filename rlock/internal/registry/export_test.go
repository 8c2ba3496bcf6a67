package registry

// Room returns how many Items the Registry has memory for.
func (r *Registry[T]) Room() (n int) {
	for i := range r.shards {
		n += cap(r.shards[i].items)
	}
	return n
}
