// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package status summarises a cluster on one screen: versions, controller, nodes, Services, and problems found by the
// checks.
package status

import (
	"cmp"
	_ "embed" // the schema
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/dustin/go-humanize/english"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/csccm/csccm/installer/check"
	"github.com/csccm/csccm/installer/kube/kubelet"
	"github.com/csccm/csccm/installer/report"
	"github.com/csccm/csccm/pkg/node"
	"github.com/csccm/csccm/pkg/ui/terminal"
)

// SchemaVersion is the version of the JSON format; it grows if a field changes its meaning.
const SchemaVersion = 1

// Schema is the JSON schema of the JSON format. It refers to the schema of check's report, in the same folder.
//
//go:embed status.schema.json
var Schema []byte

// Status is the state of a cluster. It contains no secrets.
type Status struct {
	SchemaVersion int        `json:"schemaVersion"`
	At            time.Time  `json:"at"`
	Cluster       Cluster    `json:"cluster"`
	CloudStack    CloudStack `json:"cloudStack"`
	Controller    Controller `json:"controller"`
	Nodes         Nodes      `json:"nodes"`
	Services      Services   `json:"services"`
	Checks        Checks     `json:"checks"`
	// Unread has the names of the parts that could not be read; their fields are empty.
	Unread []string `json:"unread"`
	// Report is the report of the checks, for the exit code.
	Report check.Report `json:"-"`
}

// Cluster is the cluster; Version is "" if it could not be read.
type Cluster struct {
	Context      string `json:"context"`
	Server       string `json:"server"`
	Version      string `json:"version"`
	Distribution string `json:"distribution"`
}

// CloudStack is CloudStack as the controller's credentials see it; all fields are empty without credentials.
type CloudStack struct {
	URL     string `json:"url"`
	Version string `json:"version"`
	Project string `json:"project"`
	Zone    string `json:"zone"`
	VMs     int    `json:"vms"`
}

// Controller is the release and its running Pods. Revision is 0 if there is no Helm release.
type Controller struct {
	Namespace     string   `json:"namespace"`
	Release       string   `json:"release"`
	Revision      int      `json:"revision"`
	ReleaseStatus string   `json:"releaseStatus"`
	Kind          string   `json:"kind"` // Deployment or DaemonSet; "" if there is none
	ChartVersion  string   `json:"chartVersion"`
	AppVersion    string   `json:"appVersion"`
	PodsWanted    int32    `json:"podsWanted"`
	PodsReady     int32    `json:"podsReady"`
	Images        []string `json:"images"`
	Leader        string   `json:"leader"`
	LeaderSeconds float64  `json:"leaderSeconds"` // seconds since the leader renewed its lease
	stale         bool     // whether that is so long ago that the leader counts as dead
	// RegisteredAs is the name of the cluster in CloudStack's UI; "" if the controller does not register it.
	RegisteredAs string `json:"registeredAs"`
	// Others are cloud controller managers that do not belong to the release, as "kind namespace/name".
	Others []string `json:"others"`
}

// Nodes has the nodes and their numbers, those with problems first.
type Nodes struct {
	Total       int            `json:"total"`
	Ready       int            `json:"ready"`
	Initialised int            `json:"initialised"`
	Kubelets    map[string]int `json:"kubelets"` // by verdict: external, not-external, unknown
	Items       []Node         `json:"items"`
}

// Node is one node with its VM; VM and VMState are "" unless exactly one VM is known.
type Node struct {
	Name        string   `json:"name"`
	Ready       bool     `json:"ready"`
	Initialised bool     `json:"initialised"`
	Kubelet     string   `json:"kubelet"`
	Zone        string   `json:"zone"`
	Type        string   `json:"type"`
	Address     string   `json:"address"`
	VM          string   `json:"vm"`
	VMState     string   `json:"vmState"`
	Problems    []string `json:"problems"`
}

// Services has the Services of type LoadBalancer and their numbers, those with problems first.
type Services struct {
	Total       int       `json:"total"`
	WithAddress int       `json:"withAddress"`
	Items       []Service `json:"items"`
}

// Service is one Service of type LoadBalancer.
type Service struct {
	Namespace  string   `json:"namespace"`
	Name       string   `json:"name"`
	Addresses  []string `json:"addresses"`
	Ports      []string `json:"ports"` // such as 80/TCP
	AgeSeconds float64  `json:"ageSeconds"`
	Problems   []string `json:"problems"`
}

// Checks has the number of each outcome, and the checks that did not pass.
type Checks struct {
	Summary  check.Summary  `json:"summary"`
	Problems []check.Result `json:"problems"`
}

// parts are the names of the parts of a status, by their source.
var parts = map[check.Source]string{
	check.Nodes: "nodes", check.Services: "services", check.Controllers: "controllers", check.Releases: "releases",
	check.VMs: "vms",
}

func (s *Status) unread(source check.Source) bool { return slices.Contains(s.Unread, parts[source]) }

// New returns the status for a report and its facts.
func New(r check.Report, f *check.Facts) *Status {
	s := &Status{
		SchemaVersion: SchemaVersion, At: f.At.UTC(), Report: r,
		Cluster: Cluster{
			Context:      r.Cluster.Context,
			Server:       r.Cluster.Server,
			Version:      f.Version,
			Distribution: string(f.Distribution),
		},
		Checks: Checks{Summary: r.Summary, Problems: []check.Result{}}, Unread: []string{},
	}

	for source, name := range parts {
		if f.Err(source) != nil {
			s.Unread = append(s.Unread, name)
		}
	}

	slices.Sort(s.Unread)

	problems := map[string][]string{} // codes of checks, by object
	for _, c := range r.Checks {
		if c.Outcome == check.OK || c.Outcome == check.Skipped {
			continue
		}
		s.Checks.Problems = append(s.Checks.Problems, c)
		for _, o := range c.Objects {
			problems[o.String()] = append(problems[o.String()], c.Code)
		}
	}

	s.CloudStack = CloudStack{
		URL:     f.Config.APIURL,
		Version: f.CloudStackVersion,
		Project: f.Config.ProjectID,
		Zone:    f.Config.Zone,
	}

	if f.VMs != nil {
		s.CloudStack.VMs = f.VMs.Len()
	}

	s.Controller = controller(f)
	s.nodes(f, problems)
	s.services(f, problems)
	return s
}

func controller(f *check.Facts) Controller {
	c := Controller{Namespace: f.Namespace, Release: f.Release, Images: []string{}, Others: []string{}}
	if n := len(f.Records); n > 0 {
		last := &f.Records[n-1]
		c.Revision = last.Revision
		c.ReleaseStatus = last.Status
		c.ChartVersion = last.ChartVersion
		c.AppVersion = last.AppVersion
	}

	for _, w := range f.Controllers {
		if !w.Ours {
			c.Others = append(c.Others, fmt.Sprintf("%s %s/%s", w.Kind, w.Namespace, w.Name))
			continue
		}
		c.Kind, c.RegisteredAs = w.Kind, w.RegisteredAs()
		c.PodsWanted, c.PodsReady = c.PodsWanted+w.Wanted, c.PodsReady+w.Ready
		c.Images = append(c.Images, w.Images...)
	}

	if l := check.Leader(f.Leases); l != nil {
		// The holder is HOSTNAME_UUID; the UUID is of no interest to users.
		c.Leader, _, _ = strings.Cut(*l.Spec.HolderIdentity, "_")
		c.LeaderSeconds = f.At.Sub(l.Spec.RenewTime.Time).Round(time.Second).Seconds()
		c.stale = check.Stale(l, f.At)
	}

	return c
}

func (s *Status) nodes(f *check.Facts, problems map[string][]string) {
	s.Nodes = Nodes{Total: len(f.Nodes), Items: []Node{}, Kubelets: map[string]int{}}
	verdicts := map[string]kubelet.Verdict{}
	for _, v := range f.Kubelets {
		verdicts[v.Node] = v.Verdict
		s.Nodes.Kubelets[string(v.Verdict)]++
	}

	for _, n := range f.Nodes {
		it := Node{
			Name:        n.Name,
			Kubelet:     string(verdicts[n.Name]),
			Zone:        n.Labels[corev1.LabelTopologyZone],
			Type:        n.Labels[corev1.LabelInstanceTypeStable],
			Ready:       node.Ready(&n),
			Initialised: n.Spec.ProviderID != "" && !node.HasTaint(&n),
			Problems:    list(problems["Node "+n.Name]),
		}

		for _, a := range n.Status.Addresses {
			if a.Type == corev1.NodeInternalIP && it.Address == "" {
				it.Address = a.Address
			}
		}

		if vm, known := f.VM(&n); known {
			it.VM, it.VMState = vm.Name, string(vm.State)
		}

		if it.Ready {
			s.Nodes.Ready++
		}

		if it.Initialised {
			s.Nodes.Initialised++
		}

		s.Nodes.Items = append(s.Nodes.Items, it)
	}

	slices.SortStableFunc(s.Nodes.Items, func(a, b Node) int { return len(b.Problems) - len(a.Problems) })
}

func (s *Status) services(f *check.Facts, problems map[string][]string) {
	s.Services = Services{Items: []Service{}}
	for _, v := range f.Services {
		if v.Spec.Type != corev1.ServiceTypeLoadBalancer || !f.Classes().Handles(&v) {
			continue
		}
		it := Service{
			Namespace: v.Namespace, Name: v.Name, Addresses: []string{}, Ports: []string{},
			AgeSeconds: f.At.Sub(v.CreationTimestamp.Time).Round(time.Second).Seconds(),
			Problems:   list(problems["Service "+v.Namespace+"/"+v.Name]),
		}

		for _, in := range v.Status.LoadBalancer.Ingress {
			it.Addresses = append(it.Addresses, in.IP+in.Hostname)
		}
		for _, p := range v.Spec.Ports {
			it.Ports = append(it.Ports, fmt.Sprintf("%d/%s", p.Port, cmp.Or(p.Protocol, corev1.ProtocolTCP)))
		}
		s.Services.Total++
		if len(it.Addresses) > 0 {
			s.Services.WithAddress++
		}
		s.Services.Items = append(s.Services.Items, it)
	}

	slices.SortStableFunc(s.Services.Items, func(a, b Service) int { return len(b.Problems) - len(a.Problems) })
}

// list returns codes without adjacent duplicates; never nil.
func list(codes []string) []string {
	return slices.Compact(append([]string{}, codes...))
}

const (
	maxRows    = 5  // of nodes, Services and problems each; fewer if the screen is full
	screen     = 21 // lines of 24; the others are for the header of --watch and the shell prompt
	titleWidth = 12
)

// view formats a status as text.
type view struct {
	*Status
	style report.Style
	all   bool
	rows  int
	b     strings.Builder
}

// WriteText writes the status as text: all of it, or what fits a screen of 24 lines and 80 columns.
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

// marked writes a line with a symbol. Without all, it is cut to the screen's width.
func (v *view) marked(symbol report.Symbol, title, text string) {
	indent := v.style.SymbolWidth() + 1 + len(title)
	if !v.all {
		text = terminal.Cut(text, v.style.Width-indent)
	}
	v.b.WriteString(v.style.Indented(v.style.Symbol(symbol)+" "+v.style.Paint(report.Strong, title), indent, text))
}

// line writes a line of the summary with a symbol for its state, or nothing if text is "". If its source could not be
// read, the line says so.
func (v *view) line(title string, of check.Source, good bool, text string) {
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
	unreachable := check.Find(v.Checks.Problems, func(r *check.Result) bool { return r.Code == "K8S-001" })
	text := join(k.Version, strings.TrimPrefix(k.Distribution, "unknown"), k.Server)
	if unreachable != nil {
		text = unreachable.Message
	}
	v.line("Cluster", "", k.Version != "", cmp.Or(text, "no answer"))

	switch {
	case k.Version == "" && cloud.URL == "":
		// The credentials are in the cluster, which could not be read.
		v.line("CloudStack", check.Nodes, false, "no usable credentials")
	case cloud.URL == "":
		v.line("CloudStack", "", false, "no usable credentials")
	default:
		v.line("CloudStack", check.VMs, cloud.VMs > 0,
			join(cloud.Version, label("project ", cloud.Project), label("zone ", cloud.Zone),
				english.Plural(cloud.VMs, "VM", ""), cloud.URL))
	}

	runs, leader := "no Deployment or DaemonSet of release "+c.Release+" in namespace "+c.Namespace, "no leader"
	if c.Leader != "" {
		leader = fmt.Sprintf("leader %s, renewed %s ago", c.Leader, time.Duration(c.LeaderSeconds*float64(time.Second)))
	}

	if c.Kind != "" {
		runs = join(c.AppVersion, c.Kind, fmt.Sprintf("%d of %d Pods ready", c.PodsReady, c.PodsWanted), leader,
			label("in CloudStack's UI as ", c.RegisteredAs))
	}

	v.line("Controller", check.Controllers, c.PodsReady == c.PodsWanted && c.PodsWanted > 0 && !c.stale, runs)
	release := ""
	if c.Revision > 0 {
		release = fmt.Sprintf("%s/%s revision %d, %s", c.Namespace, c.Release, c.Revision,
			join(label("chart ", c.ChartVersion), c.ReleaseStatus))
	} else if c.Kind != "" {
		release = "not installed by Helm: the " + c.Kind + " was made from a manifest, or by GitOps"
	}

	v.line("Release", check.Releases, c.Revision == 0 || c.ReleaseStatus == "deployed", release)
	v.line("Others", "", false, strings.Join(c.Others, ", "))
	v.line("Nodes", check.Nodes, n.Ready == n.Total && n.Initialised == n.Total && n.Total > 0,
		fmt.Sprintf("%d, %d ready, %d initialised, %d with external kubelet", n.Total, n.Ready, n.Initialised,
			n.Kubelets[string(kubelet.External)]))
	v.line("Services", check.Services, s.WithAddress == s.Total,
		fmt.Sprintf("%d of type LoadBalancer, %d with an address", s.Total, s.WithAddress))
}

// table writes the rows that fit. Without all, it drops columns from the right, and then cuts names, until the table
// fits the screen's width.
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
	if v.unread(check.VMs) {
		noVM = "?"
	}
	for _, n := range v.Nodes.Items {
		state := "Ready"
		if !n.Ready {
			state = "NotReady"
		}
		if !n.Initialised {
			state += ", waits"
		}
		t.Add(n.Name, state, cmp.Or(n.VMState, noVM), v.codes(n.Problems), cmp.Or(n.Kubelet, "-"), cmp.Or(n.Zone, "-"),
			cmp.Or(n.Type, "-"))
	}
	return t
}

func (v *view) serviceTable() report.Table {
	t := report.Table{Header: []string{"SERVICE", "ADDRESS", "CHECKS", "AGE", "PORTS"}}
	for _, x := range v.Services.Items {
		t.Add(x.Namespace+"/"+x.Name, cmp.Or(strings.Join(x.Addresses, ","), "none"), v.codes(x.Problems),
			duration.HumanDuration(time.Duration(x.AgeSeconds*float64(time.Second))), strings.Join(x.Ports, ","))
	}
	return t
}

// problems writes the checks that did not pass, one line each, the worst first.
func (v *view) problems() {
	const title = "Checks "
	v.b.WriteString("\n" +
		v.style.Indented(v.style.Paint(report.Strong, title), len(title), v.Checks.Summary.Text(v.Report.Unfinished)))
	shown := 0
	for _, worst := range []check.Outcome{check.Failed, check.Warning, check.Unknown} {
		for _, c := range v.Checks.Problems {
			if c.Outcome != worst || c.Unfinished {
				continue
			}
			if shown++; shown <= v.rows || v.all {
				v.marked(check.Symbols[worst], "", c.Code+" "+c.Message)
			}
		}
	}

	if !v.all {
		v.more(shown-v.rows, "")
	}

	if shown > 0 {
		v.b.WriteString(v.style.Indented("", 0, "csccm doctor shows details and remedies."))
	}
}

// codes returns the codes of the checks that name an object; only the first two unless v.all is set.
func (v *view) codes(all []string) string {
	if n := len(all); n > 2 && !v.all {
		return fmt.Sprintf("%s %s +%d", all[0], all[1], n-2)
	}
	return cmp.Or(strings.Join(all, " "), "-")
}

// label returns prefix and text, or "" if text is "".
func label(prefix, text string) string {
	if text == "" {
		return ""
	}
	return prefix + text
}

// join joins the parts that are not empty.
func join(parts ...string) string {
	return strings.Join(slices.DeleteFunc(parts, func(p string) bool { return p == "" }), ", ")
}
