// Package env is the environment of the black-box tests. It has:
//
//   - Server processes of Redis and Valkey, on free ports of the loopback interface, in temporary
//     directories. They also form clusters and groups with sentinels.
//   - Proxy, a TCP proxy that breaks the network between a client and a server.
//   - Faulty, a client whose commands a test can hold, lose or answer otherwise.
//   - Functions that many tests share, such as NewLocker, Get, Soon and AwaitEnd.
//
// Everything that a test starts here belongs to this test. It stops in the cleanup of the test's testing.TB.
// If a test binary dies without a cleanup, on Linux the kernel kills its servers. A fault of a server or a
// reply ends the test with a failure, so most functions return no error.
package env
