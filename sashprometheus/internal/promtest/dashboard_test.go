package promtest

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/VictoriaMetrics/metricsql"
	dto "github.com/prometheus/client_model/go"
	"github.com/stretchr/testify/require"
)

// A dashboard is the part of dashboard.json that these tests read.
type dashboard struct {
	Panels []struct {
		Title   string
		Targets []struct{ Expr, LegendFormat string }
		GridPos struct{ X, Y, W, H int }
	}
	Templating struct {
		List []struct{ Name, Definition string }
	}
}

func readDashboard(t *testing.T) (d dashboard) {
	text, err := os.ReadFile("../../dashboard.json")
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &d))
	return d
}

// expressions returns the queries of all panels, with values for the variables of Grafana.
func (d *dashboard) expressions() (all []string) {
	variables := strings.NewReplacer("$__rate_interval", "5m", "$limiter", ".*", "$policy", ".*")
	for _, p := range d.Panels {
		for _, target := range p.Targets {
			all = append(all, variables.Replace(target.Expr))
		}
	}
	return all
}

// exported returns the labels of each metric that a scrape can contain.
func exported(t *testing.T) map[string][]string {
	labels := make(map[string][]string)
	for _, s := range []*site{newSite(t), newStoreSite(t)} {
		s.stir()
		families, err := s.registry.Gather()
		require.NoError(t, err)
		for _, f := range families {
			names := []string{f.GetName()}
			if f.GetType() == dto.MetricType_HISTOGRAM {
				names = []string{f.GetName() + "_bucket", f.GetName() + "_sum", f.GetName() + "_count"}
			}
			for _, name := range names {
				for _, l := range f.Metric[0].Label {
					if !slices.Contains(labels[name], l.GetName()) {
						labels[name] = append(labels[name], l.GetName())
					}
				}
				if strings.HasSuffix(name, "_bucket") {
					labels[name] = append(labels[name], "le")
				}
			}
		}
	}
	return labels
}

func TestDashboard_NamesOnlyWhatIsExported(t *testing.T) {
	d, have, used := readDashboard(t), exported(t), make(map[string]bool)
	checkLabels := func(metrics, labels []string, in string) {
		for _, metric := range metrics {
			for _, label := range labels {
				require.Contains(t, have[metric], label, "%s in %s", metric, in)
			}
		}
	}
	for _, expr := range d.expressions() {
		e, err := metricsql.Parse(expr)
		require.NoError(t, err, expr)
		metrics := metricsOf(e)
		require.NotEmpty(t, metrics, expr)
		metricsql.VisitAll(e, func(e metricsql.Expr) {
			switch e := e.(type) {
			case *metricsql.MetricExpr:
				metric, labels := nameAndLabels(e)
				require.Contains(t, have, metric, expr)
				used[metric] = true
				checkLabels([]string{metric}, labels, expr)
			case *metricsql.AggrFuncExpr:
				checkLabels(metrics, e.Modifier.Args, expr)
			}
		})
	}
	for metric := range have {
		require.True(t, used[metric] || metric == "sash_sweeps_total", "no panel shows %s", metric)
	}
}

// metricsOf returns the names of the metrics in an expression.
func metricsOf(e metricsql.Expr) (names []string) {
	metricsql.VisitAll(e, func(e metricsql.Expr) {
		if m, ok := e.(*metricsql.MetricExpr); ok {
			name, _ := nameAndLabels(m)
			names = append(names, name)
		}
	})
	return names
}

// nameAndLabels returns the name of a metric and the labels by which it is selected.
func nameAndLabels(m *metricsql.MetricExpr) (name string, labels []string) {
	for _, filters := range m.LabelFilterss {
		for _, f := range filters {
			if f.Label == "__name__" {
				name = f.Value
			} else {
				labels = append(labels, f.Label)
			}
		}
	}
	return name, labels
}

// Legends show labels by which the query groups, and the queries have the same variables.
func TestDashboard_LegendsAndVariablesExist(t *testing.T) {
	d := readDashboard(t)
	for _, p := range d.Panels {
		for _, target := range p.Targets {
			for _, part := range strings.Split(target.LegendFormat, "{{")[1:] {
				label, _, _ := strings.Cut(part, "}}")
				_, by, _ := strings.Cut(target.Expr, "by (")
				by, _, _ = strings.Cut(by, ")")
				require.Contains(t, strings.Split(by, ", "), label, target.Expr)
			}
		}
	}
	var names []string
	for _, v := range d.Templating.List {
		names = append(names, v.Name)
	}
	require.Equal(t, []string{"datasource", "limiter", "policy"}, names)
	have := exported(t)
	for _, v := range d.Templating.List[1:] {
		metric := strings.FieldsFunc(v.Definition, func(r rune) bool { return strings.ContainsRune("({,", r) })[1]
		require.Contains(t, have[metric], v.Name, v.Definition)
	}
}

func TestDashboard_PanelsDoNotOverlap(t *testing.T) {
	taken := make(map[[2]int]string)
	for _, p := range readDashboard(t).Panels {
		require.LessOrEqual(t, p.GridPos.X+p.GridPos.W, 24, p.Title)
		for x := range p.GridPos.W {
			for y := range p.GridPos.H {
				at := [2]int{p.GridPos.X + x, p.GridPos.Y + y}
				require.Empty(t, taken[at], p.Title)
				taken[at] = p.Title
			}
		}
	}
}
