package chaos

import (
	"context"
	"fmt"
	"time"

	"github.com/rlock-go/toolkit/gen"
	"github.com/rlock-go/toolkit/rlock_test/env"
)

const (
	crowdCallers = 64                     // of each locker, in rounds that have crowds
	crowdBeat    = 250 * time.Millisecond // how often all of these callers call at the same time
)

// crowdKeys are the keys that crowds want. There are fewer crowd keys than callers.
// They are in the slots of the other keys.
var crowdKeys = func() (list []string) {
	for n := range 98 {
		list = append(list, fmt.Sprintf("{%c}crowd%d", 'a'+n%len(keys), n))
	}
	return list
}()

func (p *process) newCaller(locker, n int) *worker {
	w := p.newWorker(locker, n)
	w.number = 100_000 + p.Process*1000 + locker*crowdCallers + n
	return w
}

// crowd takes and gives up locks at the same moments as all other crowds, so the calls of a process
// go together. Many callers give up before the answer.
func (w *worker) crowd(ctx context.Context) {
	for ctx.Err() == nil {
		time.Sleep(crowdBeat - time.Duration(now())%crowdBeat)
		limit := operationLimit
		if w.chance(20) {
			limit = w.between(0, 5*time.Millisecond)
		}
		w.join(limit, w.CrowdKeys[w.random.IntN(len(w.CrowdKeys))])
	}
}

// join makes one cycle in a crowd.
func (w *worker) join(limit time.Duration, key string) {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	how := wish{ttl: w.ttl(), wait: w.chance(20), worker: w.number}
	asked := w.ask("crowd", []string{key}, how)
	l, err := w.service.acquire(ctx, asked.Keys, how)
	if h := w.settle(asked, how, l, err); h != nil {
		h.write()
		h.release()
	}
}

// loseMany drops the replies to scripts for many calls, once for each kind of script in each
// process. So a round with crowds has this fault for certain. At other times the fault comes by
// chance.
func (r *round) loseMany(proxies [processes]*env.Proxy) fault {
	return fault{kind: "replies to many dropped", target: "server", begin: func() {
		for _, p := range proxies {
			r.dropMany(p, gen.AcquireManySHA1)
			r.dropMany(p, gen.ReleaseManySHA1)
		}
	}}
}

// dropManyReplies lets scripts for many calls of a process run, and drops the replies.
func (r *round) dropManyReplies(name string, p *env.Proxy) func() fault {
	return func() fault {
		sha, count := []string{gen.AcquireManySHA1, gen.ReleaseManySHA1}[r.random.IntN(2)], 1+r.random.IntN(3)
		return fault{kind: "replies to many dropped", target: name, begin: func() {
			for range count {
				r.dropMany(p, sha)
			}
		}}
	}
}

// dropMany drops the next reply to a script, and counts the drop.
func (r *round) dropMany(p *env.Proxy, sha string) {
	match := env.Contains(sha)
	p.DropReply(func(request []byte) bool {
		found := match(request)
		if found {
			r.lostMany.Add(1)
		}
		return found
	})
}
