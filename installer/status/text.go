// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/dustin/go-humanize/english"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/csccm/csccm/installer/check"
	"github.com/csccm/csccm/installer/check/decide"
	"github.com/csccm/csccm/installer/engine/report"
	"github.com/csccm/csccm/installer/kube/kubelet"
	"github.com/csccm/csccm/pkg/ui/terminal"
)

const (
	maxRows    = 5  // nodes, Services and problems each; fewer where the screen is full
	screen     = 21 // lines of 24: the others are for the head of --watch and the prompt
	titleWidth = 12
)

// view is a status in the making: as text for a screen.
type view struct {
	*Status
	style report.Style
	all   bool
	rows  int
	b     strings.Builder
}

// WriteText writes the status for a person: all of it, or what fits a screen of 24 lines of 80 columns.
func (s *Status) WriteText(w io.Writer, style report.Style, all bool) error {
	for rows := maxRows; ; rows-- {
		v := &view{Status: s, style: style, all: all, rows: rows}
		v.summary()
		v.table(v.nodeTable())
		v.table(v.serviceTable())
		v.problems()
		if text := v.b.String(); all || rows == 1 || strings.Count(text, "\n") <= screen {
			_, err := io.WriteString(w, text)
			return err
		}
	}
}

// marked writes a line after a symbol. Without all it is cut to the screen's width.
func (v *view) marked(symbol report.Symbol, title, text string) {
	indent := v.style.SymbolWidth() + 1 + len(title)
	if !v.all {
		text = terminal.Cut(text, v.style.Width-indent)
	}
	v.b.WriteString(v.style.Indented(v.style.Symbol(symbol)+" "+v.style.Paint(report.Strong, title), indent, text))
}

// line is one of the summary: how good it is and what it says; nothing without a text. What could not be read says nothing.
func (v *view) line(title string, of decide.Source, good bool, text string) {
	symbol := report.SymbolFailed
	if good {
		symbol = report.SymbolOK
	}
	if v.unread(of) {
		symbol, text = report.SymbolUnknown, "could not be read"
	}
	if text != "" {
		v.marked(symbol, fmt.Sprintf("%-*s", titleWidth, title), text)
	}
}

func (v *view) summary() {
	k, cloud, c, n, s := &v.Cluster, &v.CloudStack, &v.Controller, &v.Nodes, &v.Services
	v.line("Cluster", "", k.Version != "", cmp.Or(join(k.Version, strings.TrimPrefix(k.Distribution, "unknown"), k.Server), "no answer"))
	if cloud.URL == "" {
		v.line("CloudStack", "", false, "no usable credentials")
	} else {
		v.line("CloudStack", decide.VMs, cloud.VMs > 0,
			join(cloud.Version, label("project ", cloud.Project), label("zone ", cloud.Zone), english.Plural(cloud.VMs, "VM", ""), cloud.URL))
	}
	runs, leader := "no Deployment or DaemonSet of release "+c.Release+" in namespace "+c.Namespace, "no leader"
	if c.Leader != "" {
		leader = fmt.Sprintf("leader %s, renewed %s ago", c.Leader, time.Duration(c.LeaderSeconds*float64(time.Second)))
	}
	if c.Kind != "" {
		runs = join(c.AppVersion, c.Kind, fmt.Sprintf("%d of %d Pods ready", c.PodsReady, c.PodsWanted), leader, label("in CloudStack's UI as ", c.RegisteredAs))
	}
	v.line("Controller", decide.Controllers, c.PodsReady == c.PodsWanted && c.PodsWanted > 0, runs)
	release := ""
	if c.Revision > 0 {
		release = fmt.Sprintf("%s/%s revision %d, %s", c.Namespace, c.Release, c.Revision, join(label("chart ", c.ChartVersion), c.ReleaseStatus))
	} else if c.Kind != "" {
		release = "none of Helm: the " + c.Kind + " was made from a manifest, or by GitOps"
	}
	v.line("Release", decide.Releases, c.Revision == 0 || c.ReleaseStatus == "deployed", release)
	v.line("Others", "", false, strings.Join(c.Others, ", "))
	v.line("Nodes", decide.Nodes, n.Ready == n.Total && n.Initialised == n.Total && n.Total > 0,
		fmt.Sprintf("%d, %d ready, %d initialised, %d with external kubelet", n.Total, n.Ready, n.Initialised, n.Kubelets[string(kubelet.External)]))
	v.line("Services", decide.Services, s.WithAddress == s.Total, fmt.Sprintf("%d of type LoadBalancer, %d with an address", s.Total, s.WithAddress))
}

// table writes the rows that fit: without all the columns that a screen has no room for go, the last first, then names are cut.
func (v *view) table(t report.Table) {
	const columns, least = 4, 12
	rows := len(t.Rows)
	if rows == 0 {
		return
	}
	if width := v.style.Width; !v.all {
		t.Rows = t.Rows[:min(rows, v.rows)]
		for width > 0 && t.Width() > width && len(t.Header) > columns {
			t.Header = t.Header[:len(t.Header)-1]
		}
		names := report.Table{Header: t.Header[:1], Rows: t.Rows}
		if longest, over := names.Width(), t.Width()-width; width > 0 && over > 0 {
			for _, row := range t.Rows {
				row[0] = terminal.Cut(row[0], max(longest-over, least))
			}
		}
	}
	v.b.WriteByte('\n')
	_ = t.Write(&v.b, v.style)
	v.more(rows-len(t.Rows), " (-v shows all)")
}

func (v *view) more(hidden int, how string) {
	if hidden > 0 {
		fmt.Fprintf(&v.b, "... and %d more%s\n", hidden, how)
	}
}

func (v *view) nodeTable() report.Table {
	t := report.Table{Header: []string{"NODE", "STATE", "VM", "CHECKS", "KUBELET", "ZONE", "TYPE"}}
	noVM := "none"
	if v.unread(decide.VMs) {
		noVM = "?"
	}
	for i := range v.Nodes.Items {
		n := &v.Nodes.Items[i]
		state := "Ready"
		if !n.Ready {
			state = "NotReady"
		}
		if !n.Initialised {
			state += ", waits"
		}
		t.Add(n.Name, state, cmp.Or(n.VMState, noVM), v.codes(n.Problems), cmp.Or(n.Kubelet, "-"), cmp.Or(n.Zone, "-"), cmp.Or(n.Type, "-"))
	}
	return t
}

func (v *view) serviceTable() report.Table {
	t := report.Table{Header: []string{"SERVICE", "ADDRESS", "CHECKS", "AGE", "PORTS"}}
	for i := range v.Services.Items {
		x := &v.Services.Items[i]
		t.Add(x.Namespace+"/"+x.Name, cmp.Or(strings.Join(x.Addresses, ","), "none"), v.codes(x.Problems),
			duration.HumanDuration(time.Duration(x.AgeSeconds*float64(time.Second))), strings.Join(x.Ports, ","))
	}
	return t
}

// problems lists the checks that did not pass, the worst first, one line each.
func (v *view) problems() {
	m := v.Checks.Summary
	unfinished, _ := v.Unfinished()
	counts := fmt.Sprintf("%d ok, %d warning, %d failed, %d unknown", m.OK, m.Warning, m.Failed, m.Unknown-unfinished)
	if unfinished > 0 {
		counts += fmt.Sprintf(", %d not finished", unfinished)
	}
	const title = "Checks "
	v.b.WriteString("\n" + v.style.Indented(v.style.Paint(report.Strong, title), len(title), counts))
	shown := 0
	for _, worst := range []struct {
		outcome check.Outcome
		symbol  report.Symbol
	}{{check.Failed, report.SymbolFailed}, {check.Warning, report.SymbolWarning}, {check.Unknown, report.SymbolUnknown}} {
		for _, c := range v.Checks.Problems {
			if c.Outcome != worst.outcome || c.Unfinished {
				continue
			}
			if shown++; shown <= v.rows || v.all {
				v.marked(worst.symbol, "", c.Code+" "+c.Message)
			}
		}
	}
	if !v.all {
		v.more(shown-v.rows, "")
	}
	if shown > 0 {
		v.b.WriteString(v.style.Indented("", 0, "csccm doctor says more, and what to do."))
	}
}

// codes are those of the checks that name an object, on a screen the first two.
func (v *view) codes(all []string) string {
	if n := len(all); n > 2 && !v.all {
		return fmt.Sprintf("%s %s +%d", all[0], all[1], n-2)
	}
	return cmp.Or(strings.Join(all, " "), "-")
}

// label is prefix and text, or nothing without text.
func label(prefix, text string) string {
	if text == "" {
		return ""
	}
	return prefix + text
}

// join leaves out what is empty.
func join(parts ...string) string {
	return strings.Join(slices.DeleteFunc(parts, func(p string) bool { return p == "" }), ", ")
}
