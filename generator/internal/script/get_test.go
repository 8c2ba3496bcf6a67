package script_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/generator/internal/script"
)

// Only what is certainly the bare command is sent as such.
func TestIsGet(t *testing.T) {
	t.Parallel()
	const key, arg = "-- KEYS[1] a key\n", "-- ARGV[1] b string\n"
	for text, want := range map[string]bool{
		key + "return redis.call('GET', KEYS[1])":                    true,
		key + "return redis.call('get', KEYS[1]) -- the whole of it": true,
		key + "return redis.call(\"Get\",\n  KEYS[1]);":              true,
		key + "return redis.pcall('GET', KEYS[1])":                   false,
		key + "return redis.call('STRLEN', KEYS[1])":                 false,
		key + "return redis.call('GET', KEYS[1]), 1":                 false,
		key + "return {redis.call('GET', KEYS[1])}":                  false,
		key + "return redis.call('GET', KEYS[1]) or 'none'":          false,
		key + "return redis.call('GET', KEYS[2])":                    false,
		key + "return redis.call('GET', ARGV[1])":                    false,
		key + "return redis.call('GET', 'KEYS[1]')":                  false,
		key + "return redis.call('GET', KEYS[1], KEYS[1])":           false,
		key + "return redis.call('GET')":                             false,
		key + "redis.call('GET', KEYS[1])":                           false,
		key + "local redis = {}\nreturn redis.call('GET', KEYS[1])":  false,
		key + arg + "return redis.call('GET', KEYS[1])":              false,
		"-- KEYS[1..] a key\nreturn redis.call('GET', KEYS[1])":      false,
		key + "-- KEYS[2] b key\nreturn redis.call('GET', KEYS[1])":  false,
	} {
		require.False(t, parse("#!lua flags=no-writes\n", text).IsGet(), text)
		require.Equal(t, want, parse("", text).IsGet(), text)
	}
}

func parse(shebang, text string) *script.Script {
	s, _ := script.Parse("x.lua",
		[]byte(shebang+"-- name: X\n-- mode: read cached\n"+text[:len(text)-len(body(text))]+
			"-- returns: string?\n"+body(text)+"\n"))
	return s
}

// body is what follows the header.
func body(text string) string {
	for len(text) > 2 && text[:2] == "--" {
		for text[0] != '\n' {
			text = text[1:]
		}
		text = text[1:]
	}
	return text
}
