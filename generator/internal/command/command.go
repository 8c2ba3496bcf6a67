// Package command knows the commands of a Redis server: their names, words, keys, effects and replies. It
// knows the syntax of each command, and fits the words of a call into the syntax. It does not know scripts,
// and it asks no server.
package command

import "strings"

// Command is one command. If the name has two words, it is a subcommand.
type Command struct {
	Name   string // lower case
	Arity  int    // number of words with the name; -n: n or more
	Flags  Flag
	Keys   []Keys
	Syntax string // of the words after the name
}

// Flag is a set of facts about a command.
type Flag uint8

// The facts about a command.
const (
	Write     Flag = 1 << iota // changes data, or may; PUBLISH and PFCOUNT count as writes in scripts
	NoScript                   // a script must not call it
	Container                  // has subcommands
	// The answer may differ though the data is the same, because of the clock, a random choice or a cursor.
	Random
)

// Keys tells which words of a command are keys. Word 0 is the name.
type Keys struct {
	Access  Access
	Keyword string // the keys are behind this word; empty: they start at First
	First   int    // first key; with NumKeys, the word with their number; with Keyword, where the search starts
	NumKeys bool   // the word at First is the number of keys
	Last    int    // last key, counted from the first key; negative: from the end of the call
	Step    int    // distance between keys
	Limit   int    // with Last -1: only the first 1/Limit of the words are keys, as in XREAD; 0: all
}

type Access uint8

// The ways in which a command uses a key.
const (
	Reads  Access = 1 << iota // reads its value
	Writes                    // changes or removes it
)

// Lookup finds a command by its first word, and a subcommand by its first two. It ignores upper and lower
// case.
func Lookup(name, subcommand string) (Command, bool) {
	name = strings.ToLower(name)
	c, known := commands[name]
	if known && c.Flags&Container != 0 && subcommand != "" {
		c, known = commands[name+" "+strings.ToLower(subcommand)]
	}
	return c, known
}

// Takes reports whether the command takes that many words, with its name.
func (c Command) Takes(words int) bool {
	if c.Arity < 0 {
		return words >= -c.Arity
	}
	return words == c.Arity
}
