// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package decide

import (
	"maps"
	"slices"
	"strings"

	"github.com/dustin/go-humanize/english"

	"github.com/csccm/csccm/installer/check/ckscheck"
	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/loadbalancer/plan"
)

func cksChecks() []Check {
	reads := []Source{CKS}
	return []Check{
		{
			Code: "CKS-002", Title: "VMs and nodes of the CKS cluster", Severity: SeverityError, Needs: needVMs, Reads: reads,
			Judge:  ofCKS("all VMs of the cluster run, and their nodes are Ready", "", ckscheck.Running),
			What:   "The cluster is Running in CloudStack, and each of its VMs is Running and a Ready Node. Only for clusters that CKS made.",
			Why:    "CKS upgrades node after node, and scaling up waits until all nodes are Ready: one broken node makes either fail half-way, and the cluster enters state Alert.",
			Remedy: "start the VMs that are stopped, and repair the nodes that are not Ready",
		},
		{
			Code: "CKS-003", Title: "Certificates of the CKS cluster", Severity: SeverityError, Needs: needVMs, Reads: reads,
			Judge:  ofCKS("the API server's certificate is valid for more than 30 days", ckscheck.SubjectCertificate, ckscheck.Certificates),
			What:   "The API server's certificate at the cluster's endpoint is valid for 30 more days by CloudStack's clock, and for the address in its kubeconfig. An expired certificate is an error, one that expires soon a warning.",
			Why:    "kubeadm's certificates expire after a year, and CloudStack does not renew them (apache/cloudstack#9418). Then kubectl, kubelets and all operations of CKS fail. Some releases leave the public address out of the certificate (apache/cloudstack#11579).",
			Remedy: "run sudo kubeadm certs renew all on each control node and restart it, or upgrade the cluster while they are valid",
		},
		{
			Code: "CKS-004", Title: "CKS can scale and upgrade the cluster", Severity: SeverityWarning, Needs: needVMs, Reads: reads,
			Judge:  ofCKS("nothing known is in the way of scaling and upgrading the cluster", ckscheck.SubjectFirewall, ckscheck.Changeable),
			What:   "Every firewall rule on the cluster's address has ports, CKS's own rule for SSH exists, and the cluster has one offering for all nodes.",
			Why:    "CloudStack replaces its firewall rules when it scales a cluster and stops with a NullPointerException at a rule without ports, such as one for ICMP (apache/cloudstack#11758). It refuses to upgrade a cluster that was created with offerings for kinds of nodes only (apache/cloudstack#14148).",
			Remedy: "delete firewall rules without ports before the change, and give the cluster one offering",
		},
		{
			Code: "CKS-005", Title: "Addresses beside the CKS cluster", Severity: SeverityWarning, Needs: needVMs, Reads: []Source{CKS, Addresses, AllRules, Services}, Judge: cksLeftovers,
			What:   "Every address that the controller acquired in the cluster's network still has its Service. The check also names what deleting the cluster would leave behind.",
			Why:    "In a network that CKS did not make, deleting the cluster leaves addresses and rules of Services behind, which count against the account's limit.",
			Remedy: "release the addresses in CloudStack when nobody needs them; before the cluster is deleted: csccm cks delete --remove-services",
		},
	}
}

// ofCKS makes one finding of those of a rule of ckscheck, which goes by a subject that cannot always be read.
func ofCKS(well string, subject ckscheck.Subject, rule func(*ckscheck.Facts) []ckscheck.Finding) func(*Facts) Finding {
	return func(f *Facts) Finding {
		if f.CKS == nil {
			return Skipf("%s", f.NotCKS)
		}
		k := *f.CKS
		k.Unread = maps.Clone(k.Unread)
		maps.DeleteFunc(k.Unread, func(s ckscheck.Subject, _ string) bool { return s != subject })
		var objects []Object
		var remedies, unread []string
		out := Warnf("")
		for _, found := range rule(&k) {
			if found.Severity == ckscheck.NotChecked {
				unread = append(unread, found.Object+": "+found.What)
				continue
			}
			if found.Severity == ckscheck.Error {
				out.Outcome = ""
			}
			if found.Reference != "" {
				found.What += " (" + found.Reference + ")"
			}
			objects = append(objects, cksObject(found.Object, found.What))
			if found.Remedy != "" && !slices.Contains(remedies, found.Remedy) {
				remedies = append(remedies, found.Remedy)
			}
		}
		notChecked := strings.Join(unread, "; ")
		switch {
		case len(objects) > 0:
			out.Message = english.Plural(len(objects), "problem", "") + " of cluster " + k.Cluster.Name
			out = out.About(objects...).Fix("%s", strings.Join(remedies, "; "))
		case notChecked != "":
			return Skipf("not checked: %s", notChecked)
		default:
			return Passf("%s", well)
		}
		if notChecked != "" {
			out = out.With("not checked", notChecked)
		}
		return out
	}
}

// cksObject makes an object of what the preflight calls it.
func cksObject(s, message string) Object {
	for _, k := range []struct{ prefix, kind string }{
		{"the certificate of the ", "Certificate"}, {"cluster ", "KubernetesCluster"}, {"VM ", "VirtualMachine"}, {"Node ", "Node"}, {"firewall rule ", "FirewallRule"}, {"address ", "PublicIpAddress"},
	} {
		if name, found := strings.CutPrefix(s, k.prefix); found {
			return Object{Kind: k.kind, Name: name, Message: message}
		}
	}
	return Object{Kind: "KubernetesCluster", Name: s, Message: message}
}

// cksLeftovers believes only tags: other clusters can be in the same network.
func cksLeftovers(f *Facts) Finding {
	if f.CKS == nil {
		return Skipf("%s", f.NotCKS)
	}
	k := *f.CKS
	k.Balancers, k.Services = f.AllRules, f.Services
	k.Addresses = slices.DeleteFunc(slices.Clone(f.Addresses), func(a cloudstack.PublicIP) bool { return a.AssociatedNetworkID != k.Cluster.NetworkID })
	left := ckscheck.Leftovers(&k)
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
	out := Passf("deleting the cluster would leave nothing behind")
	if living > 0 {
		out = Passf("in a network that CloudStack did not make for the cluster, deleting the cluster would leave %s of its Services behind: `csccm cks delete --remove-services` takes them too", english.Plural(living, "address", ""))
	}
	return out.Unless(stale, "address", "%s of Services that are gone would stay in the network for ever")
}
