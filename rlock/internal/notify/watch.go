package notify

// Watch is a place among the waiters of one Listener for a key. The Listener tells only the first waiter of
// a change. The first waiter tries to acquire while the others wait on. When it leaves, the Listener tells
// the next one. So a change costs a Listener one attempt, however many wait.
type Watch struct {
	shard      *shard
	list       *watchList
	key        string
	changed    chan struct{}
	next, prev *Watch
}

// watchList has the waiters of one Listener for one key, in the order in which they came.
type watchList struct {
	listener   *Listener
	head, tail *Watch
	other      *watchList // of another Listener
}

// Watch takes a place among the waiters for key.
func (l *Listener) Watch(key string) *Watch {
	w := &Watch{shard: l.hub.shard(l.hub.hash(key)), key: key, changed: make(chan struct{}, 1)}
	w.shard.mu.Lock()
	defer w.shard.mu.Unlock()
	first := w.shard.waiting[key]
	list := first
	for list != nil && list.listener != l {
		list = list.other
	}
	if list == nil {
		list = &watchList{listener: l, head: w, other: first}
		w.shard.waiting[key] = list
	} else {
		w.prev, list.tail.next = list.tail, w
	}
	list.tail, w.list = w, list
	return w
}

// Changed receives when the key may have changed, if w is the first waiter.
func (w *Watch) Changed() <-chan struct{} { return w.changed }

// Leave gives the place up.
func (w *Watch) Leave() {
	w.shard.mu.Lock()
	defer w.shard.mu.Unlock()
	list := w.list
	if w.next == nil {
		list.tail = w.prev
	} else {
		w.next.prev = w.prev
	}
	if w.prev != nil {
		w.prev.next = w.next
		return
	}
	if list.head = w.next; list.head == nil {
		w.shard.remove(w.key, list)
		return
	}
	list.head.signal()
}

// remove removes an empty list from the lists of a key. The caller holds mu.
func (s *shard) remove(key string, list *watchList) {
	first := s.waiting[key]
	if first == list {
		if list.other == nil {
			delete(s.waiting, key)
		} else {
			s.waiting[key] = list.other
		}
		return
	}
	for first.other != list {
		first = first.other
	}
	first.other = list.other
}

func (w *Watch) isFirst() bool {
	w.shard.mu.Lock()
	defer w.shard.mu.Unlock()
	return w.prev == nil
}

func (w *Watch) signal() {
	select {
	case w.changed <- struct{}{}:
	default: // a signal is there already
	}
}
