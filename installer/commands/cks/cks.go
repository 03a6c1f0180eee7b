// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package cks says what a cluster of CloudStack Kubernetes Service needs so that
// csccm's controller works in it and stays. CKS deploys a provider of its own
// when a worker starts or the cluster is upgraded, unless a Pod's line of
// "kubectl get pods -A" holds "cloud-controller-manager"; it keeps a Secret
// cloudstack-secret that is there; and it starts kubelets without
// --cloud-provider=external.
package cks

import (
	"context"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csccm/csccm/installer/cloud/credentials"
	"github.com/csccm/csccm/installer/commands/cks/preflight"
	"github.com/csccm/csccm/installer/commands/migrate"
	"github.com/csccm/csccm/installer/commands/taint"
	"github.com/csccm/csccm/installer/commands/takeover"
	"github.com/csccm/csccm/installer/kube/cluster"
	"github.com/csccm/csccm/installer/kube/kubelet"
	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/node"
	"github.com/csccm/csccm/pkg/plural"
)

// PodMark is what CKS greps the list of all Pods for.
const PodMark = "cloud-controller-manager"

// Facts is what Judge decides by.
type Facts struct {
	Distribution cluster.Distribution
	// Cluster is CKS's own object; nil when it is not known. Why says why not.
	Cluster *cloudstack.KubernetesCluster
	Why     string
	// Pods are namespace/name of those that keep CKS from deploying its provider.
	Pods         []string
	Predecessors []takeover.Predecessor
	Own          takeover.Own
	// Secret is the problem with Secret cloudstack-secret; "" when it is good. Project is its project-id.
	Secret, Project string
	// NotExternal and Waiting are names of nodes: kubelets without the flag, and nodes that nothing initialised.
	NotExternal, Waiting []string
	// Adopts: the controller initialises nodes whose kubelets run without the flag.
	Adopts bool
}

// Finding is one thing that a CKS cluster needs.
type Finding struct {
	Topic  string `json:"topic"`
	OK     bool   `json:"ok"`
	Text   string `json:"text"`
	Remedy string `json:"remedy,omitempty"`
	// Failed tells a thing that does not work from one that will need a hand.
	Failed bool `json:"failed,omitempty"`
}

// Report is what csccm cks shows.
type Report struct {
	SchemaVersion int       `json:"schemaVersion"`
	CKS           bool      `json:"cks"`
	Cluster       string    `json:"cluster,omitempty"` // name in CloudStack
	Findings      []Finding `json:"findings"`
}

// Failed reports whether anything does not work.
func (r *Report) Failed() bool {
	return slices.ContainsFunc(r.Findings, func(f Finding) bool { return f.Failed })
}

// Judge decides. It is pure.
func Judge(f *Facts) *Report {
	r := &Report{SchemaVersion: 1, CKS: f.Cluster != nil || f.Distribution == cluster.CKS, Findings: []Finding{}}
	add := func(topic string, ok bool, text, remedy string) *Finding {
		if ok {
			remedy = ""
		}
		r.Findings = append(r.Findings, Finding{Topic: topic, OK: ok, Text: text, Remedy: remedy})
		return &r.Findings[len(r.Findings)-1]
	}
	switch {
	case f.Cluster != nil:
		r.Cluster = f.Cluster.Name
		add("cluster", true, fmt.Sprintf("%s (%s), state %s, version %s, network %s", f.Cluster.Name, f.Cluster.Type, f.Cluster.State, f.Cluster.Version, f.Cluster.NetworkName), "")
	case r.CKS:
		add("cluster", true, "made by CKS, by its nodes' names; CloudStack's own object is not known: "+f.Why, "")
	default:
		add("cluster", true, "not made by CKS"+otherThanCKS(f.Distribution)+": the rest does not concern it", "")
		return r
	}
	if f.Secret == "" {
		project := "the account's own resources"
		if f.Project != "" {
			project = "project " + f.Project
		}
		add("secret", true, "kube-system/cloudstack-secret is good, for "+project+"; CKS keeps it as it is, and its CSI driver reads it too", "")
	} else {
		add("secret", false, f.Secret, "csccm install, with credentials: CKS would otherwise put its own in place").Failed = true
	}
	if len(f.Pods) > 0 {
		add("provider", true, fmt.Sprintf("CKS will not deploy its own: Pods named %s are there (%s)", PodMark, strings.Join(f.Pods, ", ")), "")
	} else {
		add("provider", false, "no Pod's name holds "+PodMark+": CKS will deploy its own provider when a node is added or the cluster is upgraded",
			"csccm install; keep the chart's fullnameOverride").Failed = true
	}
	old := slices.DeleteFunc(slices.Clone(f.Predecessors), func(p takeover.Predecessor) bool { return p.Wanted == 0 })
	switch {
	case len(old) > 0:
		add("controller", false, "the provider in charge is "+old[0].String(), "csccm takeover")
	case f.Own.Ready == 0:
		add("controller", false, "no Pod of csccm's controller is ready", "csccm install, or csccm doctor").Failed = true
	default:
		add("controller", true, fmt.Sprintf("csccm's, %s ready", plural.Count(int(f.Own.Ready), "Pod")), "")
	}
	switch n := len(f.NotExternal); {
	case n > 0 && f.Adopts:
		add("kubelets", true, fmt.Sprintf("%s without --cloud-provider=external; the controller initialises such nodes (adoptNodes)", plural.Count(n, "kubelet")), "")
	case n > 0:
		add("kubelets", false, fmt.Sprintf("%d of the nodes' kubelets run without --cloud-provider=external: %s", n, list(f.NotExternal)), kubelet.Remedy(cluster.CKS))
	default:
		add("kubelets", true, "none is known to run without --cloud-provider=external; nodes that CKS adds will", "")
	}
	after := "; run csccm upgrade --set adoptNodes=true, or csccm taint after CKS has added nodes"
	if f.Adopts {
		after = "; nodes that CKS adds are initialised within a minute"
	}
	if n := len(f.Waiting); n > 0 {
		add("nodes", false, fmt.Sprintf("%s without a provider ID: %s", plural.Count(n, "node"), list(f.Waiting)), "csccm taint; an Event NodeNotAdopted says why the controller leaves a node out")
	} else {
		add("nodes", true, "all have a provider ID"+after, "")
	}
	return r
}

func list(names []string) string {
	const most = 5
	slices.Sort(names)
	if n := len(names) - most; n > 0 {
		return strings.Join(names[:most], ", ") + fmt.Sprintf(" and %d more", n)
	}
	return strings.Join(names, ", ")
}

// API is what Gather asks of CloudStack.
type API interface {
	ListKubernetesClusters(ctx context.Context, projectID string) ([]cloudstack.KubernetesCluster, error)
}

// Gather reads the facts. vms and api may be nil: then CloudStack's own object is not looked for.
func Gather(ctx context.Context, c *cluster.Cluster, api API, vms node.Lookup, projectID, release string) (*Facts, error) {
	f := &Facts{Why: "there are no credentials"}
	var err error
	nodes := cluster.List(ctx, &err, c.Kube.CoreV1().Nodes().List).Items
	pods := cluster.List(ctx, &err, c.Kube.CoreV1().Pods(metav1.NamespaceAll).List).Items
	if err != nil {
		return nil, c.Explain(err)
	}
	if f.Distribution, _, err = c.Distribution(ctx, nodes); err != nil {
		return nil, err
	}
	for i := range pods {
		if line := pods[i].Namespace + "/" + pods[i].Name; strings.Contains(line, PodMark) {
			f.Pods = append(f.Pods, line)
		}
	}
	found, err := takeover.FindControllers(ctx, c.Kube, release, c.Namespace)
	if err != nil {
		return nil, c.Explain(err)
	}
	f.Adopts = node.Adopts(pods)
	f.Predecessors, f.Own = found.Predecessors, found.Own
	secret, err := credentials.ReadSecret(ctx, c.Kube, metav1.NamespaceSystem)
	switch {
	case err != nil:
		return nil, c.Explain(err)
	case !secret.Exists:
		f.Secret = "Secret kube-system/cloudstack-secret does not exist"
	case secret.Problem != nil:
		f.Secret = secret.Problem.Error()
	default:
		f.Project = secret.Config.ProjectID
	}
	for _, v := range kubelet.Verify(ctx, c, nodes) {
		if v.Verdict == kubelet.NotExternal {
			f.NotExternal = append(f.NotExternal, v.Node)
		}
	}
	for i := range nodes {
		n := &nodes[i]
		if !taint.Initialised(n) && n.Spec.ProviderID == "" {
			f.Waiting = append(f.Waiting, n.Name)
		}
	}
	if api == nil {
		return f, nil
	}
	return f, f.find(ctx, api, projectID, migrate.NodeVMs(nodes, vms))
}

// find looks for the cluster whose VMs are the nodes.
func (f *Facts) find(ctx context.Context, api API, projectID string, nodes map[string]bool) error {
	clusters, err := api.ListKubernetesClusters(ctx, projectID)
	switch {
	case cloudstack.IsKind(err, cloudstack.KindNotPermitted):
		f.Why = "the credentials may not list clusters, or CKS is switched off"
		return nil
	case err != nil:
		return fmt.Errorf("list the clusters of CKS: %w", err)
	}
	f.Why = "none of its clusters has this cluster's nodes"
	f.Cluster = preflight.ClusterOf(clusters, nodes)
	return nil
}

// otherThanCKS names the distribution where it is recognised.
func otherThanCKS(d cluster.Distribution) string {
	if d == cluster.Unknown {
		return ""
	}
	return " (" + string(d) + ")"
}
