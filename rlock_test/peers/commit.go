package peers

import (
	"fmt"
	"os/exec"
	"strings"
	"time"
)

// provenance says when, on what and at which commit the run measured the results. It also says how
// long the run took.
func (r *results) provenance() string {
	return fmt.Sprintf("%s The run took %v, at %s.", r.circumstances(), time.Since(r.began).Round(time.Second),
		commit())
}

// commit names the measured commit, if git can tell.
func commit() string {
	head, err := exec.Command("git", "rev-parse", "--short=7", "HEAD").Output()
	if err != nil {
		return "an unknown commit"
	}
	name := "commit " + strings.TrimSpace(string(head))
	// The files that a run writes do not count as a change of the measured code.
	changed, err := exec.Command("git", "status", "--porcelain", "--untracked-files=no", "--", "../..",
		":!"+resultsFile, ":!"+pictureFile, ":!"+chartFile, ":!"+readmeFile, ":!"+goalsFile).Output()
	if err != nil || len(changed) > 0 {
		name += " with changes"
	}
	return name
}
