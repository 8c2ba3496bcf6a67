package main

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestConnection(t *testing.T) {
	t.Parallel()
	environment := func(rlock, redis string) func(string) string {
		return func(name string) string { return map[string]string{"RLOCK_URL": rlock, "REDIS_URL": redis}[name] }
	}
	c, err := newConnection(environment("redis://a", "redis://b"))
	require.NoError(t, err)
	require.Equal(t, []string{"a:6379"}, c.InitAddress)
	c, err = newConnection(environment(" ", "redis://b:1"))
	require.NoError(t, err)
	require.Equal(t, []string{"b:1"}, c.InitAddress)
	_, err = newConnection(environment("", "redis://b?x=1"))
	require.ErrorContains(t, err, "REDIS_URL: the URL has the unknown option x")
	_, err = newConnection(nowhere)
	require.ErrorContains(t, err, "set RLOCK_URL to redis://")
}

func TestParseURL(t *testing.T) {
	t.Parallel()
	o, err := parseURL("rediss://user:p%40ss%2F@a:1/3?addr=b:2&addr=[::2]:3&dial_timeout=2s")
	require.NoError(t, err)
	require.Equal(t, []string{"a:1", "b:2", "[::2]:3"}, o.InitAddress)
	require.Equal(t, "user p@ss/", o.Username+" "+o.Password)
	require.Equal(t, 3, o.SelectDB)
	require.Equal(t, "a", o.TLSConfig.ServerName)
	require.Equal(t, 2*time.Second, o.Dialer.Timeout)

	o, err = parseURL(
		"valkeys://:primary@s1:26379?addr=s2:26379&master_set=main&sentinel_username=u&sentinel_password=p%26q&db=2")
	require.NoError(t, err)
	require.Equal(t, "main u p&q", o.Sentinel.MasterSet+" "+o.Sentinel.Username+" "+o.Sentinel.Password)
	require.Same(t, o.TLSConfig, o.Sentinel.TLSConfig, "the sentinels speak TLS as well")
	require.Equal(t, "primary", o.Password)

	o, err = parseURL("unix://:secret@/run/redis.sock?db=1")
	require.NoError(t, err)
	require.Equal(t, []string{"/run/redis.sock"}, o.InitAddress)
	require.Equal(t, 1, o.SelectDB)

	o, err = parseURL("redis://[::1]:7?client_cache=0&protocol=2")
	require.NoError(t, err)
	require.Equal(t, []string{"[::1]:7"}, o.InitAddress)
	require.True(t, o.DisableCache && o.AlwaysRESP2)
}

// What is wrong is refused, and no error shows a part of a password.
func TestRefusedURLs(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"localhost:6379":                   "must begin with redis://",
		"10.0.0.1:6379":                    "must begin with redis://",
		":SECRET@h:6379":                   "must begin with redis://",
		"localhost":                        "must begin with redis://",
		"http://h":                         "must begin with redis://",
		"redis://":                         "names no host",
		"redis:///0":                       "names no host",
		"unix://":                          "names no socket",
		"redis://a:1,b:2":                  "several hosts with commas",
		"redis://h/x":                      "invalid database number",
		"redis://h/1/2":                    "invalid URL path",
		"redis://h?db=x":                   "invalid database number",
		"redis://h?dial_timeout=x":         "invalid dial timeout",
		"redis://h?master-set=x":           "unknown option master-set",
		"redis://h?db=1&db=2":              "the option db twice",
		"redis://h?master_set=":            "master_set has no value",
		"redis://h?sentinel_password=x":    "no master_set=NAME",
		"redis://h?addr=b":                 "addr must be HOST:PORT",
		"redis://h?addr=:1":                "addr must be HOST:PORT",
		"redis://h#x":                      "the URL has a #",
		"redis://:SECRET/SECRET@h":         "cannot be read as a URL",
		"redis://:SECRET#SECRET@h":         "cannot be read as a URL",
		"redis://:SECRET?SECRET@h":         "cannot be read as a URL",
		"redis://:SECRET%SECRET@h":         "cannot be read as a URL",
		"redis://u:12/SECRET@h":            "cannot be read as a URL",
		"redis://u:12?SECRET@h":            "cannot be read as a URL",
		"redis://u:12#SECRET@h":            "cannot be read as a URL",
		"redis://u:SECRET@h/SECRET":        "invalid database number",
		"redis://u:SECRET@h:SECRET":        "cannot be read as a URL",
		"redis://u:p@h?write_timeout=\x01": "cannot be read as a URL",
	} {
		_, err := parseURL(text)
		require.ErrorContains(t, err, want, text)
		require.NotContains(t, err.Error(), "SECRET", text)
	}
}

// What is wrong with a password's file or a certificate is refused before anything is sent.
func TestRefusedSecrets(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	password, empty := file("password", "secret"), file("empty", "\n")
	several, gone := file("several", "a\nb\n"), filepath.Join(dir, "gone")
	for want, environment := range map[string]map[string]string{
		"use only one of them":  {"RLOCK_URL": "redis://:SECRET@h", "RLOCK_PASSWORD_FILE": password},
		"empty is empty":        {"RLOCK_PASSWORD_FILE": empty},
		"has several lines":     {"RLOCK_PASSWORD_FILE": several},
		"no such file":          {"RLOCK_PASSWORD_FILE": gone},
		"belong together":       {"RLOCK_TLS_CERT": password},
		"begins with rediss://": {"RLOCK_TLS_CA": password},
		"RLOCK_TLS_CA: open":    {"RLOCK_URL": "rediss://h", "RLOCK_TLS_CA": gone},
		"no certificate in PEM": {"RLOCK_URL": "rediss://h", "RLOCK_TLS_CA": password},
		"RLOCK_TLS_KEY: open":   {"RLOCK_URL": "rediss://h", "RLOCK_TLS_CERT": gone, "RLOCK_TLS_KEY": gone},
	} {
		_, err := newConnection(func(name string) string {
			if name == "RLOCK_URL" && environment[name] == "" {
				return "redis://user@h"
			}
			return environment[name]
		})
		require.ErrorContains(t, err, want)
		require.NotContains(t, err.Error(), "SECRET")
		require.Equal(t, exitFailed, exitCode(err))
	}
	for _, text := range []string{"secret", "secret\n", "secret\r\n"} {
		read, err := passwordIn(file("read", text))
		require.NoError(t, err)
		require.Equal(t, "secret", read)
	}
}
