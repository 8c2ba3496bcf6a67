package output

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var mark = "// " + Header("x") + "\n"

// tree returns all files below dir with what is in them.
func tree(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	require.NoError(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		files[filepath.ToSlash(path[len(dir)+1:])] = string(text)
		return err
	}))
	return files
}

func put(t *testing.T, path, text string) {
	t.Helper()
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o777))
	require.NoError(t, os.WriteFile(path, []byte(text), 0o666))
}

// When a change fails, those before it are taken back: replaced files have their old
// text, new ones are gone, removed ones are there.
func TestApplyMakesAllChangesOrNone(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	put(t, filepath.Join(dir, "changed.go"), mark+"old")
	put(t, filepath.Join(dir, "removed.go"), mark+"gone")
	files := []File{
		{Name: "changed.go", Text: []byte(mark + "new")},
		{Name: "new.go", Text: []byte(mark + "new")},
		{Name: "way.go", Text: []byte(mark + "new")},
	}
	changes, err := Changes(dir, files)
	require.NoError(t, err)
	require.Len(t, changes, 4)

	// What was not there when the files were compared is in the way now.
	put(t, filepath.Join(dir, "way.go", "inner"), "x")
	before := tree(t, dir)
	require.Error(t, Apply(dir, changes))
	require.Equal(t, before, tree(t, dir))

	require.NoError(t, os.RemoveAll(filepath.Join(dir, "way.go")))
	require.NoError(t, Apply(dir, changes))
	require.Equal(t, map[string]string{"changed.go": mark + "new", "new.go": mark + "new",
		"way.go": mark + "new"}, tree(t, dir))
	changes, err = Changes(dir, files)
	require.NoError(t, err)
	require.Empty(t, changes)
}

// A directory that a killed run has left is in nobody's way, and goes when that run
// must be over.
func TestApplySweeps(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	recent, old := filepath.Join(dir, stagePrefix+"1"), filepath.Join(dir, stagePrefix+"2")
	put(t, filepath.Join(recent, "new-0"), mark)
	put(t, filepath.Join(old, "new-0"), mark)
	yesterday := time.Now().Add(-24 * time.Hour)
	require.NoError(t, os.Chtimes(old, yesterday, yesterday))

	changes, err := Changes(dir, []File{{Name: "a.go", Text: []byte(mark)}})
	require.NoError(t, err)
	require.Len(t, changes, 1)
	require.NoError(t, Apply(dir, changes))
	require.Equal(t, map[string]string{"a.go": mark, stagePrefix + "1/new-0": mark}, tree(t, dir))
}

// Where A and a are one file, a script that changed its name this way keeps its code.
func TestSameFileIsNoOrphan(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	put(t, filepath.Join(dir, "foo.lua.go"), mark)
	require.NoError(t, os.Link(filepath.Join(dir, "foo.lua.go"), filepath.Join(dir, "Foo.lua.go")))
	changes, err := Changes(dir, []File{{Name: "Foo.lua.go", Text: []byte(mark)}})
	require.NoError(t, err)
	require.Empty(t, changes)
}
