// # Guarantees
//
// Each statement names the tests that show it, in parentheses. The tests of what a server
// does are in rlock_test and run against Redis 7.0, Redis 8 and Valkey 8. FAILURES.md beside
// this file tells what users see when something fails. rlock_test/chaos, which has
// TestHistories, searches for counter-examples at random.
//
// While one primary keeps its data, its wall clock does not jump, and nobody changes a key
// without having its token:
//
//   - No two holders of a key are valid at the same time, whatever clients, processes and
//     the network do. (TestHistories, TestSchedules, TestOverlappingSets,
//     TestTokensChangeUnderEverything)
//   - Lock.Valid is false before the server lets another token in. Lock.Context ends at the
//     same time, as exactly as timers fire. This process counts the lease on its own
//     monotonic clock, from before it sent the command, so the lease ends without asking a
//     server. The clocks of process and server may differ in speed by 0.1 %.
//     (TestContextEndsWithTheLease, TestBlackHole, TestReplyAfterTheLease,
//     TestHolderIsPaused)
//   - Fences of a key rise strictly from one holder to the next. The fence of a set counts
//     for each of its keys. (TestFencesRise, TestCrossSlotFences, TestHistories)
//   - A holder that dies keeps others out until its lease ends, and no longer: a waiter
//     tries again then, whether or not the server sends a message.
//     (TestAcquireTakesOverWhenTheLeaseEnds, TestHolderDies, TestExpiryAmongThousandsOfKeys,
//     TestQueueAfterAHolderDied)
//   - Readers never meet a holder of the whole lock, and there are never more permits held than
//     the limit. (TestSharedResource, TestScriptPermits, TestScriptVoidMembers)
//   - Those who wait for the whole lock and readers take turns, and permits go to those who wait in
//     their order. (TestWriterAmongReaders, TestScriptPhases, TestScriptPermitsInOrder)
//   - A lock that was acquired WithAtLeast keeps others out for that time, however early it is
//     released, and if its process dies. Whoever waits gets it then, and not before. Only
//     ForceRelease and ForceAcquire can let somebody in earlier. (TestAtLeast,
//     TestAtLeastWithWaiters, TestAtLeastOfALockThatWasHandedOver, TestAtLeastAfterDetach,
//     TestHolderDiesWithAtLeast, TestUnansweredReleaseWithAtLeast)
//   - Lead keeps the lock until its function has returned, and then releases it. So the next leader
//     begins after that, unless the function works on past the end of the lease. (TestLead, TestLeadAgain,
//     TestLeadEnds)
//   - The server takes a set of one slot whole or not at all, at one instant, whatever the
//     order of its keys (for several slots see WithCrossSlot). Sets cannot deadlock.
//     (TestAcquireAll, TestOverlappingSets, TestWrongType)
//
// Always:
//
//   - An acquisition that fails leaves no lock and no place in a queue behind, except what the
//     Locker then gives up in the background, for half a minute or for the length of the lease
//     if that is shorter.
//     This holds if its context ends midway, if replies are lost, and if it loses a race with
//     Close. If the caller chose the token, the Locker releases nothing in the background,
//     and what is left ends with its lease (see WithToken). (TestContextEndsMidAcquire,
//     TestContextEndsAnywhere, TestLostReplyOnAcquire, TestLostThenRefusedIsCleanedUp,
//     TestLateAcquire, TestCloseDuringAnAcquisition, TestNoCleaningUpWithOnesOwnToken,
//     TestNoFenceLeavesNoLock, TestCloseWhileQueued, TestPanicWhileWaiting,
//     TestQueueUnderEverything)
//   - Every command is safe to repeat: a lost reply costs time and nothing else.
//     (TestScripts, TestLostReplyOnAcquire, TestLostReplyOnExtend, TestLostReplyOnRelease,
//     TestLostExtensionIsForgotten, TestShorteningWithoutAnAnswer)
//   - When Extend returns nil, the lock has a lease of ttl, counted from that call, and
//     Lock.Deadline shows it, whatever other commands are under way for the lock. A command
//     that arrives late never shortens a lease, and never lengthens a lease that was
//     shortened. (TestLateExtend, TestExtendBesideARenewal, TestRenewalBesideAShortening,
//     TestLateCommandsLeaveAShortLeaseAlone, TestShorteningIsNoLoss)
//   - If a lock expires while this process does not know whether the server has shortened
//     its lease, the Locker frees the keys in the background, so that the longer lease does
//     not stay. (TestShorteningThatIsNeverAnswered)
//   - Once a process has attached a detached lock, no command that the former process sent or
//     still sends has an effect on it, and nobody else can attach it.
//     (TestLateCommandsOfTheFormerProcess, TestDetachBesideARenewal, TestAttachAgain)
//   - Release, and every other call that uses a token, leaves alone what another token
//     holds. (TestTokensAreComparedWhole, TestReleaseOfALostLock, TestLateCommandsLeaveTheNextHolderAlone)
//   - Release does its work even if its context has ended. (TestReleaseWithAnEndedContext)
//   - A panic or runtime.Goexit in a RetryFunc, an Observer, the function of Do, a context or
//     a hook of the client leaves no lock held without a handle, and no caller waiting
//     for a key that is free. (TestObserverEndsACall, TestObservers, TestRetryFuncEndsACall, TestFunctionOfDoEnds,
//     TestClientAndContextPanic, TestContextBreaksDuringDo, TestHandOverPanicsAfterOneWhoHasLeft,
//     TestObserverEndsARenewal, TestObserverEndsTheMonitor)
//   - A wait ends when its context ends, its retry policy gives up, the Locker is closed, or
//     the server answers with an error that does not pass. Nobody is left waiting for a free
//     lock. No policy gives up before the server was asked. (TestNobodyIsStranded,
//     TestAcquireGivesUpWithTheContext, TestClose, TestWaitersOutliveARestart,
//     TestOutageEndsWithThePolicy, TestOutageAfterALook, TestGivingUpInTheQueueAsksTheServer)
//   - Callers who wait for one key in one Locker get it in the order in which they came.
//     (TestFirstComeFirstServed, TestLeavingTheLine)
//   - Processes that wait for one key, as users with the rights for the queue, get it first come,
//     first served, turn by turn (see WithTurn). They keep this order if messages are lost, late or
//     doubled, and if a process dies. Only a set, or somebody who uses the key without rlock, can
//     overtake them, while the key is free because a lease has ended, the key was deleted, or a set
//     was released. On a cluster, anybody can while the slot of the key moves to another node.
//     (TestQueueAcrossProcesses, TestClusterQueue, TestExplore, TestProcessesShareALock,
//     TestTurnsEnd, TestQueueScripts)
//   - Neither sets nor callers with a token of their own starve while others lock single keys.
//     (TestSetsDoNotStarve, TestCrossSlotSetsDoNotStarve, TestNobodyStarvesOutsideTheQueue)
//   - A message about a grant that comes twice, late or not at all costs time and nothing else.
//     (TestExplore, TestLateGrantOfAHeldLock, TestQueueUnderEverything)
//   - If the key of an automatically extended lock is deleted or replaced, a message of the
//     server tells its holder, long before the next extension. Where the server sends no such
//     messages, the next extension, Verify or Release finds out. (TestLossIsNoticedAtOnce,
//     TestLossIsNoticedByTheExtension, TestLossIsNoticedAfterALostConnection,
//     TestClientOptions)
//   - If somebody else shortens a lease where the server sends such messages, this process
//     extends it at once if the lock is extended automatically. If it is not, but its Context
//     was asked for, this process counts the lease as the server has it. If the change comes
//     in the same moment as an extension of the lock itself, the next extension finds it.
//     (TestShortenedLeaseIsExtendedAtOnce, TestShortenedLeaseBringsTheDeadlineNearer)
//   - A key may have any bytes and any length. Wrong arguments are refused before anything is
//     sent. Nothing panics. (TestAnyBytesAreAKey, TestBadInput, FuzzOptions)
//   - Tokens have 122 random bits. No error, event or log line shows a token, and neither fmt
//     nor slog shows the token of a Lock, a State or a Handoff.
//     (TestTokensAreUnpredictable, TestTokensAreToldToNobody, TestHandoffIsNotPrinted,
//     TestErrorsOfAServerThatQuotesArguments, TestErrorsOfAProxyThatQuotesArguments)
//   - No clock of a client is ever sent. (TestNoClockIsSent)
//
// # What is not guaranteed
//
//   - A failover, a flush, an eviction or a restart without persistence can lose a lock: Redis
//     replicates asynchronously. Two holders are then valid until the first learns of the
//     loss. Use the fence, WithAutoExtend, and a server with noeviction. (TestFailover,
//     TestClusterFailover, TestSplitBrain, TestLossOfAllIsNoticedAtOnce, TestEviction,
//     TestHistories)
//   - Fences rise while the server keeps its data or, if it loses them, while its clock does
//     not go back. A primary that lost its data and whose clock went back issues the same
//     fences again. Two primaries that grant the same key within 65 ms of each other may issue
//     the same fence. (TestFencesSurviveALostCounter, TestFencesRiseAtOnceAfterAFlush,
//     TestServerClockJumps, TestSplitBrainAtOneInstant)
//   - If a server's clock jumps ahead, leases end early. (TestServerClockJumps)
//   - A process can be paused after it has called Valid and before it acts. Only the resource
//     can refuse what then comes too late. (TestHolderIsPaused)
//   - A Check from the cache may be out of date: for as long as the server's message takes to
//     arrive; if a connection died unnoticed, for as long as the client's time-outs or
//     WithCacheTTL, whichever is shorter; if the user has no right to CLIENT CACHING, for up to
//     WithCacheTTL. Probe finds the missing right. (TestCheckAnswersFromTheCache,
//     TestCheckAfterALostConnection, TestCheckOverADeadConnection, TestProbe)
//   - A command of an acquisition that was under way when its process died, or detached the
//     lock, can take the lock once it is free again. Then nobody has a handle of the lock, and
//     it stays locked for a lease. (TestLateAcquireOfTheDead)
//   - Handles that share a token of the caller's (see WithToken) do not know of each other.
//     When one of them releases, the others may stay valid until they learn of it, and a later
//     holder may be valid at the same time. (TestNobodyShortensASharedToken)
//   - Two callers who take the same two locks one after the other, in opposite orders, wait
//     for each other until a lease or a context ends. (TestCrossedLocks)
//
// # Fencing
//
// The resource remembers the largest fence of a write, and refuses writes with a smaller one.
// In SQL, one affected row means that the write was accepted. None means that it came too late:
//
//	UPDATE account SET balance = $1, fence = $2 WHERE id = $3 AND fence <= $2
//
// In Redis, a script with "guard: … fenced by …" in its header takes the lock itself as an
// argument. The generator proves that it writes nothing before it has compared the fences:
//
//	err := scripts.FencedPut(ctx, client, bindings.FencedPutParams{Entry: key, Text: text, Fence: lock})
//	if errors.Is(err, bindings.ErrStaleFence) {
//		// a later holder has written
//	}
//
// Both run as examples in rlock_test/fencing.
package rlock
