// Package chaos looks for mistakes of rlock in long random histories: locks are
// taken, held, extended, checked and released in several processes at once, while
// servers, networks and processes fail.
//
//	make chaos DURATION=30m SEED=1
//
// # A run
//
// A run is a sequence of rounds, a quarter of a minute each. Every round is drawn from
// the run's seed and its number; what it prints first is the command that repeats it
// alone. The same seed draws the same faults and the same operations, but the machine
// interleaves them anew each time, so a mistake may take some repetitions to show again.
//
// A round starts servers of one engine in one topology, and three processes, which are
// this test binary once more. In each, two lockers (they are told of changes by the
// server, or poll, or never hand on a token) have five workers each. A worker draws
// its operations: all ways to acquire one key or a set, for itself or with others (as a reader, or with
// one or two permits), a lock that becomes a share, leases of 50 ms to 3 s, extended
// automatically, by hand or not at all, writes to a resource that checks fences, checks,
// and releases: at once, late, or never. What a worker does, it writes down as a line
// for its parent, with readings of the machine's monotonic clock, which all processes
// share.
//
// Some rounds have crowds besides: 64 more callers in each locker, all of whom take a lock at the
// same moment, four times a second, and give it up. So their calls go together in one script, and what is
// lost, refused or given up is that of many callers at once. TestCrowds has such rounds in any case, and
// TestMixedUpAnswersAreFound shows that a combiner that mixes up two answers is found.
//
// # Topologies and faults
//
// One server that persists everything before it answers: it is killed and restarted,
// stopped, and paused, loses its scripts and its clients; the network of a process
// is cut, slow or silent, drops replies or holds requests back. This keeps the data: all
// that rlock promises must hold.
//
// A primary with sentinels, and a cluster: a primary is killed after its replica has
// missed the last writes. A server that forgets: it is flushed and restarted without its
// data, or its clock is stepped. This loses locks: holders of one key may overlap, which
// is counted, but fences must still increase.
//
// A cluster whose slots move: from primary to primary and back, under load, where a move stands still
// before its keys have gone, or after. This keeps the data. (Slots move also where a primary is killed.)
//
// In all of them, processes are stopped for longer than leases, or killed.
//
// # Checks
//
// After all rounds: fences of a key increase in the order of its grants, and no two are
// equal; every locker soon has every key again; no key stays, or has a longer lease than
// was asked for; no goroutine and no connection is left; the race detector has reported nothing in any of
// the processes, the killed ones too.
//
// Where the data was kept:
//
//   - two holders: no holder got a lock back from acquiring it while another one's
//     Err was still nil.
//   - valid write refused: the resource took every write of a holder that was valid
//     before and after.
//   - lost too early: nobody was told ErrLost before the Deadline.
//   - no order: there is an order in which one server can have run all operations on
//     a key, each between its call and its return. Leases end in it at times when they
//     may. A grant needs a free key, an extension its own, ErrHeld somebody's; a
//     refusal counts only where no acquisition of unknown outcome may have been that
//     somebody. A key for which the search takes too long is counted as undecided.
//
// A lock passes from holder to holder within a process together with its token, so
// holders are told apart by process and acquisition.
//
// Some keys are shared: by readers, or by holders of two or three permits, beside those who want the
// whole lock, and a few callers who name another limit or share the key in another way. The checks know that:
//
//   - two holders: one who has the whole lock is alone, and readers and holders of permits exclude each other.
//
//   - too many permits: those that are valid at once are never more than the highest limit that one of them names.
//
//   - fences: those who share a key in one phase have one fence, which is larger than that of every
//     holder before the phase. Where data is lost, the server may have an earlier phase back: who shares
//     the key then has the fence of that, but never that of one who had the whole lock.
//
//   - no order: a share is granted while the key is free or shared in this way and enough permits are
//     left by its own limit, and is refused only where nobody waits for the key, because one who waits stops those who
//     come later.
//
// With make chaos TOPOLOGY=cluster, only rounds on clusters run.
// With make chaos SHARING=90, nine of ten operations are about those keys, in place of three.
//
// The checks have tests of their own: histories told by hand, and lock services of a
// page's length that are right, or wrong in one of the usual ways.
package chaos
