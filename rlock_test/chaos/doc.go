// Package chaos looks for mistakes of rlock in long random histories. Several processes
// acquire, hold, extend, check and release locks at the same time. Meanwhile servers,
// networks and processes fail.
//
//	make chaos DURATION=30m SEED=1
//
// # A run
//
// A run is a sequence of rounds. A round takes a quarter of a minute. The run's seed and
// the round's number decide the faults and the operations of a round. A round first
// prints the command that repeats this round alone. The machine interleaves the
// operations anew in each repetition, so a mistake may need several repetitions to show
// again.
//
// A round starts servers of one engine in one topology, and three processes. Each process
// is another run of this test binary. It has two Lockers, of two of these kinds:
//
//   - a Locker that the server tells of changes
//   - a Locker that polls
//   - a Locker that hands on no token
//
// Each Locker has five workers. A worker draws its operations:
//
//   - It acquires one key or a set. All ways to acquire occur.
//   - It takes the whole lock, a reader's share, or one or two permits. A whole lock may
//     become a share.
//   - Its leases last 50 ms to 3 s. The Locker extends them, or the worker, or nobody.
//   - It writes to a resource that checks fences, and it checks its lock.
//   - It releases at once, late, or never.
//
// A worker writes a line to its parent for each operation. The line has readings of the
// machine's monotonic clock, which all processes share.
//
// Some rounds also have crowds: 64 more callers in each Locker. Four times a second all
// of them take a lock at the same moment and then give it up. rlock sends their calls
// together in one script, so one fault or one refusal concerns many callers at once.
// TestCrowds always has crowds. TestMixedUpAnswersAreFound shows that the checks find a
// combiner that mixes up two answers.
//
// # Topologies and faults
//
// One server that persists every write before it answers. These faults keep the data, so
// all promises of rlock must hold:
//
//   - The server is killed and restarted, stopped, or paused.
//   - The server loses its scripts, its queues or its clients, or withdraws a right.
//   - The network of a process is cut, slow or silent, drops replies, or holds requests
//     back.
//
// A cluster whose slots move. Slots move from primary to primary and back, under load. A
// move stands still for a while before or after its keys have gone. Moves keep the data.
//
// A primary with sentinels, and a cluster. A primary is killed after its replica has
// missed the last writes. The death of the primary loses locks. In the cluster, slots move
// too.
//
// A server that forgets. It is flushed and restarted without its data, or its clock is
// stepped. These faults lose locks.
//
// Where locks are lost, holders of one key may overlap. The report counts the overlaps.
// Fences must still increase.
//
// In all topologies, processes are killed, or stopped for longer than leases.
//
// # Checks
//
// After every round:
//
//   - The fences of a key increase in the order of its grants. No two are equal.
//   - Every Locker soon gets every key again.
//   - No key stays except one fence counter for each slot.
//   - No lease is longer than its caller asked for.
//   - No goroutine and no connection is left.
//   - The race detector has reported nothing in any process, even in a killed one.
//
// Where the data was kept, these are violations:
//
//   - two holders: an acquisition returned a lock while the Err of another holder was
//     still nil.
//   - valid write refused: the resource refused a write of a holder that was valid before
//     and after the write.
//   - lost too early: a holder was told ErrLost before the Deadline.
//   - no order: no order explains the operations on a key.
//
// The last check looks for an order in which one server can have run all operations on a
// key, each between its call and its return:
//
//   - A lease ends at some time at which it may end.
//   - A grant needs a free key. An extension needs a key of its own holder. ErrHeld needs
//     another holder.
//   - A refusal does not count where an acquisition of unknown outcome may have had the
//     key.
//   - A key counts as undecided if the search takes too long.
//
// Within a process, a lock passes from holder to holder together with its token. So the
// checks tell holders apart by process and acquisition.
//
// Several callers share some keys, as readers or as holders of two or three permits. Other
// callers want the whole lock of these keys. A few callers name another limit, or share
// the key in another way. The checks of shared keys differ:
//
//   - two holders: a holder of the whole lock is alone. Readers and holders of permits
//     exclude each other.
//   - too many permits: the permits that are valid at once never exceed the highest limit
//     that one of their holders names.
//   - fences: the holders that share a key in one phase have one fence. The fence is
//     larger than that of every holder before the phase. A server that loses data may
//     return to an earlier phase and its fence. Even then the fence is never that of a
//     holder of the whole lock.
//   - no order: a share needs a key that is free, or shared in the same way with enough
//     permits left by the share's own limit. The check judges a refused share only on
//     keys for which nobody waits, because a waiter stops later callers.
//
// make chaos TOPOLOGY=cluster runs only rounds on clusters. make chaos SHARING=90 makes
// nine of ten operations concern shared keys. Without SHARING, three of ten do.
//
// The checks have tests of their own. Some tests tell a history by hand. Other tests run
// lock services of a page's length that are right, or wrong in one of the usual ways.
package chaos
