package peers

import (
	"fmt"
	"os/exec"
	"strings"
	"time"
)

// provenance says of what the results are, and for how long they were measured.
func (r *results) provenance() string {
	return fmt.Sprintf("%s The run took %v, at %s.", r.circumstances(), time.Since(r.began).Round(time.Second),
		commit())
}

// commit names the commit that is measured, where git can tell.
func commit() string {
	head, err := exec.Command("git", "rev-parse", "--short=7", "HEAD").Output()
	if err != nil {
		return "an unknown commit"
	}
	name := "commit " + strings.TrimSpace(string(head))
	// What a run writes itself is no change of what it measures.
	changed, err := exec.Command("git", "status", "--porcelain", "--untracked-files=no", "--", "../..",
		":!"+resultsFile, ":!"+pictureFile, ":!"+chartFile, ":!"+readmeFile, ":!"+goalsFile).Output()
	if err != nil || len(changed) > 0 {
		name += " with changes"
	}
	return name
}
