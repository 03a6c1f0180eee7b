// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/dustin/go-humanize/english"

	"github.com/csccm/csccm/installer/engine/report"
	"github.com/csccm/csccm/installer/taint"
)

// Result is what a finished install says.
type Result struct {
	SchemaVersion int    `json:"schemaVersion"`
	Release       string `json:"release"`
	Namespace     string `json:"namespace"`
	Revision      int    `json:"revision"`
	ChartVersion  string `json:"chartVersion"`
	AppVersion    string `json:"appVersion"`
	Nodes         int    `json:"nodes"`
	Initialised   int    `json:"initialised"`
	// Takeover is set where another provider was replaced.
	Takeover *ResultTakeover `json:"takeover,omitempty"`
	Command  []string        `json:"command"` // that repeats the install, without secrets
}

// ResultTakeover says whose place was taken. The replaced controllers are still there, with no Pods.
type ResultTakeover struct {
	Replaced []string `json:"replaced"`
}

func (in *Installer) tookOver() *ResultTakeover {
	if in.taker == nil {
		return nil
	}
	r := &ResultTakeover{Replaced: []string{}}
	for i := range in.taker.Plan.Predecessors {
		r.Replaced = append(r.Replaced, in.taker.Plan.Predecessors[i].String())
	}
	return r
}

func (in *Installer) summary(ctx context.Context) error {
	release := in.facts.release
	r := Result{
		SchemaVersion: 1, Release: release.Name, Namespace: in.Cluster.Namespace, Revision: release.Revision,
		ChartVersion: release.ChartVersion, AppVersion: release.AppVersion, Takeover: in.tookOver(), Command: in.FlagLine(),
	}
	plan, err := in.taintPlan(ctx)
	if err != nil {
		return err
	}
	r.Nodes, r.Initialised = len(plan.Items), done(plan)
	if in.Structured() {
		return report.Encode(in.Out, in.Output, r)
	}
	if t := r.Takeover; t != nil {
		text := "Took the place of " + strings.Join(t.Replaced, ", ") + ".\n" + in.taker.Plan.Afterwards()
		if _, err := io.WriteString(in.Out, in.StyleOf(in.Out).Commands(text)); err != nil {
			return err
		}
	}
	_, err = fmt.Fprintf(in.Out, `cloudstack-ccm %s runs in namespace %s; %d of %s initialised.
Check it at any time:  %s
The same again:        %s
`, r.AppVersion, r.Namespace, r.Initialised, english.Plural(r.Nodes, "node", ""), in.StyleOf(in.Out).Commands("csccm doctor"), report.ShellLine(r.Command...))
	return err
}

func done(p *taint.Plan) int {
	n := 0
	for _, it := range p.Items {
		if it.State == taint.StateDone {
			n++
		}
	}
	return n
}

// FlagLine is the command that repeats this install without questions: its flags, and what was answered. It names where
// secrets come from, never what they are.
func (in *Installer) FlagLine() []string {
	c := &in.Credentials
	line := slices.Concat([]string{"csccm", "install"}, in.Cluster.Args(in.Release), in.Typed)
	given := func(flags ...string) bool {
		return slices.ContainsFunc(in.Typed, func(word string) bool { return slices.Contains(flags, word) })
	}
	answer := func(flag, value string) {
		if value != "" && !given(flag) {
			line = append(line, flag, value)
		}
	}
	switch {
	case c.FromPredecessor: // the Secret holds the keys now; the other provider's may go with it
	case c.Source == SourceAdmin:
		answer("--api-url", c.APIURL)
		if !given("--admin-cmk-profile", "--admin-api-key-file") {
			answer("--admin-user", c.AdminUser)
			answer("--admin-domain", c.AdminDomain)
			if !given("--admin-password-stdin") {
				answer("--admin-password-file", "FILE")
			}
		}
		answer("--domain", c.Domain)
		answer("--account", c.Account)
	case c.Source == SourceKeys:
		answer("--api-url", c.APIURL)
		if !given("--cloud-config", "--cmk-profile") {
			answer("--api-key-file", "FILE")
			answer("--secret-key-file", "FILE")
		}
	}
	answer("--project", in.Project)
	answer("--zone", in.Zone)
	if c.SSLNoVerify && !given("--ssl-no-verify") && c.Source != SourceSecret && !c.FromPredecessor {
		line = append(line, "--ssl-no-verify")
	}
	answer("--accept", strings.Join(in.Accept, ","))
	answer("--pin", strings.Join(in.Pin, ","))
	return append(line, "--yes")
}
