package rlock

// Locks returns the locks of this Locker that are held as far as this process can
// know without asking, however they were taken: those for which Lock.Valid is true.
// They come in no particular order. It is for looking, and for a shutdown that, once
// those who work under locks have stopped, frees what is left:
//
//	errs := locker.ReleaseEach(ctx, locker.Locks())
//	locker.Close()
//
// It is a snapshot: a call that is acquiring may get its lock right after. A lock
// whose key is gone from the server is in it until that is noticed (see Invalidations) or its
// lease ends. Once the Locker is closed there are none.
func (l *Locker) Locks() []*Lock {
	if l.usable() != nil {
		return nil
	}
	var held []*Lock
	for _, h := range l.registry.All() {
		if lock := (*Lock)(h); lock.Valid() {
			held = append(held, lock)
		}
	}
	return held
}
