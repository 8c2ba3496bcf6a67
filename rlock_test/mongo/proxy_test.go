package mongo_test

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.mongodb.org/mongo-driver/v2/bson"
)

// command is what the proxy has been sent.
type command struct {
	name string
	body bson.Raw // without documents that are sent beside it
}

// proxy is before a server. It lets one command at a time through, so that each is atomic, and shows and
// spoils what passes.
type proxy struct {
	address string
	server  string

	mu    sync.Mutex
	log   []command
	rules rules
	conns map[net.Conn]struct{}
}

// rules are what a proxy does to commands of the tests; not to those by which the driver observes a server.
type rules struct {
	shift  time.Duration                  // of the server's clock
	answer func(c command) (bson.D, bool) // instead of the server's
	lose   func(c command) bool           // ends the connection, when the server has answered
	hold   func(c command)                // before the server has it
}

// single is the connection that the commands of all proxies go through, one at a time. It stays open: when a
// connection ends, or the time that a command has, FerretDB interrupts SQLite, and goes on to fail for others
// ("interrupted", "database is locked").
var single struct {
	sync.Mutex
	conn net.Conn
}

func startProxy(t *testing.T, server string) *proxy {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	p := &proxy{address: listener.Addr().String(), server: server, conns: map[net.Conn]struct{}{}}
	var group sync.WaitGroup
	group.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			p.mu.Lock()
			p.conns[conn] = struct{}{}
			p.mu.Unlock()
			group.Go(func() {
				_ = p.serve(conn) // its end is the end of the connection
				_ = conn.Close()
				p.mu.Lock()
				delete(p.conns, conn)
				p.mu.Unlock()
			})
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		p.mu.Lock()
		for conn := range p.conns {
			_ = conn.Close()
		}
		p.mu.Unlock()
		group.Wait()
	})
	return p
}

func (p *proxy) set(r rules) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rules = r
}

// commands returns those since the last call.
func (p *proxy) commands() []command {
	p.mu.Lock()
	defer p.mu.Unlock()
	log := p.log
	p.log = nil
	return log
}

func (p *proxy) names() []string {
	var names []string
	for _, c := range p.commands() {
		names = append(names, c.name)
	}
	return names
}

const (
	opMsg  = 2013
	bodyAt = 16 + 4 + 1 // after the header, flags, and the kind of the first section
)

func readMessage(from io.Reader) ([]byte, error) {
	header := make([]byte, 16)
	if _, err := io.ReadFull(from, header); err != nil {
		return nil, err
	}
	size := binary.LittleEndian.Uint32(header)
	if size < 16 || size > 1<<25 {
		return nil, fmt.Errorf("a message of %d bytes", size)
	}
	message := make([]byte, size)
	copy(message, header)
	_, err := io.ReadFull(from, message[16:])
	return message, err
}

// parse returns the command of a message, or its answer; false: the driver observes with it.
func parse(message []byte) (c command, is bool) {
	if binary.LittleEndian.Uint32(message[12:]) != opMsg || len(message) < bodyAt+4 || message[bodyAt-1] != 0 {
		return command{}, false
	}
	size := int(binary.LittleEndian.Uint32(message[bodyAt:]))
	c.body = bson.Raw(message[bodyAt : bodyAt+size])
	first, err := c.body.IndexErr(0)
	if err != nil {
		return command{}, false
	}
	c.name = first.Key()
	database, _ := c.body.Lookup("$db").StringValueOK() // an answer has none
	return c, database != "admin"
}

// build returns a message with a document.
func build(replyTo uint32, document any) ([]byte, error) {
	raw, err := bson.Marshal(document)
	if err != nil {
		return nil, err
	}
	message := make([]byte, bodyAt, bodyAt+len(raw))
	binary.LittleEndian.PutUint32(message[0:], uint32(bodyAt+len(raw)))
	binary.LittleEndian.PutUint32(message[4:], replyTo)
	binary.LittleEndian.PutUint32(message[8:], replyTo)
	binary.LittleEndian.PutUint32(message[12:], opMsg)
	return append(message, raw...), nil
}

func (p *proxy) serve(client net.Conn) error {
	server, err := net.Dial("tcp", p.server)
	if err != nil {
		return err
	}
	defer server.Close()
	for {
		request, err := readMessage(client)
		if err != nil {
			return err
		}
		id := binary.LittleEndian.Uint32(request[4:])
		c, is := parse(request)
		if !is {
			reply, err := exchange(server, request)
			if err != nil {
				return err
			}
			if _, err := client.Write(reply); err != nil {
				return err
			}
			continue
		}
		p.mu.Lock()
		p.log = append(p.log, c)
		r := p.rules
		p.mu.Unlock()
		if r.hold != nil {
			r.hold(c)
		}
		reply, err := p.ask(server, request, id, c, r)
		if err != nil {
			return err
		}
		if r.lose != nil && r.lose(c) {
			return nil
		}
		if _, err := client.Write(reply); err != nil {
			return err
		}
	}
}

// ask returns the answer to a command.
func (p *proxy) ask(server net.Conn, request []byte, id uint32, c command, r rules) ([]byte, error) {
	if r.answer != nil {
		if answer, is := r.answer(c); is {
			return build(id, answer)
		}
	}
	switch c.name {
	case "createIndexes": // FerretDB has none that deletes documents
		return build(id, bson.D{{Key: "ok", Value: 1}})
	case "hello":
		reply, err := exchange(server, request)
		if err != nil {
			return nil, err
		}
		answer, _ := parse(reply)
		return edit(reply, answer.body, func(e bson.E) (bson.E, bool) {
			if e.Key == "localTime" {
				e.Value = e.Value.(bson.DateTime) + bson.DateTime(r.shift.Milliseconds())
			}
			return e, true
		})
	}
	patient, err := edit(request, c.body, func(e bson.E) (bson.E, bool) { return e, e.Key != "maxTimeMS" })
	if err != nil {
		return nil, err
	}
	arrived := time.Now()
	single.Lock()
	defer single.Unlock()
	// Like MongoDB, the proxy does nothing for who has given up already: else a slow machine never gets it done.
	limit, is := c.body.Lookup("maxTimeMS").AsInt64OK()
	if is && time.Since(arrived) > time.Duration(limit)*time.Millisecond {
		return build(id, bson.D{
			{Key: "ok", Value: 0}, {Key: "code", Value: 50}, {Key: "errmsg", Value: "operation exceeded time limit"},
		})
	}
	if single.conn == nil {
		if single.conn, err = net.Dial("tcp", p.server); err != nil {
			return nil, err
		}
	}
	return exchange(single.conn, patient)
}

// exchange sends a message, and returns the answer.
func exchange(server net.Conn, request []byte) ([]byte, error) {
	if _, err := server.Write(request); err != nil {
		return nil, err
	}
	return readMessage(server)
}

// edit returns a message with other fields in its body, without those for which change returns false.
func edit(message []byte, body bson.Raw, change func(e bson.E) (bson.E, bool)) ([]byte, error) {
	var document, changed bson.D
	if err := bson.Unmarshal(body, &document); err != nil {
		return nil, err
	}
	for _, e := range document {
		if e, keep := change(e); keep {
			changed = append(changed, e)
		}
	}
	raw, err := bson.Marshal(changed)
	if err != nil {
		return nil, err
	}
	edited := slices.Concat(message[:bodyAt], raw, message[bodyAt+len(body):])
	binary.LittleEndian.PutUint32(edited, uint32(len(edited)))
	return edited, nil
}
