package permits

// Lines returns how many lines there are.
func (p *Permits) Lines() (n int) {
	for i := range p.shards {
		s := &p.shards[i]
		s.mu.Lock()
		n += len(s.lines)
		s.mu.Unlock()
	}
	return n
}
