// Package oracle holds what the generator says of scripts against what real servers
// see them do.
//
//	make oracle DURATION=1h SEED=1
//
// It writes random programs of the Lua that people write for Redis: commands whose
// function, name, key and arguments go through locals, tables, closures, varargs,
// metatables, methods and dispatch before they are used; functions that Lua's library calls,
// and that it may not call; lists of any length, and lists that are stored to by index, with
// and without gaps; options that stand in a list; channels; commands that the caller
// chooses; fragments. Some of them have a mistake, and some of those a waiver for it.
// The generator reads all of them. What it refuses is counted. What it accepts runs on
// a server, several times with random arguments, as a user who has exactly the rights
// that -audit prints for the script, on exactly the keys that the call names.
//
// An accepted program is a hole in the generator when
//
//   - the server refuses a command or a key: the audit has not named it
//   - a read script changes data, or EVAL_RO refuses it
//   - a guarded script changes data for somebody whose token or fence is not good
//   - its value is of another type than the header says. A copy of the script
//     describes the value inside the server, before Redis cuts fractions off and drops
//     what follows a nil
//   - a command is given a table or a function
//   - the server raises an error that the generator says it excludes: an unknown
//     command, a wrong number of arguments, a global that is unknown or written
//   - a cached script answers the same data in two ways
//   - a duration that was passed for a lease lasts longer than it should
//   - the text that runs is not what its files say, or the audit does not say what a
//     waiver leaves open; what the waiver does not name must hold all the same
//
// Some of the accepted programs also run through the bindings that the generator writes
// for them, with values at the limits of their types. It is a hole when
//
//   - a binding sends another word than its type says, or sends what its type refuses
//   - an answer is not decoded, or to another value than came
//   - the user whom the audit describes cannot make the call with a default client
//
// It is a hole as well when all of many programs without a mistake that have something in
// common are refused.
//
// # The same programs again
//
// The tests of the project try the same programs each time: -oracle.seed is a constant unless
// it is given. They try 12,000 of them; a machine on which those take more than five minutes
// tries as many as it does in that time, but no fewer than 2,000. make oracle draws a seed
// from the clock. Each run prints its seed first, and each hole says how to run the 500
// programs around it again, which takes seconds. Apart from the clock, one thing differs from
// run to run: the order in which Redis 7.0 answers the members of a set.
//
// Time can cause some faults, on a busy machine above all: data changes without the program
// when a key expires between two looks at it. Before each look, the server is made to take
// away what has expired. A fault that is still of such a kind (changed data, two answers to
// the same data, a lease that is too long) is a hole if it comes again with the same data, in
// one of three repetitions. If it does not, the report shows it as seen once. Nothing else
// depends on time: a script that is accepted must be right whatever has expired.
//
// The generator is run as its users run it, as a program, so that the oracle depends on
// nothing inside it. TestPlanted builds generators with a flaw in them, and must find
// each: that is the test of the oracle. So that it takes minutes, it begins with a program
// of which it knows that it shows the flaw, and in which the generator without the flaw has
// no hole. Where that program shows nothing, it searches from the first.
package oracle
