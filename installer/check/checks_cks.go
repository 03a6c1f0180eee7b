// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/csccm/csccm/installer/check/ckscheck"
	"github.com/csccm/csccm/installer/check/decide"
	"github.com/csccm/csccm/installer/cloud/rules"
	"github.com/csccm/csccm/installer/kube/cluster"
	"github.com/csccm/csccm/pkg/cloudstack"
)

func cksChecks() []Check {
	needs := []string{"K8S-001", "CS-004"}
	return []Check{
		{
			Code: "CKS-002", Category: catController, Title: "VMs and nodes of the CKS cluster", Severity: SeverityError, Phases: both(), Needs: needs,
			What:   "The cluster is Running in CloudStack, and each of its VMs is Running and a Ready Node. Only for clusters that CKS made.",
			Why:    "CKS upgrades node after node, and scaling up waits until all nodes are Ready: one broken node makes either fail half-way, and the cluster enters state Alert.",
			Remedy: "start the VMs that are stopped, and repair the nodes that are not Ready",
			Run:    by(cksNodesFact, decide.CKSNodes),
		},
		{
			Code: "CKS-003", Category: catController, Title: "Certificates of the CKS cluster", Severity: SeverityError, Phases: both(), Needs: needs,
			What:   "The API server's certificate at the cluster's endpoint is valid for 30 more days by CloudStack's clock, and for the address in its kubeconfig. An expired certificate is an error, one that expires soon a warning.",
			Why:    "kubeadm's certificates expire after a year, and CloudStack does not renew them (apache/cloudstack#9418). Then kubectl, kubelets and all operations of CKS fail. Some releases leave the public address out of the certificate (apache/cloudstack#11579).",
			Remedy: "run sudo kubeadm certs renew all on each control node and restart it, or upgrade the cluster while they are valid",
			Run:    by(cksCertificateFact, decide.CKSCertificates),
		},
		{
			Code: "CKS-004", Category: catController, Title: "CKS can scale and upgrade the cluster", Severity: SeverityWarning, Phases: both(), Needs: needs,
			What:   "Every firewall rule on the cluster's address has ports, CKS's own rule for SSH exists, and the cluster has one offering for all nodes.",
			Why:    "CloudStack replaces its firewall rules when it scales a cluster and stops with a NullPointerException at a rule without ports, such as one for ICMP (apache/cloudstack#11758). It refuses to upgrade a cluster that was created with offerings for kinds of nodes only (apache/cloudstack#14148).",
			Remedy: "delete firewall rules without ports before the change, and give the cluster one offering",
			Run:    by(cksFirewallFact, decide.CKSChangeable),
		},
		{
			Code: "CKS-005", Category: catController, Title: "Addresses beside the CKS cluster", Severity: SeverityWarning, Phases: both(), Needs: needs,
			What:   "Every address that the controller acquired in the cluster's network still has its Service. The check also names what deleting the cluster would leave behind.",
			Why:    "In a network that CKS did not make, deleting the cluster leaves addresses and rules of Services behind, which count against the account's limit.",
			Remedy: "release the addresses in CloudStack when nobody needs them; before the cluster is deleted: csccm cks delete --remove-services",
			Run:    by(cksNetworkFact, decide.CKSLeftovers),
		},
	}
}

// cksClusterFact finds CloudStack's object of the cluster: on clusters whose nodes are named as CKS names them.
var cksClusterFact = projectFact("the clusters of CKS", func(ctx context.Context, e *Env, project string) (decide.CKSFacts, error) {
	nodes, err := nodesFact.get(ctx, e)
	if err != nil {
		return decide.CKSFacts{}, err
	}
	if !slices.ContainsFunc(nodes, func(n corev1.Node) bool { return cluster.NamedByCKS(n.Name) }) {
		return decide.CKSFacts{Why: "not made by CKS: no node has such a name"}, nil
	}
	vms, err := vmsFact.get(ctx, e)
	if err != nil {
		return decide.CKSFacts{}, err
	}
	clusters, err := e.CloudStack.ListKubernetesClusters(ctx, project)
	if err != nil && !cloudstack.IsKind(err, cloudstack.KindNotPermitted) {
		return decide.CKSFacts{}, err
	}
	k, why := decide.CKSOf(clusters, rules.NodeVMs(nodes, vms), err)
	if k == nil {
		return decide.CKSFacts{Why: why}, nil
	}
	return decide.CKSFacts{Facts: &ckscheck.Facts{
		Now: e.serverTime(ctx), Cluster: k, Nodes: nodes, Unread: map[ckscheck.Subject]string{},
	}}, nil
})

// serverTime is the time of CloudStack's clock, as far as it is known.
func (e *Env) serverTime(ctx context.Context) time.Time {
	now := e.Clock.Now()
	if ahead := e.cloudClock(ctx); ahead != nil {
		now = now.Add(*ahead)
	}
	return now
}

// cksFact is a fact about the cluster, whose facts read may change.
func cksFact(noun string, read func(ctx context.Context, e *Env, project string, f *ckscheck.Facts) error) *fact[*decide.CKSFacts] {
	return projectFact(noun, func(ctx context.Context, e *Env, project string) (*decide.CKSFacts, error) {
		found, err := cksClusterFact.get(ctx, e)
		if err != nil || found.Facts == nil {
			return &found, err
		}
		f := *found.Facts
		f.Unread = map[ckscheck.Subject]string{}
		return &decide.CKSFacts{Facts: &f}, read(ctx, e, project, &f)
	})
}

var (
	cksNodesFact = cksFact("the nodes of the CKS cluster", func(context.Context, *Env, string, *ckscheck.Facts) error { return nil })

	cksCertificateFact = cksFact("the certificate of the CKS cluster", func(ctx context.Context, e *Env, _ string, f *ckscheck.Facts) error {
		c, err := ckscheck.Serving(ctx, e.DialAPI, f.Cluster.Endpoint)
		if err != nil {
			f.Unread[ckscheck.SubjectCertificate] = err.Error()
			return nil
		}
		f.Certificates = []ckscheck.Certificate{*c}
		return nil
	})

	cksFirewallFact = cksFact("the firewall rules of the CKS cluster", func(ctx context.Context, e *Env, project string, f *ckscheck.Facts) error {
		if f.Cluster.IPAddressID == "" {
			return nil
		}
		rules, err := e.CloudStack.ListFirewallRules(ctx, cloudstack.FirewallRuleQuery{PublicIPID: f.Cluster.IPAddressID, ProjectID: project})
		if cloudstack.IsKind(err, cloudstack.KindNotPermitted) {
			f.Unread[ckscheck.SubjectFirewall] = "the role of the keys does not allow it"
			return nil
		}
		f.Firewall = rules
		return err
	})

	cksNetworkFact = cksFact("the addresses beside the CKS cluster", func(ctx context.Context, e *Env, _ string, f *ckscheck.Facts) error {
		addresses, err := addressesFact.get(ctx, e)
		if err != nil {
			return err
		}
		rules, err := rulesFact.get(ctx, e)
		if err != nil {
			return err
		}
		services, err := servicesFact.get(ctx, e)
		if err != nil {
			return err
		}
		for _, a := range addresses {
			if a.AssociatedNetworkID == f.Cluster.NetworkID {
				f.Addresses = append(f.Addresses, a)
			}
		}
		f.Balancers, f.Services = rules, services
		return nil
	})
)
