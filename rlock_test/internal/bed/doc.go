// Package bed is the test bed of black-box tests against Redis and Valkey:
// real server processes on free ports of the loopback interface, in temporary
// directories, and a TCP proxy that breaks the network between a client and a
// server on demand.
//
// Everything a test starts here belongs to that test: it stops in the cleanup
// of the testing.TB it was started with, and on Linux the kernel also kills
// the server processes of a test binary that dies without a cleanup.
package bed
