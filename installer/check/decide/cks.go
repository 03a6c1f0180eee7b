// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package decide

import (
	"slices"
	"strings"

	"github.com/csccm/csccm/installer/check/ckscheck"
	"github.com/csccm/csccm/installer/cloud/cloudapi"
	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/loadbalancer/plan"
	"github.com/csccm/csccm/pkg/plural"
)

// CKSFacts are what the checks of a cluster of CloudStack Kubernetes Service decide by.
type CKSFacts struct {
	// Why says why there is nothing to check; then Facts is nil.
	Why   string
	Facts *ckscheck.Facts
}

// CKSOf chooses the cluster that has the nodes' VMs.
func CKSOf(clusters []cloudapi.KubernetesCluster, vms map[string]bool, err error) (*cloudapi.KubernetesCluster, string) {
	if cloudstack.IsKind(err, cloudstack.KindNotPermitted) {
		return nil, "not checked: the role of the keys may not list the clusters of CKS"
	}
	k := ckscheck.ClusterOf(clusters, vms)
	switch {
	case k == nil:
		return nil, "not made by CKS: none of its clusters has these nodes"
	case k.Type == cloudstack.ExternalManaged:
		return nil, "not made by CKS: CloudStack only lists it"
	}
	return k, ""
}

// CKSNodes decides CKS-002.
func CKSNodes(c *CKSFacts) Finding {
	return c.judge("all VMs of the cluster run, and their nodes are Ready", func(f *ckscheck.Facts) []ckscheck.Finding {
		return append(ckscheck.State(f), ckscheck.Nodes(f)...)
	})
}

// CKSCertificates decides CKS-003.
func CKSCertificates(c *CKSFacts) Finding {
	return c.judge("the API server's certificate is valid for more than 30 days", ckscheck.Certificates)
}

// CKSChangeable decides CKS-004.
func CKSChangeable(c *CKSFacts) Finding {
	return c.judge("nothing known is in the way of scaling and upgrading the cluster", func(f *ckscheck.Facts) []ckscheck.Finding {
		return append(ckscheck.Offerings(f), ckscheck.Firewall(f)...)
	})
}

// CKSLeftovers decides CKS-005. Only tags are believed: other clusters can be in the same network.
func CKSLeftovers(c *CKSFacts) Finding {
	if c.Why != "" {
		return Skipf("%s", c.Why)
	}
	left := ckscheck.Leftovers(c.Facts)
	ours := map[string]bool{} // names of this cluster in tags
	living := 0
	for _, l := range left {
		if l.Living {
			living++
			ours[l.Address.Tags[plan.TagCluster]] = true
		}
	}
	delete(ours, "")
	var stale []Object
	for _, l := range left {
		if !l.Living && l.Allocated && ours[l.Address.Tags[plan.TagCluster]] {
			service := l.Address.Tags[plan.TagService]
			if service == "" {
				service = "a Service"
			}
			stale = append(stale, Object{Kind: "PublicIpAddress", Name: l.Address.Address, Message: "acquired for " + service + ", which is gone; id " + l.Address.ID})
		}
	}
	all := "deleting the cluster would leave nothing behind"
	if living > 0 {
		all = "in a network that CloudStack did not make for the cluster, deleting the cluster would leave " + plural.Count(living, "address") + " of its Services behind: `csccm cks delete --remove-services` takes them too"
	}
	return Passf("%s", all).Unless(stale, "address", "%s of Services that are gone would stay in the network for ever")
}

// judge makes one finding of those of the ckscheck.
func (c *CKSFacts) judge(well string, rule func(*ckscheck.Facts) []ckscheck.Finding) Finding {
	if c.Why != "" {
		return Skipf("%s", c.Why)
	}
	var objects []Object
	var remedies, unread []string
	worst := ckscheck.Warning
	for _, f := range rule(c.Facts) {
		if f.Severity == ckscheck.NotChecked {
			unread = append(unread, f.Object+": "+f.What)
			continue
		}
		if f.Severity == ckscheck.Error {
			worst = ckscheck.Error
		}
		kind, name := cksObject(f.Object)
		if f.Reference != "" {
			f.What += " (" + f.Reference + ")"
		}
		objects = append(objects, Object{Kind: kind, Name: name, Message: f.What})
		if f.Remedy != "" && !slices.Contains(remedies, f.Remedy) {
			remedies = append(remedies, f.Remedy)
		}
	}
	var out Finding
	switch {
	case len(objects) == 0 && len(unread) > 0:
		return Skipf("not checked: %s", strings.Join(unread, "; "))
	case len(objects) == 0:
		return Passf("%s", well)
	case worst == ckscheck.Error:
		out = Problemf("%s of cluster %s", plural.Count(len(objects), "problem"), c.Facts.Cluster.Name)
	default:
		out = Warnf("%s of cluster %s", plural.Count(len(objects), "problem"), c.Facts.Cluster.Name)
	}
	if len(unread) > 0 {
		out = out.With("not checked", strings.Join(unread, "; "))
	}
	return out.About(objects...).Fix("%s", strings.Join(remedies, "; "))
}

// cksObject makes an object of what the preflight calls it.
func cksObject(s string) (kind, name string) {
	for _, k := range []struct{ prefix, kind string }{
		{"the certificate of the ", "Certificate"}, {"cluster ", "KubernetesCluster"}, {"VM ", "VirtualMachine"}, {"Node ", "Node"}, {"firewall rule ", "FirewallRule"}, {"address ", "PublicIpAddress"},
	} {
		if name, found := strings.CutPrefix(s, k.prefix); found {
			return k.kind, name
		}
	}
	return "KubernetesCluster", s
}
