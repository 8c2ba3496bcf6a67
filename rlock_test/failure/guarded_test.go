package failure

// guarded is what a lock keeps others from. It remembers the largest fence that it
// has seen and refuses smaller ones, so that it is safe whatever becomes of the lock.
type guarded struct{ newest uint64 }

// write reports whether the holder with that fence may write.
func (g *guarded) write(fence uint64) bool {
	if fence < g.newest {
		return false
	}
	g.newest = fence
	return true
}
