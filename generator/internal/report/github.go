package report

import (
	"fmt"
	"io"
	"strings"

	"github.com/rlock-go/toolkit/generator/internal/finding"
)

// In a workflow command, GitHub takes these characters for the end of the message, and in properties also for
// the end of the property.
var (
	inMessage  = strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A")
	inProperty = strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A", ":", "%3A", ",", "%2C")
)

// annotate prints one workflow command for each finding.
func annotate(w io.Writer, findings []finding.Finding) error {
	p := newPlaces()
	for _, f := range findings {
		path, _ := p.path(f.Path)
		_, err := fmt.Fprintf(w, "::error file=%s,line=%d,col=%d,title=%s::%s\n",
			inProperty.Replace(path), f.Line, p.column(f), inProperty.Replace("redislua: "+ruleOf(f)),
			inMessage.Replace(f.Message))
		if err != nil {
			return err
		}
	}
	return nil
}
