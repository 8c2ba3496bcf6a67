package main

import (
	"errors"
	"net"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"
)

// urlOptions are the options that a URL may have. rueidis would pass over any other, so that a
// slip of the pen would mean another server.
var urlOptions = []string{
	"addr", "client_cache", "client_name", "db", "dial_timeout", "master_set", "max_retries",
	"protocol", "sentinel_password", "sentinel_username", "skip_verify", "write_timeout",
}

const urlForm = "redis://[USER[:PASSWORD]@]HOST[:PORT][/DATABASE][?OPTION=VALUE]; see rlock --help"

// connection says how to connect.
type connection struct {
	rueidis.ClientOption
	certified bool        // there is a certificate of the client
	asked     atomic.Bool // the server has asked for one
}

func (c *connection) addresses() string { return strings.Join(c.InitAddress, ", ") }

// newConnection reads where the server is, and how to get in. No error shows the URL, because it may have a
// password.
func newConnection(getenv func(string) string) (*connection, error) {
	name, text := "RLOCK_URL", strings.TrimSpace(getenv("RLOCK_URL"))
	if text == "" {
		name, text = "REDIS_URL", strings.TrimSpace(getenv("REDIS_URL"))
	}
	if text == "" {
		return nil, failure(exitFailed, "neither RLOCK_URL nor REDIS_URL is set; set RLOCK_URL to %s", urlForm)
	}
	option, err := parseURL(text)
	if err != nil {
		return nil, failure(exitFailed, "%s: %w", name, err)
	}
	c := &connection{ClientOption: option}
	for _, read := range []func(func(string) string) error{c.readPassword, c.readCertificates} {
		if err := read(getenv); err != nil {
			return nil, &exit{exitFailed, err}
		}
	}
	return c, nil
}

// parseURL is rueidis.ParseURL for what it understands, and refuses what it would pass over.
func parseURL(text string) (option rueidis.ClientOption, err error) {
	schemes := []string{"redis", "rediss", "valkey", "valkeys", "unix"}
	scheme, _, found := strings.Cut(text, "://") // url.Parse takes the host of localhost:6379 for a scheme
	if !found || !slices.Contains(schemes, strings.ToLower(scheme)) {
		return option, errors.New("the URL must begin with redis://, rediss:// or unix://; the form is " + urlForm)
	}
	u, err := url.Parse(text)
	if err != nil || u.Opaque != "" || strings.Contains(u.Path+u.RawQuery+u.Fragment, "@") {
		return option,
			errors.New("the text cannot be read as a URL, and is not shown because it may have a password; " +
				"write / # ? @ and % in a user or password as %2F %23 %3F %40 and %25; the form is " + urlForm)
	}
	switch {
	case u.Scheme == "unix" && u.Path == "":
		return option, errors.New("the URL names no socket; the form is unix:///PATH/OF/SOCKET")
	case u.Scheme != "unix" && u.Host == "":
		return option, errors.New("the URL names no host; the form is " + urlForm)
	case strings.Contains(u.Host, ","):
		return option,
			errors.New("the URL has several hosts with commas; write one host, and the others as " +
				"?addr=HOST:PORT&addr=HOST:PORT")
	case u.Fragment != "":
		return option, errors.New("the URL has a #; in a user or password write %23")
	}
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return option,
			errors.New("the options of the URL cannot be read; the form is ?OPTION=VALUE&OPTION=VALUE, " +
				"with % as %25 and ; as %3B")
	}
	for name, values := range query {
		switch {
		case !slices.Contains(urlOptions, name):
			return option,
				errors.New("the URL has the unknown option " + quote(name) + "; the options are " +
					strings.Join(urlOptions, ", "))
		case len(values) > 1 && name != "addr":
			return option, errors.New("the URL has the option " + name + " twice")
		case slices.Contains(values, "") && name != "skip_verify":
			return option, errors.New("the option " + name + " has no value")
		}
	}
	if (query.Has("sentinel_username") || query.Has("sentinel_password")) && !query.Has("master_set") {
		return option,
			errors.New("the URL has a user or password for sentinels, but no master_set=NAME; add it if " +
				"the addresses are those of sentinels")
	}
	for _, address := range query["addr"] { // of which rueidis would make the first host
		if host, port, err := net.SplitHostPort(address); err != nil || host == "" || port == "" {
			return option, errors.New("the option addr must be HOST:PORT")
		}
	}
	option, err = rueidis.ParseURL(text)
	if err != nil { // of the database, a time or a flag: "redis: invalid dial timeout: "…"
		what, _, _ := strings.Cut(strings.TrimPrefix(err.Error(), "redis: "), ": ")
		return option, errors.New(what + "; the form is " + urlForm)
	}
	option.Sentinel.Username, option.Sentinel.Password = query.Get("sentinel_username"),
		query.Get("sentinel_password")
	option.Sentinel.TLSConfig, option.Sentinel.Dialer = option.TLSConfig, option.Dialer
	option.ClusterOption.ShardsRefreshInterval = refreshInterval
	return option, nil
}

// refreshInterval is how often a client of a cluster asks where the slots are, while CMD runs. A
// failover takes a cluster longer than that by itself.
const refreshInterval = 5 * time.Second
