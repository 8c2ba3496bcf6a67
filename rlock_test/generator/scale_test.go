package generator

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// shelf writes one of many scripts: they differ in mode, entries, types, reply and
// body, as the scripts of a large program do.
func shelf(i int) string {
	head, body := "-- Does the work of a large program, in its own way.\n--\n", ""
	switch i % 4 {
	case 0:
		head += "-- mode: write retryable\n-- KEYS[1] item key  what it is about\n-- ARGV[1] value string  the " +
			"new one\n-- ARGV[2] ttl duration?\n-- returns: ok\n"
		body = "if ARGV[2] == '' then\n  return redis.call('SET', KEYS[1], ARGV[1])\nend\nreturn " +
			"redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])\n"
	case 1:
		head += "-- mode: read cached\n-- KEYS[1] item key\n-- returns: string?\n"
		body = "return redis.call('GET', KEYS[1])\n"
	case 2:
		head += "-- mode: write\n-- guard: KEYS[1] held by ARGV[1]\n-- KEYS[1] lock key\n-- KEYS[2..] items " +
			"key\n-- ARGV[1] token string\n-- ARGV[2..] values int\n" +
			"-- returns: done int, counts []int, names map[string]string\n-- errors: NOT_HELD\n"
		body = "if redis.call('GET', KEYS[1]) ~= ARGV[1] then\n  return redis.error_reply('NOT_HELD')\nend\nlocal " +
			"counts = {}\nfor i = 2, #KEYS do\n" +
			"  counts[#counts + 1] = redis.call('INCRBY', KEYS[i], ARGV[i])\nend\nreturn {#counts, counts, " +
			"redis.call('HGETALL', KEYS[1])}\n"
	default:
		head += "-- mode: read\n-- KEYS[1..] items key\n-- returns: sum int, at time, parts []string?\n"
		body = "local parts, sum = {}, 0\nfor i, item in ipairs(KEYS) do\n  parts[i] = redis.call('GET', item)\n  " +
			"sum = sum + (tonumber(parts[i]) or 0)\nend\n" +
			"return {sum, redis.call('TIME')[1] * 1000, parts}\n"
	}
	return head + fmt.Sprintf("-- name: Script%d\nlocal number = %d\n", i, i) + body
}

// state tells the files of a directory with their times.
func state(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	require.NoError(t, filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		info, err := entry.Info()
		if err == nil {
			files[path] = fmt.Sprint(info.ModTime().UnixNano(), info.Size(), info.Mode())
		}
		return err
	}))
	return files
}

// A large program's scripts take a second, and less to see that nothing has
// changed.
func TestThousandScripts(t *testing.T) {
	t.Parallel()
	const scripts = 1000
	const bound = 15 * time.Second // of processor time: many times what it takes
	dir := t.TempDir()
	lua, out, binary := filepath.Join(dir, "lua"), filepath.Join(dir, "bindings"),
		filepath.Join(dir, "redislua.exe")
	require.NoError(t, os.Mkdir(lua, 0o777))
	for i := range scripts {
		require.NoError(t, os.WriteFile(filepath.Join(lua, fmt.Sprintf("script_%04d.lua", i)), []byte(shelf(i)),
			0o666))
	}
	_, stderr, err := run(t, root, nil, "build", "-o", binary, "./generator/redislua")
	require.NoError(t, err, stderr)

	generate := func(more ...string) string {
		t.Helper()
		generator := exec.CommandContext(t.Context(), binary,
			append([]string{"-scripts", lua, "-out", out}, more...)...)
		printed, err := generator.CombinedOutput()
		require.NoError(t, err, "%s", printed)
		took := generator.ProcessState.UserTime() + generator.ProcessState.SystemTime()
		t.Logf("%d scripts, %q: %v", scripts, more, took.Round(time.Millisecond))
		require.Less(t, took, bound)
		return string(printed)
	}
	// and scripts.go, AUDIT.md
	require.Contains(t, generate("-v"), "1000 scripts, 2002 files changed\n")
	before := state(t, out)
	require.Len(t, before, 2*scripts+2)
	require.Equal(t, "1000 scripts, 0 files changed\n", generate("-v"))
	require.Empty(t, generate("-check"))
	require.Equal(t, before, state(t, out))

	// One changed script changes its own file and those that name its sums.
	path := filepath.Join(lua, "script_0500.lua")
	require.NoError(t, os.WriteFile(path, []byte(shelf(500)+"-- changed\n"), 0o666))
	// script_0500.lua, script_0500.lua.go, AUDIT.md
	require.Contains(t, generate("-v"), "1000 scripts, 3 files changed\n")
	after, changed := state(t, out), 0
	for name, was := range before {
		if after[name] != was {
			changed++
		}
	}
	require.Equal(t, 3, changed)
	require.Len(t, after, len(before))
}
