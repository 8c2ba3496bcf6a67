// Package metrics tests what a real Prometheus makes of rlockprom, and the alert rules; and what rlockotel
// sends to a collector through OpenTelemetry's own SDK and exporters; and the dashboard, which package
// dashboard makes. TestPictures, behind the build tag pictures, draws it for the documents with the Chromium
// that RLOCK_PICTURES names.
//
// Prometheus is that of Debian bookworm, which engines.sh unpacks as it does the servers. Where it cannot,
// the tests fail. The collector is a server of the tests, which reads OTLP. It is a module of its own,
// because it requires the clients of both.
package metrics
