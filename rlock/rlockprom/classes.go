package rlockprom

import (
	"strings"
	"sync"
)

// mostClasses is the largest number of classes of an observer. Each class is some 50 time series.
const mostClasses = 100

// other is the class of all keys after the first 100 classes.
const other = "other"

// classes assigns keys to classes.
type classes struct {
	of func(key string) string // nil: there are no classes

	mu    sync.RWMutex
	known map[string]bool // the classes so far
}

// class returns the class of a key: a label that Prometheus accepts, and one of the first 100.
func (c *classes) class(key string) string {
	if c.of == nil {
		return "" // to Prometheus that is no label
	}
	class := strings.ToValidUTF8(c.of(key), "\uFFFD")
	c.mu.RLock()
	known, full := c.known[class], len(c.known) >= mostClasses
	c.mu.RUnlock()
	switch {
	case known:
		return class
	case full:
		return other
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.known) >= mostClasses && !c.known[class] {
		return other
	}
	if c.known == nil {
		c.known = map[string]bool{}
	}
	c.known[class] = true
	return class
}
