package promtest

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/VictoriaMetrics/metricsql"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v2"
)

const alertsFile = "../../alerts.yaml"

// A rule is an alert, or a query whose answer is recorded for others.
type rule struct {
	Alert, Record, Expr string
	For                 *string
	Labels, Annotations map[string]string
}

func readRules(t *testing.T) []rule {
	var file struct{ Groups []struct{ Rules []rule } }
	readYAML(t, alertsFile, &file)
	require.Len(t, file.Groups, 1)
	return file.Groups[0].Rules
}

func readYAML(t *testing.T, name string, into any) {
	text, err := os.ReadFile(name)
	require.NoError(t, err)
	require.NoError(t, yaml.Unmarshal(text, into))
}

// runPromtool runs promtool, which must find nothing wrong.
func runPromtool(t *testing.T, args ...string) {
	out, err := exec.Command(lookUp(t, "promtool"), args...).CombinedOutput()
	require.NoError(t, err, "%s", out)
}

func TestAlerts_AreValid(t *testing.T) {
	runPromtool(t, "check", "rules", "--lint=all", "--lint-fatal", alertsFile)
}

func TestAlerts_FireWhenTheyShouldAndOtherwiseDoNot(t *testing.T) {
	t.Parallel() // days of samples take a while
	runPromtool(t, "test", "rules", "testdata/alerts.yaml")
}

// Each alert fires in a test, and does not fire where all is as usual.
func TestAlerts_HaveTests(t *testing.T) {
	var file struct {
		Tests []struct {
			Series []struct{ Series string } `yaml:"input_series"`
			Expr   []struct {
				Samples []struct{ Labels string } `yaml:"exp_samples"`
			} `yaml:"promql_expr_test"`
		}
	}
	readYAML(t, "testdata/alerts.yaml", &file)
	require.Len(t, file.Tests[0].Expr, 1)
	require.Empty(t, file.Tests[0].Expr[0].Samples, "all is as usual in the first test")
	var fires, usual []string
	for _, test := range file.Tests {
		for _, e := range test.Expr {
			for _, s := range e.Samples {
				fires = append(fires, s.Labels)
			}
		}
	}
	for _, s := range file.Tests[0].Series {
		name, _, _ := strings.Cut(s.Series, "{")
		usual = append(usual, name)
	}
	recorded := map[string]string{}
	for _, r := range readRules(t) {
		if r.Record != "" {
			recorded[r.Record] = r.Expr
			continue
		}
		require.True(t, slices.ContainsFunc(fires, func(labels string) bool { return strings.Contains(labels, fmt.Sprintf("%q", r.Alert)) }), "%s never fires", r.Alert)
		for _, name := range metricsIn(t, r.Expr) {
			for _, of := range metricsIn(t, recordedOr(recorded, name)) {
				require.Contains(t, usual, of, "of %s", r.Alert)
			}
		}
	}
}

// recordedOr returns the query that is recorded under that name, or the name.
func recordedOr(recorded map[string]string, name string) string {
	if expr, ok := recorded[name]; ok {
		return expr
	}
	return name
}

func metricsIn(t *testing.T, expr string) []string {
	e, err := metricsql.Parse(expr)
	require.NoError(t, err, expr)
	return metricsOf(e)
}

// Rules use metrics and labels that a scrape has, or that Prometheus adds, or that an earlier rule records.
func TestAlerts_NameOnlyWhatIsExported(t *testing.T) {
	have := exported(t)
	for metric := range have {
		have[metric] = append(have[metric], "job", "instance")
	}
	for _, r := range readRules(t) {
		e, err := metricsql.Parse(r.Expr)
		require.NoError(t, err, r.Expr)
		metrics := metricsOf(e)
		require.NotEmpty(t, metrics, r.Expr)
		grouped := []string(nil)
		metricsql.VisitAll(e, func(e metricsql.Expr) {
			switch e := e.(type) {
			case *metricsql.MetricExpr:
				metric, labels := nameAndLabels(e)
				require.Contains(t, have, metric, r.Expr)
				require.Subset(t, have[metric], labels, "%s in %s", metric, r.Expr)
			case *metricsql.AggrFuncExpr:
				grouped = e.Modifier.Args
				for _, metric := range metrics {
					require.Subset(t, have[metric], e.Modifier.Args, "%s in %s", metric, r.Expr)
				}
			}
		})
		if r.Record != "" {
			have[r.Record] = grouped
			continue
		}
		for _, text := range r.Annotations {
			for _, part := range strings.Split(text, "$labels.")[1:] {
				label := strings.FieldsFunc(part, func(c rune) bool { return c == ' ' || c == '}' })[0]
				require.Contains(t, have[metrics[0]], label, r.Alert)
				if grouped != nil {
					require.Contains(t, grouped, label, "%s is not in the answer of %s", label, r.Alert)
				}
			}
		}
	}
}

// A result is a text in a query, so a misspelt one would match nothing.
func TestAlerts_NameResultsThatExist(t *testing.T) {
	text, err := os.ReadFile("../../README.md")
	require.NoError(t, err)
	for _, r := range readRules(t) {
		for _, part := range strings.Split(r.Expr, `result=`)[1:] {
			values := strings.Split(part, `"`)[1]
			for _, result := range strings.Split(values, "|") {
				require.Contains(t, string(text), "| `"+result+"` |", r.Expr)
			}
		}
	}
}

// Each alert says how bad it is, what has happened, and where to read what to do.
func TestAlerts_SayWhatToDo(t *testing.T) {
	operators, err := os.ReadFile("../../../docs/operators.md")
	require.NoError(t, err)
	for _, r := range readRules(t) {
		if r.Record != "" {
			continue
		}
		require.NotNil(t, r.For, r.Alert)
		require.Contains(t, []string{"info", "warning", "critical"}, r.Labels["severity"], r.Alert)
		require.NotEmpty(t, r.Annotations["summary"], r.Alert)
		require.NotContains(t, r.Annotations["summary"], ". ", "%s: one sentence", r.Alert)
		require.NotEmpty(t, r.Annotations["description"], r.Alert)
		require.Equal(t, "https://github.com/seed-30da4c49/sash/blob/HEAD/docs/operators.md#"+strings.ToLower(r.Alert), r.Annotations["runbook_url"])
		require.Contains(t, string(operators), "\n### "+r.Alert+"\n")
	}
}
