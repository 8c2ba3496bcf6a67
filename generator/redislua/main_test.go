package main

import (
	"flag"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

var update = flag.Bool("update", false, "rewrite the expected texts in testdata")

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"redislua": main})
}

// Every behaviour of the command is a script in testdata; the files it needs and
// the texts it expects stand below its commands.
func TestGenerator(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:           "testdata",
		UpdateScripts: *update,
	})
}
