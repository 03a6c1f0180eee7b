// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"cmp"
	_ "embed"
	"encoding/xml"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"text/template"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/csccm/csccm/test/internal/must"
)

//go:embed tests.yaml
var content []byte

// Suite is the content of tests.yaml.
type Suite struct {
	Forms []Form
	Tests []Test
}

// Form is a kind of cluster and CloudStack in which the tests run.
type Form struct {
	// Is is the description of the form on the page.
	Name, Is string
	// World is "tier" or empty. Latency is a latency profile of the simulator. Server is the simulated release.
	World, Latency, Server string
	// Install are flags of csccm install.
	Install []string
	// Kill is the interval at which the controller's leader is killed; empty means never.
	Kill string
}

// Direct reports whether all ports are forwarded past the load balancer.
func (f Form) Direct() bool { return slices.Contains(f.Install, "loadBalancers.mode=direct") }

// Test is a test of Kubernetes.
type Test struct {
	// Lane is the name of the lane. Group is the name of the group of tests in Kubernetes.
	Lane, Group, Name string
	// Rolling tests take a quarter of an hour.
	Rolling bool
	// Note is a remark about the test on the page.
	Note   string
	Cannot *Cannot
}

// Cannot is why a test does not pass in some forms.
type Cannot struct {
	In []string
	// Says is the error with which the test ends. If it is empty, the test is not run.
	Says string
	// Because is the reason. Row is the section of docs/loadbalancers.md about it.
	Because, Row string
}

// Load returns the tests and the forms.
func Load() (s Suite) {
	must.OK(yaml.UnmarshalStrict(content, &s))
	for i := range s.Tests {
		s.Tests[i].Group = cmp.Or(s.Tests[i].Group, "LoadBalancers")
	}
	return s
}

// focus returns a regular expression that matches exactly the test's name.
func (t *Test) focus() string { return t.Group + `\b.*` + regexp.QuoteMeta(t.Name) }

// cannot returns why the test cannot pass in a form; nil if it should pass.
func (t *Test) cannot(form string) *Cannot {
	if t.Cannot != nil && slices.Contains(t.Cannot.In, form) {
		return t.Cannot
	}
	return nil
}

// Lanes returns, by lane, regular expressions that match the names of the tests of a form.
func (s Suite) Lanes(form string, rolling bool) map[string]string {
	lanes := map[string]string{}
	for _, t := range s.Tests {
		why := t.cannot(form)
		if (rolling || !t.Rolling) && (why == nil || why.Says != "") {
			lanes[t.Lane] = either(lanes[t.Lane], t.focus())
		}
	}
	return lanes
}

// either returns a regular expression that matches what a or b matches; a may be empty.
func either(a, b string) string {
	if a == "" {
		return b
	}
	return a + "|" + b
}

// Outcome is the outcome of a test.
type Outcome struct {
	Test string
	// Result is Passed, Unable or Failed, or empty for a test that should not run.
	Result string
	// Says is the error of the test; if it passed at the second try, the error of the first.
	Says string
	Took time.Duration
	// Requests is the number of requests during rolling updates, Lost how many of them got no answer.
	Requests, Lost int
}

// The results of tests.
const (
	Passed = "passed"
	Unable = "cannot"
	Failed = "failed"
)

// junit is a JUnit report of Ginkgo.
type junit struct {
	Cases []struct {
		Name    string  `xml:"name,attr"`
		Status  string  `xml:"status,attr"`
		Time    float64 `xml:"time,attr"`
		Failure struct {
			Message string `xml:"message,attr"`
		} `xml:"failure"`
		Log string `xml:"system-err"`
	} `xml:"testsuite>testcase"`
}

// requests matches log lines about the requests during a rolling update.
var requests = regexp.MustCompile(`(total HTTP requests|Network errors|HTTP errors): (\d+)`)

// Judge returns the outcomes of all tests in a form, from the reports of the tests that ran.
func (s Suite) Judge(form string, rolling bool, reports ...[]byte) (all []Outcome) {
	var ran junit
	for _, report := range reports {
		must.OK(xml.Unmarshal(report, &ran))
	}
	for _, t := range s.Tests {
		o, focus := Outcome{Test: t.Name}, regexp.MustCompile(t.focus())
		for _, c := range ran.Cases {
			if c.Status == "skipped" || !focus.MatchString(c.Name) {
				continue
			}
			o.Took, o.Requests, o.Lost = time.Duration(c.Time*float64(time.Second)), 0, 0
			for _, line := range requests.FindAllStringSubmatch(c.Log, -1) {
				if n := must.Get(strconv.Atoi(line[2])); line[1] == "total HTTP requests" {
					o.Requests += n
				} else {
					o.Lost += n
				}
			}
			if c.Status == Passed {
				o.Result = Passed
			} else {
				o.Result, o.Says = Failed, cmp.Or(c.Failure.Message, c.Status)
			}
		}

		why := t.cannot(form)
		switch {
		case why != nil && o.Result == Passed:
			o.Result, o.Says = Failed, "it passes, and tests.yaml says that it cannot"
		case why != nil && strings.Contains(o.Says, why.Says):
			o.Result = Unable
		case o.Result == "" && (rolling || !t.Rolling):
			o.Result, o.Says = Failed, "it did not run"
		}
		all = append(all, o)
	}
	return all
}

// Failed returns a regular expression that matches the names of the failed tests, or "" if there are none.
func (s Suite) Failed(all []Outcome) (names string) {
	for i, o := range all {
		if o.Result == Failed {
			names = either(names, s.Tests[i].focus())
		}
	}
	return names
}

// Run is a run of the tests in a form, on a Kubernetes release.
type Run struct {
	Form, Release string
	// Outcomes are the outcomes of Kubernetes' tests and of our own.
	Outcomes []Outcome
	Took     time.Duration
}

// Of returns the outcome of a test.
func (r Run) Of(test string) (o Outcome) {
	if i := slices.IndexFunc(r.Outcomes, func(o Outcome) bool { return o.Test == test }); i >= 0 {
		o = r.Outcomes[i]
	}
	return o
}

//go:embed page.md.tmpl
var pageText string

// Page returns the results as a page of the documentation.
func (s Suite) Page(date string, runs []Run) string {
	var rows []string
	for _, r := range runs {
		for _, o := range r.Outcomes {
			if !slices.Contains(rows, o.Test) {
				rows = append(rows, o.Test)
			}
		}
	}
	round := func(d time.Duration) time.Duration { return d.Round(time.Second) }
	anchor := func(row string) string { return strings.ReplaceAll(strings.ToLower(row), " ", "-") }
	var b strings.Builder
	page := template.Must(template.New("").Funcs(template.FuncMap{"round": round, "anchor": anchor}).Parse(pageText))
	must.OK(page.Execute(&b, map[string]any{"Date": date, "Suite": s, "Runs": runs, "Rows": rows}))
	return b.String()
}
