package main

import (
	"path/filepath"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/rlock-go/toolkit/rlock"
)

// longestOwner is what package rlock allows, in bytes.
const longestOwner = 256

// validOwner tells whether package rlock takes the text, which it would say only when it has connected.
func validOwner(text string) bool {
	return len(text) <= longestOwner && utf8.ValidString(text) &&
		!strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) })
}

// ownerOf is the owner's text of a lock for a program. Its arguments are not shown: they may have
// secrets.
func ownerOf(program string) string {
	owner := rlock.DefaultOwner()
	if with := owner + ": " + filepath.Base(program); validOwner(with) {
		return with
	}
	return owner
}
