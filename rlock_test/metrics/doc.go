// Package metrics tests what a real Prometheus makes of rlockprom, and the alert rules.
//
// Prometheus is that of Debian bookworm, which engines.sh unpacks as it does the servers. Where it cannot,
// the tests fail. It is a module of its own, because it requires Prometheus's client.
package metrics
