// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/csccm/csccm/installer/engine/report"
	"github.com/csccm/csccm/installer/taint"
	"github.com/csccm/csccm/pkg/plural"
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
`, r.AppVersion, r.Namespace, r.Initialised, plural.Count(r.Nodes, "node"), in.StyleOf(in.Out).Commands("csccm doctor"), report.ShellLine(r.Command...))
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

// FlagLine is the command that repeats this install without questions. It names
// where secrets come from, never what they are.
func (in *Installer) FlagLine() []string {
	c := &in.Credentials
	line := append([]string{"csccm", "install"}, in.Cluster.Args(in.Release)...)
	add := func(flag string, value any) {
		switch v := value.(type) {
		case bool:
			if v {
				line = append(line, flag)
			}
		case string:
			if v != "" {
				line = append(line, flag, v)
			}
		}
	}
	from := func(otherwise ...string) {
		if len(c.Origin) > 0 {
			otherwise = c.Origin
		}
		line = append(line, otherwise...)
	}
	source := c.Source
	if c.FromPredecessor {
		source = SourceSecret // which holds the keys now; the other provider's Secret may go with it
	}
	if source != SourceSecret {
		add("--api-url", c.APIURL)
		add("--ca-file", c.CAFile)
		add("--ssl-no-verify", c.SSLNoVerify)
	}
	switch source {
	case SourceAdmin:
		if c.AdminUser == "" {
			from("--admin-api-key-file", "FILE", "--admin-secret-key-file", "FILE")
		} else {
			if len(c.Origin) == 0 || c.Origin[0] != "--admin-cmk-profile" {
				add("--admin-user", c.AdminUser)
				add("--admin-domain", c.AdminDomain)
			}
			from("--admin-password-file", "FILE")
		}
		add("--domain", c.Domain)
		add("--account", c.Account)
		add("--user", c.User)
		add("--role-name", c.Role)
		add("--create-account", c.CreateAccount)
		add("--allow-http", c.AllowHTTP)
	case SourceKeys:
		from("--api-key-file", "FILE", "--secret-key-file", "FILE")
	case SourceSecret, SourceUnset:
	}
	add("--project", in.Project)
	add("--zone", in.Zone)
	add("--region", in.Region)
	add("--cluster-id", in.ClusterID)
	add("--chart", in.ChartRef)
	line = append(line, in.ValueFlags...)
	add("--skip-check", strings.Join(in.SkipChecks, ","))
	add("--require-external", in.RequireExternal)
	add("--skip-self-test", in.SkipSelfTest)
	add("--skip-taint", in.SkipTaint)
	if in.taker != nil {
		add("--accept", strings.Join(in.Accept, ","))
		add("--pin", strings.Join(in.Pin, ","))
	}
	return append(line, "--yes")
}
