// # Guarantees
//
// Each statement is followed by the tests that show it. Those of what servers do are in
// rlock_test and run against Redis 7.0, Redis 8 and Valkey 8. FAILURES.md beside this file
// has what is seen when something fails, and rlock_test/chaos, of which TestHistories is,
// looks for counter-examples at random.
//
// While one primary keeps its data, its wall clock does not jump, and keys are left to
// those whose token they have:
//
//   - No two holders of a key are valid at the same time, whatever clients, processes and
//     the network do. (TestHistories, TestSchedules, TestOverlappingSets,
//     TestTokensChangeUnderEverything)
//   - Lock.Valid is false before the server lets another token in, and Lock.Context ends
//     then, as fast as timers are. The lease is counted on the local monotonic clock, from
//     before the command was sent, and ends with no server to ask; clocks may differ in
//     speed by 0.1 %. (TestContextEndsWithTheLease, TestBlackHole, TestReplyAfterTheLease,
//     TestHolderIsPaused)
//   - Fences of a key rise strictly from holder to holder, those of a set with those of
//     its keys. (TestFencesRise, TestSlotGroupsFences, TestHistories)
//   - A holder that dies keeps others out until its lease ends, and no longer: whoever
//     waits does not depend on the server's telling. (TestAcquireTakesOverWhenTheLeaseEnds,
//     TestHolderDies, TestExpiryAmongThousandsOfKeys)
//   - A set is taken whole or not at all, at one instant, in any order of its keys, if it is
//     of one slot (see WithCrossSlot); sets cannot deadlock. (TestAcquireAll,
//     TestOverlappingSets, TestWrongType)
//
// Always:
//
//   - An acquisition that fails leaves nothing behind, or what is being released in the
//     background, for half a minute or its lease: when its context ends midway, when replies
//     are lost, when it loses a race with Close. With a token of the caller's, the rest is
//     left to the lease (see WithToken). (TestContextEndsMidAcquire, TestContextEndsAnywhere, TestLostReplyOnAcquire,
//     TestLostThenRefusedIsCleanedUp, TestLateAcquire, TestCloseDuringAnAcquisition,
//     TestNoCleaningUpWithOnesOwnToken, TestNoFenceLeavesNoLock)
//   - Every command is safe to repeat: a lost reply costs time and nothing else.
//     (TestScripts, TestLostReplyOnAcquire, TestLostReplyOnExtend, TestLostReplyOnRelease,
//     TestLostExtensionIsForgotten, TestShorteningWithoutAnAnswer)
//   - An Extend that returns nil has given the lock a lease of ttl, counted from then, and
//     Lock.Deadline tells it, whatever else is under way for the lock. No command that arrives
//     late shortens a lease, or makes one long again that was shortened. (TestLateExtend,
//     TestExtendBesideARenewal, TestRenewalBesideAShortening, TestLateCommandsLeaveAShortLeaseAlone,
//     TestShorteningIsNoLoss)
//   - A lock that expires while nobody knows whether its lease was shortened leaves no longer
//     lease behind: its keys are freed in the background. (TestShorteningThatIsNeverAnswered)
//   - Once a lock that was detached is attached, nothing that the former process sent or
//     still sends has an effect on it, and nobody else can attach it.
//     (TestLateCommandsOfTheFormerProcess, TestDetachBesideARenewal, TestAttachAgain)
//   - Release, and whatever else is given a token, touches nothing that another token
//     holds. (TestTokensAreComparedWhole, TestReleaseOfALostLock, TestLateCommandsLeaveTheNextHolderAlone)
//   - Release does its work on a context that has ended. (TestReleaseWithAnEndedContext)
//   - A panic or runtime.Goexit in a RetryFunc, an Observer, the function of Do, a context or
//     a hook of the client leaves nothing locked that nobody has a handle of, and nobody
//     waiting in vain. (TestObserverEndsACall, TestRetryFuncEndsACall, TestFunctionOfDoEnds,
//     TestClientAndContextPanic, TestObserverEndsARenewal, TestObserverEndsTheMonitor)
//   - A wait ends with its context, its policy, the Locker, or an error of the server that
//     does not pass; nobody is left waiting for a free lock. (TestNobodyIsStranded,
//     TestAcquireGivesUpWithTheContext, TestClose, TestWaitersOutliveARestart,
//     TestOutageEndsWithThePolicy, TestOutageAfterALook)
//   - Those who wait for one key in one Locker are served in the order in which they came.
//     (TestFirstComeFirstServed, TestLeavingTheLine)
//   - Processes that want one key have it about equally often, and sets do not starve among
//     locks of their single keys. (TestProcessesShareALock, TestSetsDoNotStarve)
//   - A holder of an extended lock learns that its key was deleted or replaced when the
//     server tells, long before it is extended next, and where the server cannot tell when it
//     is extended, verified or released. (TestLossIsNoticedAtOnce, TestLossIsNoticedByTheExtension, TestLossIsNoticedAfterALostConnection,
//     TestClientOptions)
//   - Where the server tells, a lease that somebody else shortens is extended at once, and
//     that of a lock that is not extended, but whose Context was asked for, counts as it is
//     on the server. A change in the same moment as an extension of the lock's own is found
//     by the next one. (TestShortenedLeaseIsExtendedAtOnce,
//     TestShortenedLeaseBringsTheDeadlineNearer)
//   - Keys may have any bytes and be of any length; wrong arguments are refused before
//     anything is sent; nothing panics. (TestAnyBytesAreAKey, TestBadInput, FuzzOptions)
//   - Tokens have 122 random bits. No error, event or log line has one, nor what fmt and slog
//     make of a Lock, a State or a Handoff.
//     (TestTokensAreUnpredictable, TestTokensAreToldToNobody, TestHandoffIsNotPrinted,
//     TestErrorsOfAServerThatQuotesArguments, TestErrorsOfAProxyThatQuotesArguments)
//   - No clock of a client is ever sent. (TestNoClockIsSent)
//
// # What is not guaranteed
//
//   - A failover, a flush, an eviction or a restart without persistence can lose a lock, as
//     Redis replicates asynchronously; two holders are then valid until the first is told.
//     Use the fence, WithAutoExtend, and a server with noeviction. (TestFailover,
//     TestClusterFailover, TestSplitBrain, TestLossOfAllIsNoticedAtOnce, TestEviction,
//     TestHistories)
//   - Fences rise while the server keeps its data or, failing that, its clock. A primary
//     that lost its data and went back in time reissues them; two primaries that grant the
//     same key within 65 ms of each other may issue the same one. (TestFencesSurviveALostCounter,
//     TestFencesRiseAtOnceAfterAFlush, TestServerClockJumps, TestSplitBrainAtOneInstant)
//   - A server's clock that jumps ahead ends leases early. (TestServerClockJumps)
//   - A process can be paused between looking at Valid and acting; only the resource can
//     refuse what comes too late. (TestHolderIsPaused)
//   - A cached Check may be out of date: by the time that a message of the server takes; by
//     the client's time-outs or WithCacheTTL, whichever is shorter, where a connection died
//     unnoticed; by up to WithCacheTTL where the user may not CLIENT CACHING. Probe finds the last.
//     (TestCheckAnswersFromTheCache, TestCheckAfterALostConnection,
//     TestCheckOverADeadConnection, TestProbe)
//   - An acquisition that was under way when its process died, or detached the lock, can take
//     the lock when it is free again; it is then held for a lease by nobody.
//     (TestLateAcquireOfTheDead)
//   - Handles with one token of the caller's (see WithToken) do not know of each other: when one
//     releases, others may be valid until they are told, and so may a later holder.
//     (TestNobodyShortensASharedToken)
//   - Two callers who take two locks one after the other in opposite orders wait for each
//     other until a lease ends or a context does. (TestCrossedLocks)
//
// # Fencing
//
// The resource remembers the largest fence it was written with, and refuses smaller ones.
// In SQL, one row affected means that the write was accepted, none that it came too late:
//
//	UPDATE account SET balance = $1, fence = $2 WHERE id = $3 AND fence <= $2
//
// In Redis, a script that the generator has bound with "guard: … fenced by …" takes the
// lock itself as an argument, and is proved to write nothing before it has compared:
//
//	err := scripts.FencedPut(ctx, client, bindings.FencedPutParams{Entry: key, Text: text, Fence: lock})
//	if errors.Is(err, bindings.ErrStaleFence) {
//		// a later holder has written
//	}
//
// Both run as examples in rlock_test/fencing.
package rlock
