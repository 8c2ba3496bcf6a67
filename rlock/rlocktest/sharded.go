package rlocktest

import (
	"slices"
	"strings"

	"github.com/alicebob/miniredis/v2/server"
)

// Sharded channels, which miniredis lacks. A connection hears a message after the command or the script that
// published it, and not in the middle of a reply.

// registerSharded makes SPUBLISH a command that read-only scripts refuse. The tracker runs it before
// miniredis, unless SetError was used.
func (t *tracker) registerSharded() {
	_ = t.backend.Register("SPUBLISH", func(p *server.Peer, _ string, _ []string) {
		p.WriteError("ERR SPUBLISH is not supported in scripts by this server after SetError")
	})
}

// sharded runs a command of a client on sharded channels. It returns false for any other command.
func (t *tracker) sharded(c *conn, argv []string) bool {
	least, most := 0, len(argv)
	switch argv[0] {
	case "SSUBSCRIBE":
		least = 2
	case "SUNSUBSCRIBE":
	case "SPUBLISH":
		least, most = 3, 3
	default:
		return false
	}
	if len(argv) < least || len(argv) > most {
		c.peer.WriteError("ERR wrong number of arguments for '" + strings.ToLower(argv[0]) + "' command")
		return true
	}
	// miniredis refuses this if the client has to send a password first.
	if reply := t.ask(c.peer, []string{"PUBSUB", "NUMPAT"}); strings.HasPrefix(reply, "-") {
		c.peer.WriteRaw(reply)
		return true
	}
	switch argv[0] {
	case "SSUBSCRIBE":
		t.subscribe(c, argv[1:])
	case "SUNSUBSCRIBE":
		t.unsubscribe(c, argv[1:])
	default:
		heard := t.publish(argv[1], argv[2])
		c.peer.WriteInt(len(heard))
		t.deliver(heard)
	}
	return true
}

func (t *tracker) subscribe(c *conn, channels []string) {
	for _, channel := range channels {
		t.mu.Lock()
		if !slices.Contains(c.channels, channel) {
			c.channels = append(c.channels, channel)
		}
		n := len(c.channels)
		t.mu.Unlock()
		c.confirm("ssubscribe", channel, n)
	}
}

func (t *tracker) unsubscribe(c *conn, channels []string) {
	if len(channels) == 0 {
		t.mu.Lock()
		channels = slices.Clone(c.channels)
		t.mu.Unlock()
	}
	if len(channels) == 0 {
		c.peer.Block(func(w *server.Writer) {
			w.WritePushLen(3)
			w.WriteBulk("sunsubscribe")
			w.WriteNull()
			w.WriteInt(0)
		})
	}
	for _, channel := range channels {
		t.mu.Lock()
		c.channels = slices.DeleteFunc(c.channels, func(other string) bool { return other == channel })
		n := len(c.channels)
		t.mu.Unlock()
		c.confirm("sunsubscribe", channel, n)
	}
}

func (c *conn) confirm(kind, channel string, n int) {
	c.peer.Block(func(w *server.Writer) {
		w.WritePushLen(3)
		w.WriteBulk(kind)
		w.WriteBulk(channel)
		w.WriteInt(n)
	})
}

// publish queues a message for the listeners, and returns them.
func (t *tracker) publish(channel, message string) (heard []*conn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, c := range t.conns {
		if slices.Contains(c.channels, channel) {
			c.pending = append(c.pending, push{message: []string{"smessage", channel, message}})
			heard = append(heard, c)
		}
	}
	return heard
}

// shardedCall runs a command of a script on sharded channels, and PUBSUB SHARDNUMSUB of any sender. It
// returns false for any other command. c is the connection of the script, or nil.
func (t *tracker) shardedCall(c *conn, p *server.Peer, cmd string, args []string) bool {
	switch {
	case cmd == "SPUBLISH" && c != nil && len(args) == 2:
		heard := t.publish(args[0], args[1])
		t.mu.Lock()
		c.script.heard = append(c.script.heard, heard...)
		t.mu.Unlock()
		p.WriteInt(len(heard))
	case cmd == "PUBSUB" && len(args) > 0 && strings.EqualFold(args[0], "SHARDNUMSUB"):
		if reply := t.ask(p, []string{"PUBSUB", "NUMPAT"}); strings.HasPrefix(reply, "-") {
			p.WriteRaw(reply)
			return true
		}
		channels := args[1:]
		p.WriteLen(2 * len(channels))
		for _, channel := range channels {
			p.WriteBulk(channel)
			p.WriteInt(t.listeners(channel))
		}
	default:
		return false
	}
	return true
}

func (t *tracker) listeners(channel string) (n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, c := range t.conns {
		if slices.Contains(c.channels, channel) {
			n++
		}
	}
	return n
}

// isSharded reports whether a command is about sharded channels. None of these runs in MULTI.
func isSharded(argv []string) bool {
	switch argv[0] {
	case "SSUBSCRIBE", "SUNSUBSCRIBE", "SPUBLISH":
		return true
	case "PUBSUB":
		return len(argv) > 1 && strings.EqualFold(argv[1], "SHARDNUMSUB")
	}
	return false
}
