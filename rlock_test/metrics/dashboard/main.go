// Command dashboard writes rlock/rlockprom/dashboard.json, for Grafana, from the panels in
// panels.go. It uses Grafana's own types, which refuse a field that Grafana's schema does not have.
package main

//lint:file-ignore SA1019 The older of two schemas, which every Grafana from 10 on loads.

import (
	"encoding/json"
	"fmt"
	"log"
	"os"
	"strings"

	"github.com/grafana/grafana-foundation-sdk/go/cog"
	"github.com/grafana/grafana-foundation-sdk/go/common"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
	"github.com/grafana/grafana-foundation-sdk/go/prometheus"
	"github.com/grafana/grafana-foundation-sdk/go/stat"
	"github.com/grafana/grafana-foundation-sdk/go/timeseries"
)

//go:generate go run .

// file is the file that the command writes.
const file = "../../../rlock/rlockprom/dashboard.json"

// runbook is the page that panels link to.
const runbook = "https://github.com/rlock-go/toolkit/blob/main/docs/RUNBOOK.md"

func main() {
	text, err := render()
	if err == nil {
		err = os.WriteFile(file, text, 0o644)
	}
	if err != nil {
		log.Fatal("dashboard: ", err)
	}
}

// render returns the dashboard as JSON.
func render() ([]byte, error) {
	source := common.DataSourceRef{Type: cog.ToPtr("prometheus"), Uid: cog.ToPtr("${datasource}")}
	b := dashboard.NewDashboardBuilder("rlock").Uid("rlock").Tags([]string{"rlock"}).
		Description("What the locks of rlock do, for somebody on call: what is wrong stands on top.").
		Link(dashboard.NewDashboardLinkBuilder("Runbook").Type(dashboard.DashboardLinkTypeLink).
			Url(runbook).TargetBlank(true)).
		Time("now-1h", "now").Refresh("30s").Timezone("browser").Tooltip(dashboard.DashboardCursorSyncCrosshair).
		WithVariable(dashboard.NewDatasourceVariableBuilder("datasource").Label("Data source").Type("prometheus")).
		WithVariable(choice("job", "label_values(rlock_held, job)", source)).
		WithVariable(choice("instance", `label_values(rlock_held{job=~"$job"}, instance)`, source))
	for _, row := range rows {
		b.WithRow(dashboard.NewRowBuilder(row.title))
		for _, p := range row.panels {
			b.WithPanel(build(p, source))
		}
	}
	built, err := b.Build()
	if err != nil {
		return nil, err
	}
	for i, p := range built.Panels { // links to a panel need the panel's id
		if id := cog.ToPtr(uint32(i + 1)); p.Panel != nil {
			p.Panel.Id = id
		} else {
			p.RowPanel.Id = *id
		}
	}
	text, err := json.MarshalIndent(built, "", "  ")
	return append(text, '\n'), err
}

// choice is a variable for one or more values of a label.
func choice(name, query string, source common.DataSourceRef) *dashboard.QueryVariableBuilder {
	return dashboard.NewQueryVariableBuilder(name).Label(strings.ToUpper(name[:1]) + name[1:]).
		Datasource(source).
		Query(dashboard.StringOrMap{String: &query}).Refresh(dashboard.VariableRefreshOnTimeRangeChanged).
		Sort(dashboard.VariableSortAlphabeticalAsc).Multi(true).IncludeAll(true).AllValue(".*").
		Current(dashboard.VariableOption{
			Text:  dashboard.StringOrArrayOfString{ArrayOfString: []string{"All"}},
			Value: dashboard.StringOrArrayOfString{ArrayOfString: []string{"$__all"}},
		})
}

// build makes a panel for Grafana.
func build(p panel, source common.DataSourceRef) cog.Builder[dashboard.Panel] {
	description := fmt.Sprintf("%s\n\n[Runbook](%s#%s)", p.means, runbook, p.section)
	grid := dashboard.GridPos{W: p.width, H: 8}
	if p.single {
		grid.H = 4
		b := stat.NewPanelBuilder().Title(p.title).Description(description).
			Datasource(source).GridPos(grid).Unit(p.unit).NoValue(p.none).
			GraphMode(common.BigValueGraphModeArea).ColorMode(common.BigValueColorModeBackgroundSolid).
			ReduceOptions(common.NewReduceDataOptionsBuilder().Calcs([]string{"lastNotNull"}))
		if p.unit == "short" {
			b.Decimals(0)
		}
		steps := []dashboard.Threshold{{Color: "green"}}
		for i, at := range p.limits {
			color := "red"
			if i < len(p.limits)-1 {
				color = "orange"
			}
			steps = append(steps, dashboard.Threshold{Value: &at, Color: color})
		}
		b.Thresholds(dashboard.NewThresholdsConfigBuilder().Mode(dashboard.ThresholdsModeAbsolute).Steps(steps))
		for i, q := range p.queries {
			b.WithTarget(target(i, q))
		}
		return b
	}
	b := timeseries.NewPanelBuilder().Title(p.title).Description(description).
		Datasource(source).GridPos(grid).Unit(p.unit).NoValue(p.none).
		Min(0).LineWidth(1).FillOpacity(10).ShowPoints(common.VisibilityModeNever).
		Legend(common.NewVizLegendOptionsBuilder().ShowLegend(true).DisplayMode(common.LegendDisplayModeList).
			Placement(common.LegendPlacementBottom)).
		Tooltip(common.NewVizTooltipOptionsBuilder().Mode(common.TooltipDisplayModeMulti).
			Sort(common.SortOrderDescending))
	for i, q := range p.queries {
		b.WithTarget(target(i, q))
	}
	return b
}

// target is a query. The letter of the i-th query of a panel is the i-th letter.
func target(i int, q query) *prometheus.DataqueryBuilder {
	return prometheus.NewDataqueryBuilder().RefId(string(rune('A' + i))).Expr(chosen(q.expr)).
		LegendFormat(q.legend).Range()
}

// chosen makes a query look at the values that the variables choose. {} becomes these values, {x}
// becomes these values and x.
func chosen(expr string) string {
	return strings.NewReplacer("{}", `{job=~"$job",instance=~"$instance"}`,
		"{", `{job=~"$job",instance=~"$instance",`).
		Replace(expr)
}
