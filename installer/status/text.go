// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"fmt"
	"io"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/csccm/csccm/installer/check"
	"github.com/csccm/csccm/installer/kubelet"
	"github.com/csccm/csccm/installer/report"
)

// TextOptions says how a status is shown to a person.
type TextOptions struct {
	Style report.Style
	// All lists every node, Service and problem instead of what fits on a screen.
	All bool
}

// maxRows is how many nodes, Services and problems are listed, so that all fits on one screen.
const maxRows = 5

// WriteText writes the status for a person.
func (s *Status) WriteText(w io.Writer, o TextOptions) error {
	var b strings.Builder
	st := o.Style
	line := func(y report.Symbol, title, format string, args ...any) {
		const width = 12
		pad := strings.Repeat(" ", max(width-len(title), 1))
		indent := st.SymbolWidth() + 1 + width
		b.WriteString(st.Indented(st.Symbol(y)+" "+st.Paint(report.Strong, title)+pad, indent, fmt.Sprintf(format, args...)))
	}
	mark := func(good bool) report.Symbol {
		if good {
			return report.SymbolOK
		}
		return report.SymbolFailed
	}
	line(mark(s.Cluster.Version != ""), "Cluster", "%s", orElse(join(", ", s.Cluster.Version, known(s.Cluster.Distribution), s.Cluster.Server), "no answer"))
	if s.CloudStack.URL == "" {
		line(report.SymbolUnknown, "CloudStack", "no usable credentials")
	} else {
		line(mark(s.CloudStack.VMs > 0), "CloudStack", "%s", join(", ", s.CloudStack.Version, label("project ", s.CloudStack.Project), label("zone ", s.CloudStack.Zone),
			fmt.Sprintf("%d VMs", s.CloudStack.VMs), s.CloudStack.URL))
	}
	c := &s.Controller
	switch {
	case c.PodsWanted == 0:
		line(report.SymbolFailed, "Controller", "not installed in namespace %s", c.Namespace)
	default:
		line(mark(c.PodsReady == c.PodsWanted), "Controller", "%s", join(", ", c.AppVersion, fmt.Sprintf("%d of %d Pods ready", c.PodsReady, c.PodsWanted),
			label("leader ", c.Leader), ago(c)))
		line(mark(c.ReleaseStatus == "deployed"), "Release", "%s/%s revision %d, %s", c.Namespace, c.Release, c.Revision, join(", ", label("chart ", c.ChartVersion), c.ReleaseStatus))
	}
	if len(c.Others) > 0 {
		line(report.SymbolFailed, "Others", "%s", strings.Join(c.Others, ", "))
	}
	n := &s.Nodes
	line(mark(n.Ready == n.Total && n.Initialised == n.Total && n.Total > 0), "Nodes", "%d, %d ready, %d initialised, %d with external kubelet",
		n.Total, n.Ready, n.Initialised, n.Kubelets[string(kubelet.External)])
	line(mark(s.Services.WithAddress == s.Services.Total), "Services", "%d of type LoadBalancer, %d with an address", s.Services.Total, s.Services.WithAddress)

	for _, table := range []struct {
		t report.Table
		n int
	}{{s.nodeTable(o), len(n.Items)}, {s.serviceTable(o), len(s.Services.Items)}} {
		if table.n == 0 {
			continue
		}
		b.WriteByte('\n')
		if err := table.t.Write(&b, st); err != nil {
			return err
		}
		if hidden := table.n - len(table.t.Rows); hidden > 0 {
			fmt.Fprintf(&b, "... and %d more (-v shows all)\n", hidden)
		}
	}
	s.problems(&b, o)
	_, err := io.WriteString(w, b.String())
	return err
}

func (s *Status) nodeTable(o TextOptions) report.Table {
	t := report.Table{Header: []string{"NODE", "STATE", "KUBELET", "VM", "ZONE", "TYPE", "CHECKS"}}
	for i := range s.Nodes.Items {
		if i == maxRows && !o.All {
			break
		}
		n := &s.Nodes.Items[i]
		state := "Ready"
		if !n.Ready {
			state = "NotReady"
		}
		if !n.Initialised {
			state += ", waits"
		}
		t.Add(n.Name, state, orElse(n.Kubelet, "-"), orElse(n.VMState, "none"), orElse(n.Zone, "-"), orElse(n.Type, "-"), orElse(strings.Join(n.Problems, " "), "-"))
	}
	return t
}

func (s *Status) serviceTable(o TextOptions) report.Table {
	t := report.Table{Header: []string{"SERVICE", "ADDRESS", "PORTS", "RULES", "AGE", "CHECKS"}}
	for i := range s.Services.Items {
		if i == maxRows && !o.All {
			break
		}
		v := &s.Services.Items[i]
		age := duration.HumanDuration(time.Duration(v.AgeSeconds * float64(time.Second)))
		t.Add(v.Namespace+"/"+v.Name, orElse(strings.Join(v.Addresses, ","), "none"), strings.Join(v.Ports, ","),
			fmt.Sprintf("%d/%d", v.Rules, len(v.Ports)), age, orElse(strings.Join(v.Problems, " "), "-"))
	}
	return t
}

// problems lists the checks that did not pass, the worst first, one line each.
func (s *Status) problems(b *strings.Builder, o TextOptions) {
	st := o.Style
	m := s.Checks.Summary
	fmt.Fprintf(b, "\n%s %d ok, %d warning, %d failed, %d unknown\n", st.Paint(report.Strong, "Checks"), m.OK, m.Warning, m.Failed, m.Unknown)
	shown := 0
	for _, outcome := range []check.Outcome{check.Failed, check.Warning, check.Unknown} {
		for _, c := range s.Checks.Problems {
			if c.Outcome != outcome {
				continue
			}
			if shown++; shown > maxRows && !o.All {
				continue
			}
			symbol := map[check.Outcome]report.Symbol{check.Failed: report.SymbolFailed, check.Warning: report.SymbolWarning, check.Unknown: report.SymbolUnknown}[outcome]
			b.WriteString(st.Indented(st.Symbol(symbol)+" ", st.SymbolWidth()+1, c.Code+" "+c.Message))
		}
	}
	if hidden := shown - maxRows; hidden > 0 && !o.All {
		fmt.Fprintf(b, "... and %d more\n", hidden)
	}
	if shown > 0 {
		b.WriteString("csccm doctor says more, and what to do.\n")
	}
}

func ago(c *Controller) string {
	if c.Leader == "" {
		return "no leader"
	}
	return fmt.Sprintf("renewed %s ago", time.Duration(c.LeaderSeconds*float64(time.Second)))
}

func known(distribution string) string {
	if distribution == "unknown" {
		return ""
	}
	return distribution
}

// label is prefix and text, or nothing without text.
func label(prefix, text string) string {
	if text == "" {
		return ""
	}
	return prefix + text
}

func orElse(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}

// join leaves out what is empty.
func join(sep string, parts ...string) string {
	var out []string
	for _, p := range parts {
		if p != "" {
			out = append(out, p)
		}
	}
	return strings.Join(out, sep)
}
