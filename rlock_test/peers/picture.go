package peers

import (
	"fmt"
	"html"
	"strings"
)

// bars is a picture of how much of something each driver does: one group of bars for
// each comparison, as shares of the longest bar in the group.
type bars struct {
	title  string
	groups []barGroup
}

type barGroup struct {
	title string
	bars  []bar
}

type bar struct {
	name  string
	value float64
	label string
	ours  bool
}

const (
	barHeight  = 18
	barLength  = 420
	nameWidth  = 190
	labelWidth = 110
	groupGap   = 34
)

// svg draws the bars. It has no scripts and no fonts of its own, and is legible on light
// and dark pages.
func (p bars) svg() string {
	var b strings.Builder
	y := 40
	for _, g := range p.groups {
		fmt.Fprintf(&b, `<text class="g" x="0" y="%d">%s</text>`+"\n", y, html.EscapeString(g.title))
		y += 10
		longest := 0.0
		for _, one := range g.bars {
			longest = max(longest, one.value)
		}
		for _, one := range g.bars {
			class := "peer"
			if one.ours {
				class = "ours"
			}
			length := 0.0
			if longest > 0 {
				length = one.value / longest * barLength
			}
			fmt.Fprintf(&b, `<text x="%d" y="%d" text-anchor="end">%s</text>`, nameWidth-8, y+13, html.EscapeString(one.name))
			fmt.Fprintf(&b, `<rect class="%s" x="%d" y="%d" width="%.1f" height="%d"/>`, class, nameWidth, y, max(length, 1), barHeight-4)
			fmt.Fprintf(&b, `<text x="%.1f" y="%d">%s</text>`+"\n", nameWidth+length+6, y+13, html.EscapeString(one.label))
			y += barHeight
		}
		y += groupGap
	}
	return fmt.Sprintf(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" role="img">
<title>%s</title>
<style>
svg { background: #fff; font: 12px sans-serif; fill: #222 }
.g { font-weight: bold }
.ours { fill: #1a6fb0 }
.peer { fill: #b8bec6 }
</style>
<text class="g" x="0" y="16" font-size="14">%s</text>
%s</svg>
`, nameWidth+barLength+labelWidth, y-groupGap+10, html.EscapeString(p.title), html.EscapeString(p.title), b.String())
}

// rates is the group of a comparison: acquisitions per second.
func (c comparison) rates() barGroup {
	g := barGroup{title: c.title() + ": per second"}
	for _, o := range c.outcomes {
		rate := o.median((*sample).rate)
		label := short(rate)
		if o.hung() {
			label = "hung"
		}
		g.bars = append(g.bars, bar{name: o.name, value: rate, label: label, ours: !o.peer && o.name != "floor"})
	}
	return g
}
