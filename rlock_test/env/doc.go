// Package env is what the black-box tests run in: server processes of Redis and Valkey on
// free ports of the loopback interface, in temporary directories; clusters and sentinels
// of them; a TCP proxy that breaks the network between a client and a server, and a
// client whose commands a test can hold, lose or answer otherwise (Faulty); and what many
// tests do with locks (NewLocker, Get, Soon, AwaitEnd and so on).
//
// Everything a test starts here belongs to that test: it stops in the cleanup of the
// testing.TB it was started with, and on Linux the kernel also kills the server processes
// of a test binary that dies without a cleanup. What is wrong with a server or a reply
// ends the test with a failure, so that most functions return no error.
package env
