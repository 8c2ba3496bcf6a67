package peers

import (
	"fmt"
	"math"
	"runtime"
	"slices"
	"strings"
)

// Measures of the chart, in pixels.
const (
	chartWidth, chartHeight = 860, 560
	chartLeft, chartRight   = 70, 210 // beside the plot; names stand on the right
	chartTop, chartBottom   = 84, 72
	nameHeight              = 17
)

// chartLine is the drawing of one library.
type chartLine struct {
	name, label, color, dash string
}

var chartLines = []chartLine{
	{rlockUnfenced, "rlock, no fence", "#1b7837", ""},
	{rlockPlain, "rlock, with fences", "#5aae61", ""},
	{floorCombining, "bare rueidis, combining", "#b8860b", "7 4"},
	{floorName, "bare rueidis", "#555555", "7 4"},
	{redsyncName, "redsync", "#2166ac", ""},
	{rueidisLockName, "rueidislock", "#b2182b", ""},
	{bsmName, "bsm/redislock", "#762a83", ""},
}

// chart draws the throughput of each library against the number of callers. Both scales are
// logarithmic. If a library has several settings, the fastest setting counts at each level. Of the
// rounds of a setting, the fastest round counts: other work on the machine only makes rounds
// slower, and one slow round would bend a line. chart returns "" if the results have fewer than two
// levels.
func (r *results) chart() string {
	levels := r.all(workUncontended)
	if len(levels) < 2 {
		return ""
	}
	type end struct {
		chartLine
		y float64
	}
	var (
		least, most = math.Inf(1), 0.0
		lines       = make([][]float64, len(chartLines))
	)
	for i, line := range chartLines {
		for _, c := range levels {
			rate := 0.0
			if o := c.bestOf(line.name); o != nil {
				rate = o.fastest()
				least, most = min(least, rate), max(most, rate)
			}
			lines[i] = append(lines[i], rate)
		}
	}
	x := scale(float64(levels[0].level), float64(levels[len(levels)-1].level), chartLeft, chartWidth-chartRight)
	y := scale(least*0.85, most*1.15, chartHeight-chartBottom, chartTop)

	var b strings.Builder
	fmt.Fprintf(&b,
		`<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" font-family="sans-serif" font-size="13">`+
			"\n", chartWidth, chartHeight)
	b.WriteString(`<rect width="100%" height="100%" fill="#fff"/>` + "\n<g fill=\"#333\">\n")
	b.WriteString(
		`<text x="16" y="28" font-size="18" font-weight="bold">How many locks a second can one process take and release?</text>` + "\n")
	b.WriteString(
		`<text x="16" y="50">Each caller has locks of its own that nobody else wants. Higher is better.</text>` +
			"\n")
	fmt.Fprintf(&b, `<text x="16" y="%d">locks taken and released a second</text>`+"\n", chartTop-12)
	for _, tick := range ticks(least*0.85, most*1.15) {
		at := y(tick)
		fmt.Fprintf(&b, `<line x1="%d" y1="%.1f" x2="%d" y2="%.1f" stroke="#e2e2e2"/>`, chartLeft, at,
			chartWidth-chartRight, at)
		fmt.Fprintf(&b, `<text x="%d" y="%.1f" text-anchor="end">%s</text>`+"\n", chartLeft-8, at+4,
			thousands(tick))
	}
	for _, c := range levels {
		at := x(float64(c.level))
		fmt.Fprintf(&b, `<line x1="%.1f" y1="%d" x2="%.1f" y2="%d" stroke="#e2e2e2"/>`, at, chartTop, at,
			chartHeight-chartBottom)
		fmt.Fprintf(&b, `<text x="%.1f" y="%d" text-anchor="middle">%s</text>`+"\n", at, chartHeight-chartBottom+20,
			thousands(float64(c.level)))
	}
	fmt.Fprintf(&b, `<text x="%d" y="%d" text-anchor="middle">callers at the same time</text>`+"\n",
		(chartLeft+chartWidth-chartRight)/2, chartHeight-chartBottom+42)
	fmt.Fprintf(&b,
		`<text x="16" y="%d" font-size="11" fill="#777">Both scales are logarithmic. %s; %s, on the same %d processors; the fastest of %d rounds of %v; %s.</text>`+"\n</g>\n",
		chartHeight-8, r.began.Format("2 January 2006"), r.server, runtime.NumCPU(), r.plan.rounds, r.plan.round,
		commit())

	var ends []end
	for i, line := range chartLines {
		var points []string
		last := 0.0
		for n, c := range levels {
			if lines[i][n] == 0 {
				continue
			}
			last = y(lines[i][n])
			points = append(points, fmt.Sprintf("%.1f,%.1f", x(float64(c.level)), last))
		}
		if points == nil {
			continue
		}
		fmt.Fprintf(&b, `<polyline points="%s" fill="none" stroke="%s" stroke-width="2.5" stroke-dasharray="%s"/>`+
			"\n", strings.Join(points, " "), line.color, line.dash)
		for _, point := range points {
			at := strings.Split(point, ",")
			fmt.Fprintf(&b, `<circle cx="%s" cy="%s" r="3.5" fill="%s"/>`, at[0], at[1], line.color)
		}
		b.WriteString("\n")
		ends = append(ends, end{line, last})
	}
	// Names stand at the ends of their lines. Where two ends are too close, one name moves down.
	slices.SortFunc(ends, func(a, b end) int { return int(math.Copysign(1, a.y-b.y)) })
	free := 0.0
	for i := range ends {
		at := max(ends[i].y, free)
		if room := chartHeight - chartBottom - float64((len(ends)-1-i)*nameHeight); at > room {
			at = room
		}
		free = at + nameHeight
		fmt.Fprintf(&b, `<line x1="%d" y1="%.1f" x2="%d" y2="%.1f" stroke="%s"/>`, chartWidth-chartRight+5,
			ends[i].y, chartWidth-chartRight+18, at, ends[i].color)
		fmt.Fprintf(&b, `<text x="%d" y="%.1f" fill="%s" font-weight="bold">%s</text>`+"\n",
			chartWidth-chartRight+22, at+4, ends[i].color, ends[i].label)
	}
	b.WriteString("</svg>\n")
	return b.String()
}

// fastest returns the rate of the fastest round.
func (o *outcome) fastest() float64 {
	best := 0.0
	for _, s := range o.samples {
		best = max(best, s.rate())
	}
	return best
}

// scale returns a logarithmic scale. It has least at from, and most at to.
func scale(least, most, from, to float64) func(float64) float64 {
	return func(v float64) float64 { return from + (to-from)*math.Log(v/least)/math.Log(most/least) }
}

// ticks are 1, 2 and 5 times the powers of ten.
func ticks(least, most float64) (list []float64) {
	for power := math.Pow(10, math.Floor(math.Log10(least))); power <= most; power *= 10 {
		for _, n := range []float64{1, 2, 5} {
			if tick := n * power; tick >= least && tick <= most {
				list = append(list, tick)
			}
		}
	}
	return list
}

// thousands writes a whole number with commas.
func thousands(f float64) string {
	text := fmt.Sprintf("%.0f", f)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}
