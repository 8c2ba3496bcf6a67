// Package command knows the commands of a Redis server: what they are called,
// how many words they take, whether they write, and which words are keys.
package command

import "strings"

// Command is one command, or one subcommand where the name has two words.
type Command struct {
	Name   string // lower case
	Arity  int    // words with the name; -n: n or more
	Flags  Flag
	Keys   []Keys
	Syntax string // of the words behind the name
}

// Flag is a set of facts about a command.
type Flag uint8

// The facts that the generator asks about.
const (
	Write     Flag = 1 << iota // changes data, or may: PUBLISH and PFCOUNT count in scripts
	NoScript                   // refused inside a script
	Container                  // has subcommands
	// the answer may differ though the data does not: the clock, a random pick, a cursor
	Random
)

// Keys tells where a command's keys stand. Word 0 is the name.
type Keys struct {
	Access  Access
	Keyword string // the keys are searched behind this word; empty: they start at First
	First   int    // first key; with NumKeys, the word that counts them; with Keyword, where the search starts
	NumKeys bool   // the word at First says how many keys follow
	Last    int    // last key, counted from the first; negative: from the end of the call
	Step    int    // distance between keys
	Limit   int    // with Last -1: only the first 1/Limit of the words are keys, as of XREAD; 0: all
}

// Access is what a command does to a key.
type Access uint8

// The ways to use a key.
const (
	Reads  Access = 1 << iota // its value is read
	Writes                    // it is changed or removed
)

// Lookup finds a command by its first word, and a subcommand by its first two.
// Names are matched without regard to case.
func Lookup(name, subcommand string) (Command, bool) {
	name = strings.ToLower(name)
	c, known := commands[name]
	if known && c.Flags&Container != 0 && subcommand != "" {
		c, known = commands[name+" "+strings.ToLower(subcommand)]
	}
	return c, known
}

// Takes reports whether the command takes that many words, its name included.
func (c Command) Takes(words int) bool {
	if c.Arity < 0 {
		return words >= -c.Arity
	}
	return words == c.Arity
}
