// Package servercheck lets a server compile the scripts, because only the server knows every limit of its
// compiler. It runs no script.
package servercheck

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/redis/rueidis"

	"github.com/rlock-go/toolkit/generator/internal/finding"
	"github.com/rlock-go/toolkit/generator/internal/script"
)

// Rule is the rule of all findings of this package.
var Rule = finding.Rule{Name: "server", Demand: "the server compiles the script"}

// compiling finds the line number in a server's error.
var compiling = regexp.MustCompile(`(?:user_script|@user_script|<string>):(\d+): (.*)$`)

// Run loads every script into the server at addr, which is host:port or a redis:// URL. It returns the
// server's errors as findings. The scripts stay in the server's cache.
func Run(ctx context.Context, addr string, scripts []*script.Script) ([]finding.Finding, error) {
	option := rueidis.ClientOption{InitAddress: []string{addr}}
	if strings.Contains(addr, "://") {
		parsed, err := rueidis.ParseURL(addr)
		if err != nil {
			return nil, fmt.Errorf("-redis: %w", err)
		}
		option = parsed
	}
	option.ForceSingleClient, option.DisableCache = true, true
	client, err := rueidis.NewClient(option)
	if err != nil {
		return nil, fmt.Errorf("-redis: %w", err)
	}
	defer client.Close()

	var findings []finding.Finding
	for _, s := range scripts {
		err := client.Do(ctx, client.B().ScriptLoad().Script(s.Source).Build()).Error()
		complaint, ok := rueidis.IsRedisErr(err)
		switch {
		case err == nil:
		case ok:
			findings = append(findings, place(s, complaint.Error()))
		default:
			return nil, fmt.Errorf("-redis: %s: %w", s.Path, err)
		}
	}
	return findings, nil
}

func place(s *script.Script, complaint string) finding.Finding {
	pos := script.Pos{Line: 1, Column: 1}
	if m := compiling.FindStringSubmatch(complaint); m != nil {
		pos.Line, _ = strconv.Atoi(m[1])
		complaint = m[2]
	}
	f := s.Findf(pos, "the server refuses it: %s; write what it takes, or do without -redis if another server "+
		"is meant", complaint)
	f.Rule = Rule.Name
	return f
}
