package helm_test

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/holdfast-cni/holdfast/helm"
)

type rule struct {
	Alert, Expr, For    string
	Labels, Annotations map[string]string
}

func rules(t *testing.T) []rule {
	t.Helper()
	var file struct {
		Groups []struct {
			Name  string
			Rules []rule
		}
	}
	if err := yaml.UnmarshalStrict([]byte(read(t, "holdfast/files/rules.yaml")), &file); err != nil {
		t.Fatal(err)
	}
	if len(file.Groups) != 1 {
		t.Fatalf("%d groups", len(file.Groups))
	}
	return file.Groups[0].Rules
}

type panel struct {
	ID          int
	Type, Title string
	Datasource  struct{ UID string }
	Description string
	GridPos     struct{ X, Y, W, H int }
	Targets     []struct{ Expr, RefID string }
}

func panels(t *testing.T) []panel {
	t.Helper()
	var dashboard struct {
		UID, Title string
		Panels     []panel
	}
	if err := json.Unmarshal([]byte(read(t, "holdfast/files/dashboard.json")), &dashboard); err != nil {
		t.Fatal(err)
	}
	if dashboard.UID != "holdfast" || dashboard.Title == "" {
		t.Errorf("uid %q, title %q", dashboard.UID, dashboard.Title)
	}
	return dashboard.Panels
}

// expressions are those of all alerts and panels, with where they are.
func expressions(t *testing.T) map[string]string {
	t.Helper()
	found := map[string]string{}
	for _, r := range rules(t) {
		found["alert "+r.Alert] = r.Expr
	}
	for _, p := range panels(t) {
		for _, target := range p.Targets {
			found[fmt.Sprintf("panel %q %s", p.Title, target.RefID)] = target.Expr
		}
	}
	return found
}

// source is the text of the project's own Go files in these folders, tests left out.
func source(t *testing.T, folders ...string) string {
	t.Helper()
	var text strings.Builder
	for _, folder := range folders {
		err := filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			data, err := os.ReadFile(path)
			text.Write(data)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return text.String()
}

func TestU2AlertsAndDashboardUseOnlyMetricsThatThereAre(t *testing.T) {
	watchers, reasons := source(t, "../watcher", "../agent"), source(t, "../chaining", "../configmap")
	metric := regexp.MustCompile(`\bholdfast_[a-z_]+`)
	reason := regexp.MustCompile(`reason="([A-Za-z]+)"`)
	uses := expressions(t)
	for _, r := range rules(t) {
		uses["annotations of "+r.Alert] = strings.Join([]string{r.Annotations["summary"], r.Annotations["description"]}, "\n")
	}
	used := map[string]bool{}
	for where, text := range uses {
		for _, name := range metric.FindAllString(text, -1) {
			name = strings.TrimSuffix(name, "_bucket") // a histogram's
			used[name] = true
			if !strings.Contains(watchers, `"`+name+`"`) {
				t.Errorf("%s: no metric is called %s", where, name)
			}
		}
		for _, match := range reason.FindAllStringSubmatch(text, -1) {
			if !strings.Contains(reasons, `"`+match[1]+`"`) {
				t.Errorf("%s: no reason is called %s", where, match[1])
			}
		}
	}
	for _, match := range regexp.MustCompile(`"(holdfast_[a-z_]+)"`).FindAllStringSubmatch(watchers, -1) {
		if !used[match[1]] {
			t.Errorf("the metric %s is on no alert and no panel", match[1])
		}
	}
}

func TestU2ExpressionsCanBeParsed(t *testing.T) {
	for where, expr := range expressions(t) {
		if fault := promqlFault(expr); fault != "" {
			t.Errorf("%s: %s in %s", where, fault, expr)
		}
	}
	for _, bad := range []string{"", "sum(x", "x{a=\"b}", "summ(x)", "rate(x[5m)", "x == ", "x y", "and x", "x{a=b}"} {
		if promqlFault(bad) == "" {
			t.Errorf("the check passes %q", bad)
		}
	}
}

var (
	promqlToken = regexp.MustCompile(`"(?:[^"\\]|\\.)*"|\$__rate_interval|[0-9]+[smhdw]|[0-9.]+|[A-Za-z_][A-Za-z0-9_:]*|==|!=|>=|<=|=~|!~|[-+*/%><=(){}\[\],]`)
	promqlCalls = []string{"sum", "max", "min", "count", "rate", "increase", "absent", "vector", "max_over_time", "histogram_quantile", "by", "on"}
	promqlInfix = []string{"and", "or", "unless", "==", "!=", ">", "<", ">=", "<=", "+", "-", "*", "/", "%"}
)

// promqlFault says what is wrong with an expression, in the part of PromQL that the chart uses. Prometheus' own parser would
// bring more modules than all else that is tested with.
func promqlFault(expr string) string {
	if rest := strings.Join(strings.Fields(promqlToken.ReplaceAllString(expr, "")), " "); rest != "" {
		return fmt.Sprintf("%q cannot be", rest)
	}
	tokens := promqlToken.FindAllString(expr, -1)
	var open []string
	operand := true // an operand must follow, not an operator
	for i, token := range tokens {
		inBraces := len(open) > 0 && open[len(open)-1] == "{"
		switch {
		case strings.Contains("([{", token):
			if token == "(" && i > 0 && promqlToken.MatchString(tokens[i-1]) && isName(tokens[i-1]) && !slices.Contains(promqlInfix, tokens[i-1]) && !slices.Contains(promqlCalls, tokens[i-1]) {
				return fmt.Sprintf("no function %q is known", tokens[i-1])
			}
			open = append(open, token)
			operand = token == "("
		case strings.Contains(")]}", token):
			if len(open) == 0 || open[len(open)-1] != map[string]string{")": "(", "]": "[", "}": "{"}[token] {
				return fmt.Sprintf("unmatched %q", token)
			}
			open = open[:len(open)-1]
			operand = false
		case inBraces:
			if slices.Contains([]string{"=", "!=", "=~", "!~"}, token) && (i+1 == len(tokens) || !strings.HasPrefix(tokens[i+1], `"`)) {
				return "a label is compared with what is no string"
			}
		case slices.Contains(promqlInfix, token):
			if operand {
				return fmt.Sprintf("nothing before %q", token)
			}
			operand = true
		case token == ",":
		case token == "by" || token == "on":
			operand = true
		default:
			// After "by (…)" and "on (…)" comes an operand with no operator between.
			if !operand && len(open) == 0 && i > 0 && tokens[i-1] != ")" {
				return fmt.Sprintf("no operator before %q", token)
			}
			operand = false
		}
	}
	if len(open) > 0 || operand {
		return "it ends too soon"
	}
	return ""
}

func isName(token string) bool { return token[0] == '_' || token[0] >= 'A' }

func TestU2EveryAlertSaysWhatIsWrongAndWhatToDo(t *testing.T) {
	seen := map[string]bool{}
	for _, r := range rules(t) {
		if !strings.HasPrefix(r.Alert, "Holdfast") || seen[r.Alert] {
			t.Errorf("alert %q: the name must begin with Holdfast and be there once", r.Alert)
		}
		seen[r.Alert] = true
		if r.Annotations["summary"] == "" || r.Annotations["description"] == "" || !slices.Contains([]string{"warning", "critical"}, r.Labels["severity"]) {
			t.Errorf("%s: needs a summary, a description and a severity", r.Alert)
		}
	}
}

func TestU2PanelsAreExplainedAndDoNotOverlap(t *testing.T) {
	taken, ids := map[[2]int]string{}, map[int]bool{}
	for _, p := range panels(t) {
		if ids[p.ID] || p.Description == "" || p.Datasource.UID != "${datasource}" || len(p.Targets) == 0 {
			t.Errorf("panel %q: needs an id of its own, a description, the chosen data source and a query", p.Title)
		}
		ids[p.ID] = true
		for x := p.GridPos.X; x < p.GridPos.X+p.GridPos.W; x++ {
			for y := p.GridPos.Y; y < p.GridPos.Y+p.GridPos.H; y++ {
				if other := taken[[2]int{x, y}]; other != "" || x >= 24 {
					t.Fatalf("panel %q covers %q", p.Title, other)
				}
				taken[[2]int{x, y}] = p.Title
			}
		}
	}
}

func TestU2RulesAndDashboardReachTheClusterAsTheyAre(t *testing.T) {
	manifests, _ := mustRender(t, helm.RenderOptions{Values: values(t, "private-registry")})
	rules := find(t, manifests, "PrometheusRule", "rel-holdfast")
	var want any
	if err := yaml.Unmarshal([]byte(read(t, "holdfast/files/rules.yaml")), &want); err != nil {
		t.Fatal(err)
	}
	got, err := json.Marshal(rules.Object["spec"])
	if err != nil {
		t.Fatal(err)
	}
	if asked, err := json.Marshal(want); err != nil || string(asked) != string(got) {
		t.Errorf("spec %s, want %s (%v)", got, asked, err)
	}
	dashboard := find(t, manifests, "ConfigMap", "rel-holdfast-dashboard")
	data := dashboard.Object["data"].(map[string]any)["holdfast.json"]
	if data != read(t, "holdfast/files/dashboard.json") || dashboard.GetLabels()["grafana_dashboard"] != "1" {
		t.Errorf("labels %v, data %s", dashboard.GetLabels(), data)
	}
}
