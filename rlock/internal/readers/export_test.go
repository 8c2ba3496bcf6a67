package readers

// Len returns how many Holders new readers may share or wait for.
func (r *Readers) Len() (n int) {
	for i := range r.shards {
		s := &r.shards[i]
		s.mu.Lock()
		n += len(s.latest)
		s.mu.Unlock()
	}
	return n
}
