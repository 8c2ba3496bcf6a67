package rlocktest

import (
	"strings"
)

const errSyntax = "ERR syntax error"

// client runs the subcommands of CLIENT that miniredis lacks. It returns false for others.
func (t *tracker) client(c *conn, args []string) bool {
	if len(args) == 0 {
		return false
	}
	reply := ""
	switch sub, args := strings.ToUpper(args[0]), args[1:]; sub {
	case "TRACKING":
		reply = t.setTracking(c, args)
	case "CACHING":
		reply = t.setCaching(c, args)
	case "SETINFO", "NO-EVICT", "NO-TOUCH":
	default:
		return false
	}
	if reply == "" {
		c.peer.WriteOK()
	} else {
		c.peer.WriteError(reply)
	}
	return true
}

// setTracking is CLIENT TRACKING. It returns the error, or "".
func (t *tracker) setTracking(c *conn, args []string) string {
	m, fault := parseMode(args)
	if fault != "" {
		return fault
	}
	t.mu.Lock()
	c.mode = m
	if !m.on || m.broadcast {
		t.unread(c)
	}
	t.mu.Unlock()
	c.caching = ""
	if m.broadcast {
		t.expectBroadcast(c.db, t.redis.DB(c.db).Keys())
	}
	return ""
}

func parseMode(args []string) (m mode, fault string) {
	if len(args) == 0 {
		return m, "ERR wrong number of arguments for 'client|tracking' command"
	}
	switch strings.ToUpper(args[0]) {
	case "ON":
		m.on = true
	case "OFF":
	default:
		return m, errSyntax
	}
	for rest := args[1:]; len(rest) > 0; rest = rest[1:] {
		switch strings.ToUpper(rest[0]) {
		case "OPTIN":
			m.optIn = true
		case "OPTOUT":
			m.optOut = true
		case "BCAST":
			m.broadcast = true
		case "NOLOOP":
			m.noLoop = true
		case "PREFIX":
			if len(rest) == 1 {
				return m, errSyntax
			}
			m.prefixes = append(m.prefixes, rest[1])
			rest = rest[1:]
		case "REDIRECT":
			return m, "ERR REDIRECT is not supported by this server"
		default:
			return m, errSyntax
		}
	}
	switch {
	case !m.on:
		return mode{}, ""
	case len(m.prefixes) > 0 && !m.broadcast:
		return m, "ERR PREFIX option requires BCAST mode to be enabled"
	case m.broadcast && (m.optIn || m.optOut):
		return m, "ERR OPTIN and OPTOUT are not compatible with BCAST"
	case m.optIn && m.optOut:
		return m, "ERR You can't specify both OPTIN mode and OPTOUT mode"
	}
	return m, ""
}

// setCaching is CLIENT CACHING. It returns the error, or "".
func (t *tracker) setCaching(c *conn, args []string) string {
	if len(args) != 1 {
		return "ERR wrong number of arguments for 'client|caching' command"
	}
	t.mu.Lock()
	m := c.mode
	t.mu.Unlock()
	answer := strings.ToUpper(args[0])
	switch {
	case !m.on:
		return "ERR CLIENT CACHING can be called only when the client is in tracking mode with OPTIN or OPTOUT " +
			"mode enabled"
	case answer == "YES" && !m.optIn:
		return "ERR CLIENT CACHING YES is only valid when tracking is enabled in OPTIN mode."
	case answer == "NO" && !m.optOut:
		return "ERR CLIENT CACHING NO is only valid when tracking is enabled in OPTOUT mode."
	case answer != "YES" && answer != "NO":
		return errSyntax
	}
	c.caching = answer
	return ""
}
