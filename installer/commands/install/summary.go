// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/csccm/csccm/installer/commands/taint"
	"github.com/csccm/csccm/installer/engine"
	"github.com/csccm/csccm/installer/engine/report"
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

// ResultTakeover says whose place was taken.
type ResultTakeover struct {
	Replaced []string `json:"replaced"`
	Kept     bool     `json:"kept"` // they are still there, with no Pods
	// Journal is the file that csccm migrate-rules --undo goes back by; "" where no rule was renamed.
	Journal string `json:"journal,omitempty"`
}

func (in *Installer) tookOver() *ResultTakeover {
	if in.taker == nil {
		return nil
	}
	r := &ResultTakeover{Replaced: []string{}, Kept: in.Options.KeepOld, Journal: in.taker.Journal()}
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
	if in.env.Structured() {
		return report.Encode(in.Out, in.Options.Output, r)
	}
	if t := r.Takeover; t != nil {
		if _, err := fmt.Fprintf(in.Out, "Took the place of %s.\n", strings.Join(t.Replaced, ", ")); err != nil {
			return err
		}
		back := ""
		switch {
		case t.Kept:
			back = "Back to it:  csccm takeover --undo" + in.namespaceFlag() + "\n"
		case t.Journal != "":
			back = "Names of the rules, back:  csccm migrate-rules --undo " + t.Journal + "\n"
		}
		if _, err := io.WriteString(in.Out, back); err != nil {
			return err
		}
	}
	_, err = fmt.Fprintf(in.Out, `cloudstack-ccm %s runs in namespace %s; %d of %s initialised.
Check it at any time:  csccm doctor%s
The same again:        %s
`, r.AppVersion, r.Namespace, r.Initialised, count(r.Nodes, "node"), in.namespaceFlag(), report.ShellLine(r.Command...))
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

func (in *Installer) namespaceFlag() string {
	if in.Cluster.Namespace == "kube-system" {
		return ""
	}
	return " -n " + in.Cluster.Namespace
}

// FlagLine is the command that repeats this install without questions. It names
// where secrets come from, never what they are.
func (in *Installer) FlagLine() []string {
	o, c := &in.Options, &in.Options.Credentials
	line := []string{"csccm", "install"}
	add := func(flag, value string) {
		if value != "" {
			line = append(line, flag, value)
		}
	}
	if in.Cluster.Namespace != "kube-system" {
		add("--namespace", in.Cluster.Namespace)
	}
	if o.Release != engine.DefaultRelease {
		add("--release", o.Release)
	}
	source := c.Source
	if c.FromPredecessor {
		source = SourceSecret // which holds the keys now; the other provider's Secret may go with it
	}
	if source != SourceSecret {
		add("--api-url", c.APIURL)
		add("--ca-file", c.CAFile)
		if c.SSLNoVerify {
			line = append(line, "--ssl-no-verify")
		}
	}
	switch source {
	case SourceAdmin:
		fromCMK := len(c.Origin) > 0 && strings.HasPrefix(c.Origin[0], "--admin-cmk-profile")
		if c.AdminUser != "" && !fromCMK {
			add("--admin-user", c.AdminUser)
			add("--admin-domain", c.AdminDomain)
		}
		switch {
		case len(c.Origin) > 0:
			line = append(line, c.Origin...)
		case c.AdminUser != "":
			add("--admin-password-file", "FILE")
		default:
			line = append(line, "--admin-api-key-file", "FILE", "--admin-secret-key-file", "FILE")
		}
		add("--domain", c.Domain)
		add("--account", c.Account)
		add("--user", c.User)
		add("--role-name", c.Role)
		if c.CreateAccount {
			line = append(line, "--create-account")
		}
		if c.AllowHTTP {
			line = append(line, "--allow-http")
		}
	case SourceKeys:
		if len(c.Origin) > 0 {
			line = append(line, c.Origin...)
		} else {
			line = append(line, "--api-key-file", "FILE", "--secret-key-file", "FILE")
		}
	case SourceSecret, SourceUnset:
	}
	add("--project", o.Project)
	add("--zone", o.Zone)
	add("--region", o.Region)
	add("--cluster-id", o.ClusterID)
	add("--chart", o.ChartRef)
	line = append(line, o.ValueFlags...)
	if o.StrictTenancy {
		line = append(line, "--strict-tenancy")
	}
	if o.SkipSelfTest {
		line = append(line, "--skip-self-test")
	}
	if in.taker != nil {
		add("--accept", strings.Join(o.Accept, ","))
		add("--pin", strings.Join(o.Pin, ","))
		if o.KeepOld {
			line = append(line, "--keep-old")
		}
	}
	return append(line, "--yes")
}
