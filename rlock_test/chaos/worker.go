package chaos

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/redis/rueidis"
	"go.uber.org/goleak"
)

// workerVariable is the environment variable that makes the test binary a process of a run. Its
// value has the orders.
const workerVariable = "RLOCK_CHAOS_WORKER"

const clientName = "chaos" // the name of the processes' connections on a server

// orders tell a process what to do.
type orders struct {
	Process   int
	Seed      uint64
	Service   string
	Lockers   int
	Workers   int // of each locker
	Crowd     int // further callers of each locker, who all call at the same time
	Keys      [][]string
	CrowdKeys []string
	Shared    [][]string // keys that workers also share
	Sharing   int        // of a hundred operations, how many concern shared keys
	TTLs      []time.Duration
	Patience  time.Duration // after the faults: longest wait for a key

	Addresses []string
	MasterSet string // of sentinels
	Resource  string
}

func (o orders) client(addresses ...string) rueidis.ClientOption {
	return rueidis.ClientOption{
		InitAddress:      addresses,
		ClientName:       clientName,
		ConnWriteTimeout: time.Second,
		Dialer:           net.Dialer{Timeout: time.Second, KeepAlive: 500 * time.Millisecond},
	}
}

// work is the life of a process. It runs load until the parent tells it to stop. Then each line of
// input starts one step: every locker takes every key once, all lockers close, the process ends. A
// closed input ends the process at any point.
func work(text string, in io.Reader, out io.Writer) error {
	var o orders
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		return err
	}
	p, err := newProcess(o, newRecorder(out))
	if err != nil {
		return err
	}
	p.record(event{Kind: opened, Return: now()})
	commands := bufio.NewScanner(in)
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	var running sync.WaitGroup
	for i := range p.services {
		for n := range o.Workers {
			running.Go(func() { p.newWorker(i, n).load(ctx) })
		}
		for n := range o.Crowd {
			running.Go(func() { p.newCaller(i, n).crowd(ctx) })
		}
	}
	if !commands.Scan() {
		return io.ErrUnexpectedEOF
	}
	stop()
	running.Wait()
	p.record(event{Kind: stopped, Return: now()})
	if !commands.Scan() {
		return io.ErrUnexpectedEOF
	}
	p.reachAll()
	p.record(event{Kind: settled, Return: now()})

	if !commands.Scan() {
		return io.ErrUnexpectedEOF
	}
	e := event{Kind: closed, HandedOver: p.close()}
	e.Outcome, e.Error = outcomeOf(awaitGoroutines())
	e.Return = now()
	p.record(e)
	commands.Scan()
	return commands.Err()
}

// awaitGoroutines returns once only the caller's goroutine is left, or says which others are left.
// When a node leaves a cluster, a client of rueidis lets go of the node five seconds later, even if
// the client is closed before.
func awaitGoroutines() (err error) {
	for start := time.Now(); time.Since(start) < 2*recovery; {
		if err = goleak.Find(); err == nil {
			return nil
		}
	}
	return err
}

// process is one process of a run.
type process struct {
	orders
	*recorder
	services []lockService
	resource resource

	mu    sync.Mutex
	locks int
}

func newProcess(o orders, r *recorder) (*process, error) {
	p := &process{orders: o, recorder: r}
	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{o.Resource}, DisableCache: true})
	if err != nil {
		return nil, fmt.Errorf("the resource: %w", err)
	}
	p.resource.client = client
	for n := range o.Lockers {
		s, err := p.open(n)
		if err != nil {
			return nil, fmt.Errorf("locker %d: %w", n, err)
		}
		p.services = append(p.services, s)
	}
	return p, nil
}

// open repeats the attempt while a fault is on.
func (p *process) open(n int) (s lockService, err error) {
	option := p.client(p.Addresses...)
	if p.MasterSet != "" {
		option.Sentinel = rueidis.SentinelOption{MasterSet: p.MasterSet, ClientName: clientName,
			Dialer: option.Dialer}
	}
	for start := time.Now(); time.Since(start) < patience; time.Sleep(20 * time.Millisecond) {
		if s, err = services[p.Service](option, n+p.Process); err == nil {
			return s, nil
		}
	}
	return nil, err
}

func (p *process) close() (handedOver uint64) {
	for _, s := range p.services {
		handedOver += s.handedOver()
		s.close()
	}
	p.resource.client.Close()
	return handedOver
}

func (p *process) newLock() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.locks++
	return p.locks
}

// reachAll makes every locker take every key once, after the faults.
func (p *process) reachAll() {
	var running sync.WaitGroup
	for i, s := range p.services {
		for _, key := range slices.Concat(append(p.Keys, p.CrowdKeys)...) {
			running.Go(func() { p.reach(s, i, key, share{}) })
		}
		for n, key := range slices.Concat(p.Shared...) {
			wanted := share{}
			if (n+i+p.Process)%2 == 0 {
				wanted = share{limitOf(key), 1}
			}
			running.Go(func() { p.reach(s, i, key, wanted) })
		}
	}
	running.Wait()
}

func (p *process) reach(s lockService, n int, key string, wanted share) {
	ctx, cancel := context.WithTimeout(context.Background(), p.Patience)
	defer cancel()
	e := event{Kind: reached, Keys: []string{key}, Call: now()}
	var err error
	for {
		var l lock
		// A server that is not quite back refuses at once.
		l, err = s.acquire(ctx, e.Keys,
			wish{ttl: time.Second, wait: true, worker: p.Process*100 + n*10 + 1, share: wanted})
		if err == nil {
			err = l.Release(ctx)
		}
		if err == nil || ctx.Err() != nil {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	e.Return = now()
	e.Outcome, e.Error = outcomeOf(err)
	p.record(e)
}
