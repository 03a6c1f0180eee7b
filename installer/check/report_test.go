// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"bytes"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"

	"github.com/csccm/csccm/installer/engine/report"
	"github.com/csccm/csccm/pkg/ui/terminal"
)

// made is the result of a check that found f.
func made(code string, severity Severity, f Finding) Result {
	return ResultOf(&Check{Code: code, Title: "title of " + code, Severity: severity, Remedy: "the usual"}, f, 0)
}

// sample has one check of each outcome.
func sample(t *testing.T) Report {
	t.Helper()
	var nodes []Object
	for _, n := range strings.Split("abcdefghijklm", "") {
		nodes = append(nodes, Object{Kind: "Node", Name: "worker-" + n, Message: "not-external (/flagz: --cloud-provider=\"\")"})
	}
	long := made("T-002", SeverityWarning, Problemf("13 of 13 nodes without it").About(nodes...).With("distribution", "kubeadm"))
	long.Remedy = "append --cloud-provider=external to KUBELET_KUBEADM_ARGS in /var/lib/kubelet/kubeadm-flags.env and run `systemctl restart kubelet`"
	waiting := made("T-004", SeverityError, Skipf("needs T-003, which failed"))
	waiting.Needs = "T-003"
	return NewReport(&Facts{Setup: Setup{Phase: PhaseInstalled}}, 0, []Result{
		made("T-001", SeverityFatal, Passf("v1.37.1 at https://192.0.2.1:6443").With("version", "v1.37.1")),
		long,
		made("T-003", SeverityError, Problemf("nobody holds a lease").Fix("look at the log")),
		waiting,
		made("T-005", SeverityError, Unknownf("could not be read")),
	})
}

// What could not be found out is not success, and the API server's version is no finding about a controller.
func TestNothingCouldBeJudged(t *testing.T) {
	t.Parallel()
	version, dark, na := made("K8S-001", SeverityFatal, Passf("v1.37.1")), made("T-001", SeverityError, Unknownf("forbidden").Fix("ask for the right")), made("T-002", SeverityError, Skipf("none"))
	for name, tc := range map[string]struct {
		checks []Result
		err    string
	}{
		"all unknown":          {[]Result{dark}, "nothing could be judged: 1 unknown, 0 skipped; T-001: forbidden"},
		"unknown and skipped":  {[]Result{version, na, dark}, "nothing could be judged: 1 unknown, 1 skipped; T-001: forbidden"},
		"all skipped":          {[]Result{na}, "nothing could be judged: 0 unknown, 1 skipped; T-002: none"},
		"only the version":     {[]Result{version}, ""},
		"one is judged":        {[]Result{dark, made("T-003", SeverityError, Passf(""))}, ""},
		"one is judged, badly": {[]Result{dark, made("T-003", SeverityError, Problemf(""))}, "exit code 3"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := NewReport(&Facts{}, 0, tc.checks).Err(SeverityError)
			if tc.err == "" {
				require.NoError(t, err)
				return
			}
			require.EqualError(t, err, tc.err)
			var coder interface{ ExitCode() int }
			require.ErrorAs(t, err, &coder)
			require.Equal(t, 3, coder.ExitCode())
		})
	}
}

func TestExitCodes(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name          string
		f             Finding
		severity      Severity
		plain, strict int
	}{
		{"ok", Passf(""), SeverityError, 0, 0},
		{"failed", Problemf(""), SeverityError, 3, 3},
		{"fatal", Problemf(""), SeverityFatal, 3, 3},
		{"warning", Problemf(""), SeverityWarning, 0, 4},
		{"explicit warning", Warnf(""), SeverityError, 0, 4},
		{"skipped", Skipf(""), SeverityError, 0, 0},
		{"unknown", Unknownf(""), SeverityError, 0, 4},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := NewReport(&Facts{}, 0, []Result{made("T-001", tt.severity, tt.f), made("T-002", SeverityError, Passf(""))})
			for failOn, code := range map[Severity]int{SeverityError: tt.plain, SeverityWarning: tt.strict} {
				err := r.Err(failOn)
				if code == 0 {
					require.NoError(t, err)
					continue
				}
				var e *report.Error
				require.ErrorAs(t, err, &e)
				require.Equal(t, code, e.Code)
				require.True(t, e.Silent(), "the report has said it")
			}
		})
	}
}

func TestRemedies(t *testing.T) {
	t.Parallel()
	r := sample(t)
	require.Empty(t, r.Checks[0].Remedy, "what is well needs none")
	require.Contains(t, r.Checks[1].Remedy, "kubeadm-flags.env")
	require.Equal(t, "look at the log", r.Checks[2].Remedy, "the finding's own")
	require.Empty(t, r.Checks[3].Remedy)
	require.Equal(t, HintBase+"#t-003", r.Checks[2].Hint)
}

func compiledSchema(t *testing.T) *jsonschema.Schema {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(Schema))
	require.NoError(t, err)
	c := jsonschema.NewCompiler()
	require.NoError(t, c.AddResource("report.schema.json", doc))
	s, err := c.Compile("report.schema.json")
	require.NoError(t, err)
	return s
}

func TestJSONFollowsTheSchema(t *testing.T) {
	t.Parallel()
	s := compiledSchema(t)
	for _, r := range []Report{sample(t), NewReport(&Facts{}, 0, []Result{})} {
		var b bytes.Buffer
		require.NoError(t, report.Encode(&b, "json", r))
		doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(b.Bytes()))
		require.NoError(t, err)
		require.NoError(t, s.Validate(doc), b.String())
		var back Report
		require.NoError(t, json.Unmarshal(b.Bytes(), &back))
		for i := range r.Checks {
			r.Checks[i].Needs = "" // for people
		}
		require.Equal(t, r, back)
	}
	// The schema is strict: it would notice a field that it does not know.
	doc, err := jsonschema.UnmarshalJSON(strings.NewReader(`{"schemaVersion":1,"tool":{"name":"csccm","version":""},"cluster":{"context":"","server":""},` +
		`"summary":{"ok":0,"warning":0,"failed":0,"skipped":0,"unknown":0},"checks":[],"durationMs":0,"extra":1}`))
	require.NoError(t, err)
	require.ErrorContains(t, s.Validate(doc), "extra")
}

func TestText(t *testing.T) {
	t.Parallel()
	r := sample(t)
	var b bytes.Buffer
	require.NoError(t, r.WriteText(&b, TextOptions{Style: report.Style{Unicode: true, Width: 100}}))
	text := b.String()
	require.NotContains(t, text, "\x1b")
	for _, want := range []string{
		"T\n✓ T-001 title of T-001: v1.37.1 at https://192.0.2.1:6443\n",
		"! T-002 title of T-002: 13 of 13 nodes without it\n",
		"    - Node worker-a: not-external",
		"    ... and 3 more (-v shows all)\n",
		"    fix: append --cloud-provider=external",
		"    see: " + HintBase + "#t-002\n",
		"✗ T-003 title of T-003: nobody holds a lease\n    fix: look at the log\n",
		"\n- skipped until T-003 passes: T-004\n",
		"? T-005 title of T-005: could not be read\n",
		"\n1 ok, 1 warning, 1 failed, 1 skipped, 1 unknown\n",
	} {
		require.Contains(t, text, want)
	}
	require.NotContains(t, text, "distribution:", "evidence only with -v")

	b.Reset()
	require.NoError(t, r.WriteText(&b, TextOptions{Style: report.Style{Unicode: true}, Verbose: true}))
	require.Contains(t, b.String(), "worker-m")
	require.Contains(t, b.String(), "    distribution: kubeadm\n")
	require.Contains(t, b.String(), " ms)")

	b.Reset()
	require.NoError(t, r.WriteText(&b, TextOptions{Short: true}))
	require.NotContains(t, b.String(), "T-001")
	require.NotContains(t, b.String(), "T-004")
	require.True(t, strings.HasPrefix(b.String(), "warn T-002"), "ASCII marks: %s", b.String())
	require.Contains(t, b.String(), "FAIL T-003")

	b.Reset()
	require.NoError(t, r.WriteText(terminal.Writer(&b), TextOptions{Style: report.Style{Unicode: true, Color: true}}))
	require.Contains(t, b.String(), "\x1b[31m✗\x1b[0m T-003")
}

func TestNarrowTerminal(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	require.NoError(t, sample(t).WriteText(&b, TextOptions{Style: report.Style{Unicode: true, Width: 40}}))
	for _, line := range strings.Split(b.String(), "\n") {
		if utf8.RuneCountInString(line) <= 40 {
			continue
		}
		// Only what cannot be broken without harm may be longer: links, paths, the sum.
		require.Regexp(t, `https://|/var/lib|^\d+ ok`, line)
	}
	require.Contains(t, b.String(), "\n  https://192.0.2.1:6443\n", "continued lines stand below the text")
}

func TestCatalogue(t *testing.T) {
	t.Parallel()
	code := regexp.MustCompile(`^[A-Z0-9]+-[0-9]{3}$`)
	seen := map[string]bool{}
	categories := map[string]bool{}
	last := ""
	sources := maps.Clone(OfKube)
	maps.Copy(sources, OfCloud)
	for _, c := range All() {
		require.Regexp(t, code, c.Code)
		require.False(t, seen[c.Code], "%s is there twice", c.Code)
		category := c.Category()
		for _, text := range []string{category, c.Title, c.What, c.Why, c.Remedy} {
			require.NotEmpty(t, text, c.Code)
		}
		require.False(t, strings.HasSuffix(c.Remedy, "."), c.Code)
		require.True(t, strings.HasSuffix(c.What, ".") && strings.HasSuffix(c.Why, "."), c.Code)
		require.Contains(t, []Severity{SeverityFatal, SeverityError, SeverityWarning}, c.Severity, c.Code)
		require.NotNil(t, c.Judge, c.Code)
		for _, s := range append(slices.Clone(c.Reads), c.Tries...) {
			require.Contains(t, sources, s, c.Code)
		}
		for _, n := range c.Needs {
			require.True(t, seen[n], "%s needs %s, which must come before it", c.Code, n)
		}
		if category != last {
			require.False(t, categories[category], "the checks of %q stand together", category)
			categories[category], last = true, category
		}
		seen[c.Code] = true
	}
	require.GreaterOrEqual(t, len(seen), 25)
	require.Len(t, Codes(), len(seen))
}

// docs/checks.md has every anchor that a hint points to.
func TestDocumentation(t *testing.T) {
	t.Parallel()
	file, err := os.ReadFile(filepath.Join("..", "..", "docs", "checks.md"))
	require.NoError(t, err)
	anchors := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^#+ (.+)$`).FindAllStringSubmatch(string(file), -1) {
		anchors[strings.ReplaceAll(strings.ToLower(m[1]), " ", "-")] = true
	}
	for _, c := range All() {
		_, anchor, _ := strings.Cut(c.Hint(), "#")
		require.True(t, anchors[anchor], "%s: no heading for %s", c.Code, c.Hint())
	}
	for _, m := range regexp.MustCompile(`\]\(#([^)]+)\)`).FindAllStringSubmatch(string(file), -1) {
		require.True(t, anchors[m[1]], "dead link #%s", m[1])
	}
}

// What the checks say of versions is what the chart says.
func TestMinimumIsTheChartsOwn(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile(filepath.Join("..", "..", "charts", "cloudstack-ccm", "Chart.yaml"))
	require.NoError(t, err)
	var chart struct {
		KubeVersion string `json:"kubeVersion"`
	}
	require.NoError(t, yaml.Unmarshal(raw, &chart))
	minor, known := MinorOf(strings.TrimPrefix(chart.KubeVersion, ">="))
	require.True(t, known, chart.KubeVersion)
	require.Equal(t, MinMinor, minor)
}
