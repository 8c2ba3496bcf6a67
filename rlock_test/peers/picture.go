package peers

import (
	"fmt"
	"strings"
)

// Measures of the picture, in pixels.
const (
	labelWidth = 150
	barWidth   = 500
	barHeight  = 18
	headHeight = 34
	width      = labelWidth + barWidth + 90
)

// picture draws the README's figures as bars. The floor is beside them where it takes part. The
// fastest of each group has the longest bar.
func (s sheet) picture() string {
	var body strings.Builder
	y := 44
	for _, f := range figuresShown {
		var (
			bars []row
			most float64
		)
		for _, name := range append([]string{floorName}, shown...) {
			if r := s.find(f.workload, f.level, name); r != nil {
				bars, most = append(bars, r), max(most, r.number(colPerSecond))
			}
		}
		if most == 0 {
			continue
		}
		fmt.Fprintf(&body, `<text x="10" y="%d" class="head">%s</text>`+"\n", y+18, f.what)
		y += headHeight
		for _, r := range bars {
			y = bar(&body, y, r, most)
		}
		y += 8
	}
	return fmt.Sprintf(
		`<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" font-family="sans-serif" font-size="13">
<style>.head{font-weight:bold}.ours{fill:#2b7a3f}.theirs{fill:#8a8f98}.floor{fill:#c9a227}text{fill:#444}</style>
<rect width="100%%" height="100%%" fill="#fff"/>
<text x="10" y="28">Locks (or sets) taken and released a second. Longer is faster. Each group has its own scale.</text>
%s</svg>
`, width, y+6, body.String())
}

// bar draws one bar and returns where the next bar begins.
func bar(b *strings.Builder, y int, r row, most float64) int {
	class, name, rate := "theirs", r[colSetting], r.number(colPerSecond)
	switch name {
	case floorName:
		class, name = "floor", "bare rueidis"
	case rlockPlain:
		class = "ours"
	}
	length := max(barWidth*rate/most, 1)
	fmt.Fprintf(b, `<text x="%d" y="%d" text-anchor="end">%s</text>`, labelWidth-8, y+14, name)
	fmt.Fprintf(b, `<rect x="%d" y="%d" width="%.0f" height="%d" class="%s"/>`, labelWidth, y+2, length,
		barHeight-4, class)
	fmt.Fprintf(b, `<text x="%.0f" y="%d">%s</text>`+"\n", labelWidth+length+6, y+14, thousands(rate))
	return y + barHeight
}
