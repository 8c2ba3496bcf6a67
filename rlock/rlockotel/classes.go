package rlockotel

import (
	"strings"
	"sync"

	"go.opentelemetry.io/otel/attribute"
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

// attributes returns the class of a key as an attribute, if there are classes.
func (c *classes) attributes(key string) []attribute.KeyValue {
	if c.of == nil {
		return nil
	}
	return []attribute.KeyValue{attribute.String("rlock.class", c.class(key))}
}

// class returns the class of a key: text that every exporter accepts, and one of the first 100.
func (c *classes) class(key string) string {
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
