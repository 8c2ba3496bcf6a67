package rlock

// Locks returns the locks of this Locker that are Valid now, in no particular order. It is for looking,
// and for a shutdown that frees what is left once those who work under locks have stopped:
//
//	errs := locker.ReleaseEach(ctx, locker.Locks())
//	locker.Close()
//
// It is a snapshot: a call that is acquiring may get its lock right after. A closed Locker has none.
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
