package peers

import (
	"fmt"
	"math"
	"strings"
)

// Measures of the picture, in pixels.
const (
	labelWidth = 200
	barWidth   = 460
	barHeight  = 18
	headHeight = 34
	width      = labelWidth + barWidth + 90
)

// picture draws the README's figures as bars: the throughput of each library beside the
// floor's, on a logarithmic scale.
func (r *results) picture() string {
	var body strings.Builder
	y := 10
	for _, f := range figuresShown {
		c := r.find(f.workload, f.level)
		if c == nil {
			continue
		}
		fmt.Fprintf(&body, `<text x="10" y="%d" class="head">%s, %d %s</text>`+"\n", y+18, c.workload.name, c.level,
			c.workload.level)
		y += headHeight
		for _, name := range append([]string{floorName}, shown...) {
			y = bar(&body, y, name, c.ratio(name, floorName, (*sample).rate))
		}
		y += 8
	}
	return fmt.Sprintf(
		`<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" font-family="sans-serif" font-size="13">
<style>.head{font-weight:bold}.ours{fill:#2b7a3f}.theirs{fill:#8a8f98}.floor{fill:#c9a227}text{fill:#444}</style>
<rect width="100%%" height="100%%" fill="#fff"/>
%s<text x="10" y="%d">Times the floor's throughput, which is bare rueidis; each doubling is equally long.</text>
</svg>
`, width, y+30, body.String(), y+14)
}

// bar draws one bar and returns where the next one begins.
func bar(b *strings.Builder, y int, name string, ratio float64) int {
	const least, most = 1.0 / 16, 128
	class := "theirs"
	switch name {
	case floorName:
		class = "floor"
	case rlockPlain:
		class = "ours"
	}
	length := barWidth * math.Log2(min(max(ratio, least), most)/least) / math.Log2(most/least)
	fmt.Fprintf(b, `<text x="%d" y="%d" text-anchor="end">%s</text>`, labelWidth-8, y+14, name)
	fmt.Fprintf(b, `<rect x="%d" y="%d" width="%.0f" height="%d" class="%s"/>`, labelWidth, y+2, max(length, 1),
		barHeight-4, class)
	fmt.Fprintf(b, `<text x="%.0f" y="%d">%s</text>`+"\n", labelWidth+length+6, y+14, short(ratio))
	return y + barHeight
}
