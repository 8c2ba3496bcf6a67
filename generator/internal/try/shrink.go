package try

import "context"

// shrink returns the fault with a smaller input. Each factor gets the first value that still shows the fault.
func (r *runner) shrink(ctx context.Context, c choice, f fault) fault {
	for factor := range r.space.factors() {
		now := c.at(factor)
		for n := range now {
			smaller := r.space.input(c.with(factor, n))
			if smaller.strange() > f.in.strange() {
				continue
			}
			found, _, err := r.faults(ctx, smaller)
			if err != nil {
				break // the larger input shows the fault too
			}
			if g, ok := contains(found, f); ok {
				c, f = c.with(factor, n), g
				break
			}
		}
	}
	return f
}

func contains(list []fault, f fault) (fault, bool) {
	for _, g := range list {
		if f.same(g) {
			return g, true
		}
	}
	return fault{}, false
}

func (c choice) at(factor int) int {
	switch at := factor - 2; {
	case factor == 0:
		return c.earlier
	case factor == 1:
		return c.count
	case at < len(c.keys):
		return c.keys[at]
	default:
		return c.args[at-len(c.keys)]
	}
}
