// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strconv"
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

// TextOptions says how a status is shown to a person.
type TextOptions struct {
	Style report.Style
	// All lists every node, Service and problem instead of what fits on a screen.
	All bool
	// Lines of the screen that may be used; 0 means those of a terminal of 24 lines with its prompt.
	Lines int
}

const (
	// maxRows is how many nodes, Services and problems are listed at most, fewer where the screen is full.
	maxRows      = 5
	defaultLines = 23
	titleWidth   = 12
)

// view is a status in the making: as text for a screen.
type view struct {
	*Status
	TextOptions
	rows int
	b    strings.Builder
}

// WriteText writes the status for a person. Without All it fits a screen of 24 lines of 80 columns.
func (s *Status) WriteText(w io.Writer, o TextOptions) error {
	if o.Lines == 0 {
		o.Lines = defaultLines
	}
	for rows := maxRows; ; rows-- {
		v := &view{Status: s, TextOptions: o, rows: rows}
		if err := v.write(); err != nil {
			return err
		}
		if text := v.b.String(); o.All || rows == 1 || strings.Count(text, "\n") <= o.Lines {
			_, err := io.WriteString(w, text)
			return err
		}
	}
}

// line is one of the summary; without All it is cut to the screen's width.
func (v *view) line(y report.Symbol, title, format string, args ...any) {
	pad := strings.Repeat(" ", max(titleWidth-len(title), 1))
	indent := v.Style.SymbolWidth() + 1 + titleWidth
	text := fmt.Sprintf(format, args...)
	if !v.All {
		text = terminal.Cut(text, v.Style.Width-indent)
	}
	v.b.WriteString(v.Style.Indented(v.Style.Symbol(y)+" "+v.Style.Paint(report.Strong, title)+pad, indent, text))
}

func mark(good bool) report.Symbol {
	if good {
		return report.SymbolOK
	}
	return report.SymbolFailed
}

func (v *view) write() error {
	v.line(mark(v.Cluster.Version != ""), "Cluster", "%s", cmp.Or(join(", ", v.Cluster.Version, strings.TrimPrefix(v.Cluster.Distribution, "unknown"), v.Cluster.Server), "no answer"))
	if v.CloudStack.URL == "" {
		v.line(report.SymbolUnknown, "CloudStack", "no usable credentials")
	} else {
		vms, symbol := english.Plural(v.CloudStack.VMs, "VM", ""), mark(v.CloudStack.VMs > 0)
		if v.unread(decide.VMs) {
			vms, symbol = "VMs: ?", report.SymbolUnknown
		}
		v.line(symbol, "CloudStack", "%s", join(", ", v.CloudStack.Version, label("project ", v.CloudStack.Project), label("zone ", v.CloudStack.Zone),
			vms, v.CloudStack.URL))
	}
	v.summary()
	for _, t := range []report.Table{v.nodeTable(), v.serviceTable()} {
		if len(t.Rows) == 0 {
			continue
		}
		hidden := len(t.Rows)
		if !v.All {
			t.Rows = t.Rows[:min(len(t.Rows), v.rows)]
			fit(&t, v.Style.Width)
		}
		v.b.WriteByte('\n')
		if err := t.Write(&v.b, v.Style); err != nil {
			return err
		}
		if hidden -= len(t.Rows); hidden > 0 {
			fmt.Fprintf(&v.b, "... and %d more (-v shows all)\n", hidden)
		}
	}
	v.problems()
	return nil
}

// summary is a line for each of controller, release, nodes and Services.
func (v *view) summary() {
	const notRead = "could not be read"
	c := &v.Controller
	switch {
	case v.unread(decide.Controllers):
		v.line(report.SymbolUnknown, "Controller", notRead)
	case c.Kind == "" && c.Revision > 0 && c.ReleaseStatus != "uninstalled":
		v.line(report.SymbolFailed, "Controller", "release %s has no Deployment or DaemonSet in namespace %s", c.Release, c.Namespace)
	case c.Kind == "":
		v.line(report.SymbolFailed, "Controller", "not installed in namespace %s", c.Namespace)
	case c.PodsWanted == 0:
		v.line(report.SymbolFailed, "Controller", "%s", join(", ", c.AppVersion, c.Kind+" wants 0 Pods: nothing runs"))
	default:
		v.line(mark(c.PodsReady == c.PodsWanted), "Controller", "%s", join(", ", c.AppVersion, c.Kind, fmt.Sprintf("%d of %d Pods ready", c.PodsReady, c.PodsWanted),
			label("leader ", c.Leader), ago(c), label("in CloudStack's UI as ", c.RegisteredAs)))
	}
	switch {
	case v.unread(decide.Releases):
		v.line(report.SymbolUnknown, "Release", notRead)
	case c.Revision == 0 && c.Kind != "":
		v.line(report.SymbolOK, "Release", "none of Helm: the %s was made from a manifest, or by GitOps", c.Kind)
	case c.Revision > 0:
		v.line(mark(c.ReleaseStatus == "deployed"), "Release", "%s/%s revision %d, %s", c.Namespace, c.Release, c.Revision, join(", ", label("chart ", c.ChartVersion), c.ReleaseStatus))
	}
	if len(c.Others) > 0 {
		v.line(report.SymbolFailed, "Others", "%s", strings.Join(c.Others, ", "))
	}
	if n := &v.Nodes; v.unread(decide.Nodes) {
		v.line(report.SymbolUnknown, "Nodes", notRead)
	} else {
		v.line(mark(n.Ready == n.Total && n.Initialised == n.Total && n.Total > 0), "Nodes", "%d, %d ready, %d initialised, %d with external kubelet",
			n.Total, n.Ready, n.Initialised, n.Kubelets[string(kubelet.External)])
	}
	if v.unread(decide.Services) {
		v.line(report.SymbolUnknown, "Services", notRead)
	} else {
		v.line(mark(v.Services.WithAddress == v.Services.Total), "Services", "%d of type LoadBalancer, %d with an address", v.Services.Total, v.Services.WithAddress)
	}
}

// nodeTable lists the nodes; a screen has no room for all columns.
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
	t := report.Table{Header: []string{"SERVICE", "ADDRESS", "RULES", "CHECKS", "AGE", "PORTS"}}
	for i := range v.Services.Items {
		x := &v.Services.Items[i]
		rules := strconv.Itoa(x.Rules)
		if v.unread(decide.Balancers) {
			rules = "?"
		}
		t.Add(x.Namespace+"/"+x.Name, cmp.Or(strings.Join(x.Addresses, ","), "none"), fmt.Sprintf("%s/%d", rules, len(x.Ports)),
			v.codes(x.Problems), duration.HumanDuration(time.Duration(x.AgeSeconds*float64(time.Second))), strings.Join(x.Ports, ","))
	}
	return t
}

// problems lists the checks that did not pass, the worst first, one line each.
func (v *view) problems() {
	st, m := v.Style, v.Checks.Summary
	const title = "Checks"
	unfinished, _ := v.Unfinished()
	counts := fmt.Sprintf("%d ok, %d warning, %d failed, %d unknown", m.OK, m.Warning, m.Failed, m.Unknown-unfinished)
	if unfinished > 0 {
		counts += fmt.Sprintf(", %d not finished", unfinished)
	}
	v.b.WriteString("\n" + st.Indented(st.Paint(report.Strong, title)+" ", len(title)+1, counts))
	shown := 0
	for _, outcome := range []check.Outcome{check.Failed, check.Warning, check.Unknown} {
		for _, c := range v.Checks.Problems {
			if c.Outcome != outcome || c.Unfinished {
				continue
			}
			if shown++; shown > v.rows && !v.All {
				continue
			}
			symbol := map[check.Outcome]report.Symbol{check.Failed: report.SymbolFailed, check.Warning: report.SymbolWarning, check.Unknown: report.SymbolUnknown}[outcome]
			text := c.Code + " " + c.Message
			if !v.All { // a line each
				text = terminal.Cut(text, st.Width-st.SymbolWidth()-1)
			}
			v.b.WriteString(st.Indented(st.Symbol(symbol)+" ", st.SymbolWidth()+1, text))
		}
	}
	if hidden := shown - v.rows; hidden > 0 && !v.All {
		fmt.Fprintf(&v.b, "... and %d more\n", hidden)
	}
	if shown > 0 {
		v.b.WriteString(st.Indented("", 0, "csccm doctor says more, and what to do."))
	}
}

// fit makes a table as narrow as a screen: columns go, the last first, then names are cut.
func fit(t *report.Table, width int) {
	const columns, least = 4, 12
	for n := len(t.Header); width > 0 && t.Width() > width && n > columns; n-- {
		t.Header = t.Header[:n-1]
		for i := range t.Rows {
			t.Rows[i] = t.Rows[i][:n-1]
		}
	}
	names := 0
	for _, row := range t.Rows {
		names = max(names, len([]rune(row[0])))
	}
	if over := t.Width() - width; width > 0 && over > 0 {
		for _, row := range t.Rows {
			row[0] = terminal.Cut(row[0], max(names-over, least))
		}
	}
}

// codes are those of the checks that name an object, on a screen the first two.
func (v *view) codes(all []string) string {
	if n := len(all); n > 2 && !v.All {
		return fmt.Sprintf("%s %s +%d", all[0], all[1], n-2)
	}
	return cmp.Or(strings.Join(all, " "), "-")
}

func ago(c *Controller) string {
	if c.Leader == "" {
		return "no leader"
	}
	return fmt.Sprintf("renewed %s ago", time.Duration(c.LeaderSeconds*float64(time.Second)))
}

// label is prefix and text, or nothing without text.
func label(prefix, text string) string {
	if text == "" {
		return ""
	}
	return prefix + text
}

// join leaves out what is empty.
func join(sep string, parts ...string) string {
	return strings.Join(slices.DeleteFunc(parts, func(p string) bool { return p == "" }), sep)
}
