package main

import "os"

// terminalWidth returns the usual width of a console, and false for any other file.
func terminalWidth(file *os.File) (width int, is bool) {
	about, err := file.Stat()
	return usualWidth, err == nil && about.Mode()&os.ModeCharDevice != 0
}

func inBackground(*os.File) bool { return false }
