// Package audit tells a reader what each script is and what it touches.
package audit

import (
	"fmt"
	"io"
	"strings"

	"github.com/rlock-go/toolkit/generator/internal/emit"
	"github.com/rlock-go/toolkit/generator/internal/script"
)

// Write prints one paragraph for every script.
func Write(w io.Writer, scripts []*script.Script) error {
	for i, s := range scripts {
		sum1, sum256 := emit.Sums(s.Source)
		if i > 0 {
			fmt.Fprintln(w)
		}
		rows := [][2]string{
			{"mode", s.Mode.String()},
			{"keys", entries("KEYS", s.Keys)},
			{"arguments", entries("ARGV", s.Args)},
			{"sha1", sum1},
			{"sha256", sum256},
		}
		for _, waiver := range s.Waivers {
			rows = append(rows, [2]string{"waives", waiver.Rule + ": " + waiver.Reason})
		}
		fmt.Fprintf(w, "%s (%s)\n", s.Name, s.Base)
		for _, row := range rows {
			if _, err := fmt.Fprintf(w, "  %-10s %s\n", row[0], row[1]); err != nil {
				return err
			}
		}
	}
	return nil
}

func entries(table string, list []script.Param) string {
	if len(list) == 0 {
		return "none"
	}
	var parts []string
	for _, p := range list {
		part := table + p.String() + " " + p.Name
		if table == "ARGV" {
			part += " " + p.Type.String()
		}
		parts = append(parts, part)
	}
	return strings.Join(parts, ", ")
}
