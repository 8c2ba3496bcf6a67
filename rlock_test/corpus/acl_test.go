package corpus_test

import (
	"context"
	"crypto/sha1"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/rlock_test/env"
)

// audited is what these tests need of the generator's audit.
type audited struct {
	Name string `json:"name"`
	SHA1 string `json:"sha1"`
	Args []struct {
		Name string `json:"name"`
		Type string `json:"type"`
	} `json:"arguments"`
	Keys []struct {
		Name string `json:"name"`
	} `json:"keys"`
	ACL   []string `json:"acl"`
	Whole bool     `json:"acl_whole"`
}

func audits(t *testing.T) []audited {
	t.Helper()
	command := exec.CommandContext(t.Context(), "go", "run", "../../generator/redislua", "-scripts", "lua",
		"-audit", "-json")
	text, err := command.Output()
	require.NoError(t, err)
	var scripts []audited
	require.NoError(t, json.Unmarshal(text, &scripts))
	require.NotEmpty(t, scripts)
	return scripts
}

// Every script does what its header says as a user of its own, who has no right but
// those of the rule that the audit gives, on the keys and channels of the call.
func TestScenariosUnderTheirRules(t *testing.T) {
	t.Parallel()
	scripts := audits(t)
	env.Each(t, func(t *testing.T, engine env.Engine) {
		t.Parallel()
		server := engine.Start(t)
		router := &router{Client: server.Client(t), option: server.Option(), users: map[string]*user{}}
		t.Cleanup(router.closeUsers)
		waived := 0
		for _, s := range scripts {
			if !s.Whole {
				waived++
				continue // its waiver says that nobody knows what it needs
			}
			u := &user{script: s}
			router.users[s.SHA1] = u
			if slices.Contains(s.ACL, "+client|caching") && !slices.Contains(s.ACL, "+eval_ro") {
				router.gets = append(router.gets, u)
			}
		}
		require.Less(t, waived, 4, "too few scripts have a whole rule")
		runScenarios(t, router, true)
		if filtered() {
			return
		}
		for _, u := range router.users {
			require.NotNil(t, u.client, "%s has not been called", u.script.Name)
		}
	})
}

// router sends every call of a script as the script's user, and all else as the owner.
type router struct {
	rueidis.Client
	option rueidis.ClientOption
	users  map[string]*user // by SHA1
	gets   []*user          // of scripts that are cached as GET
}

func (r *router) closeUsers() {
	for _, u := range r.users {
		if u.client != nil {
			u.client.Close()
		}
	}
}

// user may call one script.
type user struct {
	script audited
	mu     sync.Mutex // of its rights, from a call's start to its end
	client rueidis.Client
}

// user returns the user of a call; nil: the owner.
func (r *router) user(words []string) *user {
	switch words[0] {
	case "EVALSHA":
		return r.users[words[1]]
	case "EVAL", "EVAL_RO":
		sum := sha1.Sum([]byte(words[1]))
		return r.users[hex.EncodeToString(sum[:])]
	}
	return nil
}

var placeholder = regexp.MustCompile(`^([~&])<(.*)>$`)

// allow gives the user the rights of its rule, about the keys and channels of calls.
func (r *router) allow(ctx context.Context, u *user, calls ...[]string) error {
	values := map[string][]string{}
	for _, words := range calls {
		n, err := strconv.Atoi(words[2])
		if err != nil {
			return err
		}
		keys, args := words[3:3+n], words[3+n:]
		for i, key := range keys {
			name := u.script.Keys[min(i, len(u.script.Keys)-1)].Name
			values[name] = append(values[name], key)
		}
		for i, arg := range args {
			if i < len(u.script.Args) && strings.HasPrefix(u.script.Args[i].Type, "channel") && arg != "" {
				values[u.script.Args[i].Name] = append(values[u.script.Args[i].Name], arg)
			}
		}
	}
	rule := r.B().Arbitrary("ACL", "SETUSER", u.script.Name, "reset", "on", ">secret")
	for _, word := range u.script.ACL {
		m := placeholder.FindStringSubmatch(word)
		if m == nil {
			rule = rule.Args(word)
			continue
		}
		for _, value := range values[m[2]] {
			rule = rule.Args(m[1] + strings.ReplaceAll(value, " ", "?")) // a rule has no spaces
		}
	}
	if err := r.Client.Do(ctx, rule.Build()).Error(); err != nil || u.client != nil {
		return err
	}
	option := r.option
	option.Username, option.Password = u.script.Name, "secret"
	client, err := rueidis.NewClient(option)
	if err != nil {
		return fmt.Errorf("the rule of %s does not let a client connect: %w", u.script.Name, err)
	}
	u.client = client
	return nil
}

func (r *router) Do(ctx context.Context, cmd rueidis.Completed) rueidis.RedisResult {
	return r.DoMulti(ctx, cmd)[0]
}

func (r *router) DoMulti(ctx context.Context, cmds ...rueidis.Completed) []rueidis.RedisResult {
	u := r.user(cmds[0].Commands())
	if u == nil {
		return r.Client.DoMulti(ctx, cmds...)
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	var calls [][]string // of one script, as a batch is
	for _, cmd := range cmds {
		calls = append(calls, cmd.Commands())
	}
	if err := r.allow(ctx, u, calls...); err != nil {
		return slices.Repeat([]rueidis.RedisResult{rueidis.NewErrorResult(err)}, len(cmds))
	}
	return u.client.DoMulti(ctx, cmds...)
}

func (r *router) DoCache(ctx context.Context, cmd rueidis.Cacheable, ttl time.Duration) rueidis.RedisResult {
	words := cmd.Commands()
	u := r.user(words)
	if words[0] == "GET" { // of one of these scripts, which are alike
		u, words = r.gets[0], []string{"EVAL_RO", "", "1", words[1]}
	}
	if u == nil {
		return r.Client.DoCache(ctx, cmd, ttl)
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if err := r.allow(ctx, u, words); err != nil {
		return rueidis.NewErrorResult(err)
	}
	return u.client.DoCache(ctx, cmd, ttl)
}
