// Package metrics has three kinds of tests. The first run a real Prometheus on rlockprom and on the
// alert rules. The second collect what rlockotel sends through OpenTelemetry's own SDK and
// exporters. The third check the dashboard that package dashboard makes. TestPictures, behind the
// build tag pictures, draws the dashboard for the documents. It uses the Chromium that
// RLOCK_PICTURES names.
//
// The Prometheus is the one of Debian bookworm. engines.sh unpacks it like the servers. The tests
// fail where engines.sh cannot unpack it. The collector is a server of the tests that reads OTLP.
// The package is a module of its own, because it requires the clients of both systems.
package metrics
