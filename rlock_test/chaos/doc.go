// Package chaos tests.
package chaos
