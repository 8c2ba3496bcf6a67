// Package oracle compares what the generator says of scripts with what real servers see
// the scripts do.
//
//	make oracle DURATION=1h SEED=1
//
// The oracle writes random programs of the Lua that people write for Redis:
//
//   - commands whose function, name, key and arguments first go through locals, tables,
//     closures, varargs, metatables, methods and dispatch
//   - functions that Lua's library calls, and functions that it must not call
//   - lists of any length, and lists that are stored to by index, with and without gaps
//   - options that stand in a list
//   - channels
//   - commands that the caller chooses
//   - fragments
//
// Some programs have a mistake. Some of these programs also have a waiver for the mistake.
//
// The generator reads all programs. The oracle counts the programs that the generator
// refuses. A program that the generator accepts runs on a server, several times, with
// random arguments. Its user has exactly the rights that -audit prints for the script, on
// exactly the keys that the call names.
//
// An accepted program is a hole in the generator when one of these holds:
//
//   - The server refuses a command or a key, so the audit has not named the command or
//     the key.
//   - A read script changes data, or EVAL_RO refuses the script.
//   - A guarded script changes data for a caller whose token or fence is not good.
//   - The script's value has another type than the header says. A copy of the script
//     describes the value inside the server, before Redis cuts fractions off and drops
//     the values after a nil.
//   - The script gives a table or a function to a command.
//   - The server raises an error that the generator says it excludes: an unknown command,
//     a wrong number of arguments, a global that is unknown or written.
//   - A cached script answers the same data in two ways.
//   - A lease lasts longer than the duration that the call passed for it.
//   - The text that runs differs from the text of the script's files.
//   - The audit does not say what a waiver leaves open. A waiver lifts only the promises
//     that it names.
//
// Some accepted programs also run through the bindings that the generator writes for them,
// with values at the limits of their types. A binding is a hole when one of these holds:
//
//   - The binding sends another word than its type says, or sends what its type refuses.
//   - The binding does not decode an answer, or decodes it to another value.
//   - The user whom the audit describes cannot make the call with a default client.
//
// The oracle also looks at features that many programs without a mistake have in common. A
// feature is a hole when the generator refuses all of these programs.
//
// # The same programs again
//
// The tests of the project try the same programs each time: -oracle.seed is a constant
// unless the caller sets it. The tests try 12,000 programs. If that takes more than five
// minutes, the tests stop after five minutes, but not before 2,000 programs.
//
// make oracle draws a seed from the clock unless SEED is set. Each run prints its seed
// first. Each hole says how to run the 500 programs around it again, which takes seconds.
// Apart from the clock, one thing differs from run to run: the order in which Redis 7.0
// answers the members of a set.
//
// Time can cause some faults, above all on a busy machine: a key expires between two looks
// at the data, so the data changes without the program. Before each look, the oracle makes
// the server remove all expired keys. Three faults may still come from time: changed data,
// two answers to the same data, and a lease that is too long. The oracle repeats a run with
// one of these faults on the same data, up to three times. The fault is a hole if it comes
// again. Else the report shows the fault as seen once. Nothing else depends on time: an
// accepted script must be right whatever has expired.
//
// # The test of the oracle
//
// The oracle runs the generator as a program, as users do, so the oracle depends on nothing
// inside the generator. TestPlanted builds generators with a flaw in them. The oracle must
// find each flaw. To finish within minutes, the search for nearly every flaw begins with a
// program that is known to show the flaw. The generator without the flaw has no hole in
// this program. If the program shows nothing, the search starts at the first program.
package oracle
