// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/dustin/go-humanize/english"

	"github.com/csccm/csccm/installer/engine"
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
	// Replaced are the controllers whose place was taken. They are still there, with no Pods.
	Replaced []string `json:"replaced,omitempty"`
	Command  []string `json:"command"` // that repeats the install, without secrets
}

func (w *work) summary(ctx context.Context) error {
	p, err := taintPlan(ctx, w.Env, w.Config, w.facts, w.access)
	if err != nil {
		return err
	}
	r := Result{
		SchemaVersion: 1, Release: w.release.Name, Namespace: w.Cluster.Namespace, Revision: w.release.Revision,
		ChartVersion: w.release.ChartVersion, AppVersion: w.release.AppVersion, Nodes: len(p.Items), Initialised: len(p.In(taint.StateDone)), Command: w.FlagLine(w.Env),
	}
	text := ""
	if t := w.plan.taker; t != nil {
		for i := range t.Plan.Predecessors {
			r.Replaced = append(r.Replaced, t.Plan.Predecessors[i].String())
		}
		text = "Took the place of " + strings.Join(r.Replaced, ", ") + ".\n" + t.Plan.Afterwards()
	}
	if w.Structured() {
		return report.Encode(w.Out, w.Output, r)
	}
	commands := w.StyleOf(w.Out).Commands
	_, err = fmt.Fprintf(w.Out, `%scloudstack-ccm %s runs in namespace %s; %d of %s initialised.
Check it at any time:  %s
The same again:        %s
`, commands(text), r.AppVersion, r.Namespace, r.Initialised, english.Plural(r.Nodes, "node", ""), commands("csccm doctor"), report.ShellLine(r.Command...))
	return err
}

// FlagLine is the command that repeats this install without questions: its flags, and what was answered. It names where
// secrets come from, never what they are.
func (c *Config) FlagLine(e *engine.Env) []string {
	k := &c.Credentials
	line := slices.Concat([]string{"csccm", "install"}, e.Cluster.Args(e.Release), c.Typed)
	given := func(flags ...string) bool {
		return slices.ContainsFunc(c.Typed, func(word string) bool { return slices.Contains(flags, word) })
	}
	answer := func(flag, value string) {
		if value != "" && !given(flag) {
			line = append(line, flag, value)
		}
	}
	switch {
	case k.FromPredecessor: // the Secret holds the keys now; the other provider's may go with it
	case k.Source == SourceAdmin:
		answer("--api-url", k.APIURL)
		if !given("--admin-api-key-file") {
			answer("--admin-user", k.AdminUser)
			answer("--admin-domain", k.AdminDomain)
			if !given("--admin-password-stdin") {
				answer("--admin-password-file", "FILE")
			}
		}
		answer("--domain", k.Domain)
		answer("--account", k.Account)
	case k.Source == SourceKeys:
		answer("--api-url", k.APIURL)
		if !given("--cloud-config") {
			answer("--api-key-file", "FILE")
			answer("--secret-key-file", "FILE")
		}
	}
	answer("--project", c.Project)
	answer("--zone", c.Zone)
	if k.SSLNoVerify && !given("--ssl-no-verify") && k.Source != SourceSecret && !k.FromPredecessor {
		line = append(line, "--ssl-no-verify")
	}
	answer("--accept", strings.Join(c.Accept, ","))
	answer("--pin", strings.Join(c.Pin, ","))
	return append(line, "--yes")
}
