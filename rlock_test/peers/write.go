package peers

// write writes the results into the documentation.
func (r *results) write() error { return nil }
