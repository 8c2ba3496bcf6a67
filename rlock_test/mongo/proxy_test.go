package mongo_test

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
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
	answer func(c command) (bson.D, bool) // instead of the server, if true
	lose   func(c command) bool           // ends the connection, when the server has answered
	hold   func(c command)                // before the server gets it
}

// serial is for all proxies, as they have one server: it lets one command through at a time.
var serial sync.Mutex

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

const opMsg = 2013

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
	const body = 16 + 4 + 1 // after the header, flags, and the kind of the first section
	if binary.LittleEndian.Uint32(message[12:]) != opMsg || len(message) < body+4 || message[body-1] != 0 {
		return command{}, false
	}
	size := int(binary.LittleEndian.Uint32(message[body:]))
	c.body = bson.Raw(message[body : body+size])
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
	message := make([]byte, 21, 21+len(raw))
	binary.LittleEndian.PutUint32(message[0:], uint32(21+len(raw)))
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
			if err := exchange(client, server, request); err != nil {
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
	if c.name == "createIndexes" { // FerretDB has none that deletes documents
		return build(id, bson.D{{Key: "ok", Value: 1}})
	}
	serial.Lock()
	defer serial.Unlock()
	if _, err := server.Write(request); err != nil {
		return nil, err
	}
	reply, err := readMessage(server)
	if err != nil || c.name != "hello" || r.shift == 0 {
		return reply, err
	}
	answer, _ := parse(reply)
	var document bson.D
	if err := bson.Unmarshal(answer.body, &document); err != nil {
		return nil, err
	}
	for i, field := range document {
		if field.Key == "localTime" {
			document[i].Value = field.Value.(bson.DateTime) + bson.DateTime(r.shift.Milliseconds())
		}
	}
	return build(id, document)
}

// exchange passes a message on, and its answer back.
func exchange(client, server net.Conn, request []byte) error {
	if _, err := server.Write(request); err != nil {
		return err
	}
	reply, err := readMessage(server)
	if err != nil {
		return err
	}
	_, err = client.Write(reply)
	return err
}
