package main

import (
	"io"
	"os"
	"sync"
)

// screen is the last line of a terminal, which changes while one waits.
type screen struct {
	mu    sync.Mutex
	file  *os.File // that has the line; nil: there is none
	drawn bool
}

// eraseLine goes to the beginning of the line and clears it with what is below: a terminal that became
// narrower has broken the line into several.
const eraseLine = "\r\x1b[J"

// draw shows a line in place of the one before. The cursor goes back to where the line begins, so that
// eraseLine clears all of it. Nothing is written from the background: another program has the terminal.
func (s *screen) draw(file *os.File, line func(width int) string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	width, is := terminalWidth(file)
	if !is || inBackground(file) {
		return
	}
	s.file, s.drawn = file, true
	io.WriteString(file, eraseLine+line(width-1)+"\r") // a letter in the last column may begin the next line
}

// erase clears the line for good.
func (s *screen) erase() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.clear()
	s.drawn = false // in the background too: by then the last line of the terminal is another's
}

// above writes what stays, in place of the line.
func (s *screen) above(w io.Writer, text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.clear()
	io.WriteString(w, text)
}

func (s *screen) clear() {
	if s.drawn && !inBackground(s.file) {
		io.WriteString(s.file, eraseLine)
		s.drawn = false
	}
}

// isTerminal tells whether a person is likely to see what is written.
func isTerminal(w io.Writer) bool {
	file, is := w.(*os.File)
	if is {
		_, is = terminalWidth(file)
	}
	return is
}

// usualWidth is the width of a terminal that does not tell its own.
const usualWidth = 80
