// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package explain explains alerts, the reasons of Events and conditions, and checks: what each means, how to see it and
// how to resolve it. The texts come from the tables of alerts, reasons and checks; docs/runbooks.md and
// csccm doctor --explain show them.
package explain

import (
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"math"
	"regexp"
	"slices"
	"strings"
	"sync"

	"sigs.k8s.io/yaml"

	"github.com/csccm/csccm/charts"
	"github.com/csccm/csccm/installer/check"
	"github.com/csccm/csccm/installer/report"
	"github.com/csccm/csccm/pkg/loadbalancer/plan"
	"github.com/csccm/csccm/pkg/service"
	"github.com/csccm/csccm/pkg/service/reasons"
	"github.com/csccm/csccm/pkg/typo"
	"github.com/csccm/csccm/pkg/version"
)

// Kind is the kind of thing that an entry explains.
type Kind string

// Kinds of entries.
const (
	Alert     Kind = "alert"
	Event     Kind = "event"
	Condition Kind = "condition"
	Check     Kind = "check"
)

// Entry explains one alert, reason or check, in Markdown. Links in its texts are relative to the folder docs.
type Entry struct {
	Kind Kind `json:"kind"`
	// Object is the kind of object that has the Event or the condition.
	Object string `json:"object,omitempty"`
	// Severity is critical, warning or info for an alert, Warning or Normal for an Event, and the severity of the check
	// for a check.
	Severity string `json:"severity,omitempty"`
	// For is how long the expression of an alert must be true before the alert fires.
	For string `json:"for,omitempty"`
	// InCondition is the type of the condition that also uses the reason of an Event.
	InCondition string   `json:"inCondition,omitempty"`
	When        string   `json:"when"`
	Means       string   `json:"means"`
	See         []string `json:"see,omitempty"`     // command lines
	Queries     []string `json:"queries,omitempty"` // PromQL; for an alert, the first is its own expression
	End         string   `json:"end"`

	what   string // kind and severity in one line
	family string // section of docs/runbooks.md; "" for a check, which docs/checks.md explains
}

// Topic is the entries with one name.
type Topic struct {
	Name    string  `json:"name"`
	Page    string  `json:"page"`
	Entries []Entry `json:"entries"`
}

// Topics returns all topics: alerts, reasons and checks.
var Topics = sync.OnceValue(func() []Topic {
	var out []Topic
	add := func(name, page string, e Entry) {
		if i := slices.IndexFunc(out, func(t Topic) bool { return t.Name == name }); i >= 0 {
			out[i].Entries = append(out[i].Entries, e)
			return
		}
		out = append(out, Topic{Name: name, Page: page, Entries: []Entry{e}})
	}
	reason := func(name string, e Entry) { add(name, version.Pages+"docs/runbooks.md#"+strings.ToLower(name), e) }

	for _, a := range alerts() {
		reason(a.Alert, Entry{
			Kind:     Alert,
			Severity: a.Labels["severity"],
			For:      a.For,
			When:     variables(a.Annotations["summary"]),
			Means:    variables(a.Annotations["description"]),
			See:      a.Runbook.See,
			Queries:  append([]string{a.Expr}, a.Runbook.Queries...),
			End:      a.Runbook.End,
			what:     "Alert, " + a.Labels["severity"] + ", after " + a.For,
			family:   "Alerts",
		})
	}

	for _, e := range reasons.Events {
		reason(string(e.Reason), eventEntry("Service", &e))
	}

	for _, e := range reasons.NodeEvents {
		reason(string(e.Reason), eventEntry("Node", &e))
	}

	for _, r := range reasons.Conditions {
		reason(string(r.Reason), Entry{
			Kind:   Condition,
			Object: "Service",
			When:   r.When,
			Means:  r.Means,
			See:    r.See,
			End:    r.Remedy,
			what:   "Reason of a condition of a Service",
			family: "Conditions of a Service",
		})
	}

	for _, c := range check.All() {
		add(c.Code, c.Hint(), Entry{
			Kind:     Check,
			Severity: string(c.Severity),
			When:     c.Title + ": " + c.What,
			Means:    c.Why,
			See:      []string{"csccm doctor --only " + c.Code + " -v"},
			End:      c.Remedy,
			what:     "Check of csccm doctor, " + string(c.Severity),
		})
	}

	return out
})

// eventEntry returns the entry of an Event on a Service or Node.
func eventEntry(object string, r *plan.EventRow) Entry {
	e := Entry{
		Kind:     Event,
		Object:   object,
		Severity: "Normal",
		When:     r.When,
		Means:    r.Means,
		End:      r.Remedy,
		family:   "Events on " + object + "s",
		See: []string{
			"kubectl get events -A --field-selector involvedObject.kind=" + object + ",reason=" + string(r.Reason),
		},
	}

	if r.Warning {
		e.Severity = "Warning"
	}

	e.what = "Event on a " + object + ", " + e.Severity
	if r.Condition {
		e.InCondition = service.ConditionReady
		e.what += "; reason of the condition `" + e.InCondition + "`"
		e.See = append(e.See, "kubectl describe service -n NAMESPACE NAME", "csccm plan NAMESPACE/NAME")
	}

	for _, line := range r.See {
		if !slices.Contains(e.See, line) {
			e.See = append(e.See, line)
		}
	}

	return e
}

// alert is a rule in the chart's monitoring/alerts.yaml. The field Runbook is not part of the PrometheusRule.
type alert struct {
	Alert       string
	Expr        string
	For         string
	Labels      map[string]string
	Annotations map[string]string
	Runbook     struct {
		See, Queries []string
		End          string
	}
}

// variable matches a label or the value in the template of an alert, such as {{ $labels.node }}.
var variable = regexp.MustCompile(`\{\{ \$(?:labels\.)?(\w+)[^}]*\}\}`)

// variables replaces the variables of a template by their names in capital letters.
func variables(template string) string {
	return variable.ReplaceAllStringFunc(template,
		func(v string) string { return strings.ToUpper(variable.FindStringSubmatch(v)[1]) })
}

// alerts returns the alerts of the chart, with the default name of its lease. It panics on an error, which the tests
// would find, because the chart is embedded.
func alerts() (out []alert) {
	const name = "monitoring/alerts.yaml"
	var file struct{ Groups []struct{ Rules []alert } }

	raw, err := fs.ReadFile(charts.FS(), name)
	if err == nil {
		err = yaml.Unmarshal(bytes.ReplaceAll(raw, []byte("LEASE_NAME"), []byte("cloud-controller-manager")), &file)
	}
	if err != nil {
		panic(fmt.Sprintf("embedded chart: %s: %v", name, err))
	}

	for _, g := range file.Groups {
		out = append(out, g.Rules...)
	}
	return out
}

// Names returns the names of all topics for shell completion, each followed by a tab and its kind.
func Names() []string {
	var out []string
	for _, t := range Topics() {
		out = append(out, t.Name+"\t"+string(t.Entries[0].Kind))
	}
	return out
}

// Find returns the topic with that name, ignoring case. The error suggests similar names.
func Find(name string) (Topic, error) {
	var known, near []string
	for _, t := range Topics() {
		if strings.EqualFold(t.Name, name) {
			return t, nil
		}

		known = append(known, t.Name)
		if name != "" && strings.Contains(strings.ToLower(t.Name), strings.ToLower(name)) {
			near = append(near, t.Name)
		}
	}

	if len(near) == 0 {
		near = typo.Nearest(name, known, math.MaxInt)
	}

	return Topic{}, fmt.Errorf("%q is not an alert, a reason of an Event or condition, or a check; did you mean %s?",
		name, strings.Join(near[:min(len(near), 3)], " or "))
}

//go:generate go test . -run PagesAreFresh -update

// link matches a Markdown link.
var link = regexp.MustCompile(`\[([^\]]+)\]\(([^)]+)\)`)

// sentence returns text with a capital first letter and a full stop at the end.
func sentence(text string) string {
	return report.Capital(strings.TrimSuffix(text, ".")) + "."
}

// text returns the entries of a topic in Markdown, without the heading.
func (t Topic) text() string {
	var b strings.Builder
	for _, e := range t.Entries {
		fmt.Fprintf(&b, "\n%s.\n\n**%s** %s\n", e.what, sentence(e.When), e.Means)
		for _, block := range [][]string{append([]string{"sh"}, e.See...), append([]string{"promql"}, e.Queries...)} {
			if len(block) > 1 {
				fmt.Fprintf(&b, "\n```%s\n```\n", strings.Join(block, "\n"))
			}
		}

		if e.End != "none needed" {
			fmt.Fprintf(&b, "\nHow to end it: %s\n", sentence(e.End))
		}
	}

	return b.String()
}

// WriteText writes a topic for a terminal: links become their text followed by the page in parentheses, and lines that
// are not code are wrapped.
func (t Topic) WriteText(w io.Writer, style report.Style) error {
	var b strings.Builder

	code := false
	for line := range strings.SplitSeq(t.Name+"\n"+link.ReplaceAllString(t.text(), "$1 (docs/$2)")+"\n"+t.Page, "\n") {
		if strings.HasPrefix(line, "```") {
			code = !code
		}
		if !code {
			line = strings.TrimSuffix(style.Indented("", 0, line), "\n")
		}
		b.WriteString(line + "\n")
	}

	_, err := io.WriteString(w, b.String())
	return err
}
