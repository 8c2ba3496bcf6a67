package leftover

// Len is of how many keys there are tokens.
func (t *Tokens) Len() int { return int(t.count.Load()) }
