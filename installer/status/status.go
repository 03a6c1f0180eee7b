// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package status sums a cluster up on one screen: versions, controller, nodes, Services, and what the
// checks find wrong.
package status

import (
	"cmp"
	"context"
	_ "embed" // the schema
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/csccm/csccm/installer/check"
	"github.com/csccm/csccm/installer/check/decide"
	"github.com/csccm/csccm/installer/kube/kubelet"
	"github.com/csccm/csccm/pkg/node"
)

// SchemaVersion is that of the JSON form; it grows when a field changes its meaning.
const SchemaVersion = 1

// Schema is the JSON schema of the JSON form. It refers to that of check's report beside it.
//
//go:embed status.schema.json
var Schema []byte

// Status is the state of a cluster. It holds no secret.
type Status struct {
	SchemaVersion int        `json:"schemaVersion"`
	At            time.Time  `json:"at"`
	Cluster       Cluster    `json:"cluster"`
	CloudStack    CloudStack `json:"cloudStack"`
	Controller    Controller `json:"controller"`
	Nodes         Nodes      `json:"nodes"`
	Services      Services   `json:"services"`
	Checks        Checks     `json:"checks"`
	// Unread names what could not be read, of parts: their values here are empty and say nothing.
	Unread []string     `json:"unread"`
	report check.Report // for the exit code
}

// Cluster names the cluster; Version is "" when it could not be asked.
type Cluster struct {
	Context      string `json:"context"`
	Server       string `json:"server"`
	Version      string `json:"version"`
	Distribution string `json:"distribution"`
}

// CloudStack is the cloud as the controller's credentials see it; all "" without them.
type CloudStack struct {
	URL     string `json:"url"`
	Version string `json:"version"`
	Project string `json:"project"`
	Zone    string `json:"zone"`
	VMs     int    `json:"vms"`
}

// Controller is the release and what runs of it. Revision 0 means that there is no release.
type Controller struct {
	Namespace     string   `json:"namespace"`
	Release       string   `json:"release"`
	Revision      int      `json:"revision"`
	ReleaseStatus string   `json:"releaseStatus"`
	Kind          string   `json:"kind"` // Deployment or DaemonSet; "" when nothing runs of it
	ChartVersion  string   `json:"chartVersion"`
	AppVersion    string   `json:"appVersion"`
	PodsWanted    int32    `json:"podsWanted"`
	PodsReady     int32    `json:"podsReady"`
	Images        []string `json:"images"`
	Leader        string   `json:"leader"`
	LeaderSeconds float64  `json:"leaderSeconds"` // since it renewed its lease
	// RegisteredAs is the name of the cluster in CloudStack's UI, if the controller keeps an entry there.
	RegisteredAs string `json:"registeredAs"`
	// Others are cloud controller managers that are not the release's: kind namespace/name.
	Others []string `json:"others"`
}

// Nodes counts and lists the nodes, those with something to say first.
type Nodes struct {
	Total       int            `json:"total"`
	Ready       int            `json:"ready"`
	Initialised int            `json:"initialised"`
	Kubelets    map[string]int `json:"kubelets"` // by verdict: external, not-external, unknown
	Items       []Node         `json:"items"`
}

// Node is one node with its VM; VM and VMState are "" when none, or more than one, is known.
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

// Services counts and lists the Services of type LoadBalancer, those with problems first.
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
	Ports      []string `json:"ports"` // 80/TCP
	AgeSeconds float64  `json:"ageSeconds"`
	Problems   []string `json:"problems"`
}

// Checks are the outcomes of the checks, and those that did not pass.
type Checks struct {
	Summary  check.Summary  `json:"summary"`
	Problems []check.Result `json:"problems"`
}

// parts are the names of what a status rests on.
var parts = map[decide.Source]string{
	decide.Nodes: "nodes", decide.Services: "services", decide.Controllers: "controllers", decide.Releases: "releases",
	decide.VMs: "vms",
}

func (s *Status) unread(source decide.Source) bool { return slices.Contains(s.Unread, parts[source]) }

// Collect runs the checks of an installed controller and sums up what they read.
func Collect(ctx context.Context, env *check.Env, progress func(check.Result)) *Status {
	r, facts := check.Inspect(ctx, env, check.Selection{Phase: check.PhaseInstalled}, progress)
	return New(env, r, facts)
}

// New sums up a report and the facts that it rests on.
func New(env *check.Env, r check.Report, f *check.Facts) *Status {
	s := &Status{
		SchemaVersion: SchemaVersion, At: f.At.UTC(), report: r,
		Cluster: Cluster{Context: r.Cluster.Context, Server: r.Cluster.Server, Version: f.Version, Distribution: string(f.Distribution)},
		Checks:  Checks{Summary: r.Summary, Problems: []check.Result{}}, Unread: []string{},
	}
	for source, name := range parts {
		if f.Err(source) != nil {
			s.Unread = append(s.Unread, name)
		}
	}
	slices.Sort(s.Unread)
	problems := map[string][]string{} // by kind namespace/name
	for _, c := range r.Checks {
		if c.Outcome == check.OK || c.Outcome == check.Skipped {
			continue
		}
		s.Checks.Problems = append(s.Checks.Problems, c)
		for _, o := range c.Objects {
			key := o.Kind + " " + o.Namespace + "/" + o.Name
			problems[key] = append(problems[key], c.Code)
		}
	}
	if cfg := env.CloudConfig; cfg != nil {
		s.CloudStack = CloudStack{URL: cfg.APIURL, Version: f.CloudStackVersion, Project: cfg.ProjectID, Zone: cfg.Zone}
		if f.VMs != nil {
			s.CloudStack.VMs = f.VMs.Len()
		}
	}
	s.Controller = controller(env, f)
	s.nodes(f, problems)
	s.services(f, problems)
	return s
}

func controller(env *check.Env, f *check.Facts) Controller {
	c := Controller{Namespace: env.Namespace, Release: env.Release, Images: []string{}, Others: []string{}}
	if n := len(f.Records); n > 0 {
		last := &f.Records[n-1]
		c.Revision, c.ReleaseStatus, c.ChartVersion, c.AppVersion = last.Revision, last.Status, last.ChartVersion, last.AppVersion
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
	holder, ago := f.Leader()
	c.Leader, _, _ = strings.Cut(holder, "_") // HOSTNAME_UUID: the second half says nothing to people
	c.LeaderSeconds = ago.Round(time.Second).Seconds()
	return c
}

func (s *Status) nodes(f *check.Facts, problems map[string][]string) {
	s.Nodes = Nodes{Total: len(f.Nodes), Items: []Node{}, Kubelets: map[string]int{}}
	verdicts := map[string]kubelet.Verdict{}
	for _, v := range f.Kubelets {
		verdicts[v.Node] = v.Verdict
		s.Nodes.Kubelets[string(v.Verdict)]++
	}
	for i := range f.Nodes {
		n := &f.Nodes[i]
		it := Node{
			Name: n.Name, Kubelet: string(verdicts[n.Name]), Zone: n.Labels[corev1.LabelTopologyZone], Type: n.Labels[corev1.LabelInstanceTypeStable],
			Ready: node.Ready(n), Initialised: n.Spec.ProviderID != "" && !node.HasTaint(n), Problems: list(problems["Node /"+n.Name]),
		}
		for _, a := range n.Status.Addresses {
			if a.Type == corev1.NodeInternalIP && it.Address == "" {
				it.Address = a.Address
			}
		}
		if vm, known := f.VM(n); known {
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
	for i := range f.Services {
		v := &f.Services[i]
		if v.Spec.Type != corev1.ServiceTypeLoadBalancer || v.Spec.LoadBalancerClass != nil {
			continue
		}
		it := Service{
			Namespace: v.Namespace, Name: v.Name, Addresses: []string{}, Ports: []string{},
			AgeSeconds: f.At.Sub(v.CreationTimestamp.Time).Round(time.Second).Seconds(), Problems: list(problems["Service "+v.Namespace+"/"+v.Name]),
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

// list is without repetitions and never nil.
func list(codes []string) []string {
	return slices.Compact(append([]string{}, codes...))
}

// Err carries the exit code that doctor would have, or is nil.
func (s *Status) Err(failOn check.Severity) error { return s.report.Err(failOn) }

// Unfinished is how many of all checks had not ended when the run did.
func (s *Status) Unfinished() (n, all int) { return s.report.Unfinished(), len(s.report.Checks) }
