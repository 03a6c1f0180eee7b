// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package decide

import (
	"slices"
	"strings"

	"github.com/dustin/go-humanize/english"

	"github.com/csccm/csccm/installer/check/ckscheck"
	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/loadbalancer/plan"
)

func cksRunning(f *Facts) Finding {
	return f.cks("all VMs of the cluster run, and their nodes are Ready", "", ckscheck.Running)
}

func cksCertificates(f *Facts) Finding {
	return f.cks("the API server's certificate is valid for more than 30 days", ckscheck.SubjectCertificate, ckscheck.Certificates)
}

func cksChangeable(f *Facts) Finding {
	return f.cks("nothing known is in the way of scaling and upgrading the cluster", ckscheck.SubjectFirewall, ckscheck.Changeable)
}

// cks makes one finding of those of a rule of ckscheck, which needs a subject that cannot always be read.
func (f *Facts) cks(well string, subject ckscheck.Subject, rule func(*ckscheck.Facts) []ckscheck.Finding) Finding {
	if f.CKS == nil {
		return Skipf("%s", f.NotCKS)
	}
	out := Warnf("")
	var remedies []string
	for _, found := range rule(f.CKS) {
		if found.Severity == ckscheck.NotChecked {
			continue
		}
		if found.Severity == ckscheck.Error {
			out.Outcome = ""
		}
		if found.Reference != "" {
			found.What += " (" + found.Reference + ")"
		}
		out = out.About(objectf("KubernetesCluster", "", f.CKS.Cluster.Name, "%s: %s", found.Object, found.What))
		if !slices.Contains(remedies, found.Remedy) {
			remedies = append(remedies, found.Remedy)
		}
	}
	why, unread := f.CKS.Unread[subject]
	switch {
	case len(out.Objects) > 0:
		out.Message = english.Plural(len(out.Objects), "problem", "") + " of cluster " + f.CKS.Cluster.Name
		return out.Fix("%s", strings.Join(remedies, "; "))
	case unread:
		return Skipf("not checked: %s: %s", subject, why)
	}
	return Passf("%s", well)
}

// cksLeftovers believes only tags: other clusters can be in the same network.
func cksLeftovers(f *Facts) Finding {
	if f.CKS == nil {
		return Skipf("%s", f.NotCKS)
	}
	k := *f.CKS
	k.Balancers, k.Services = f.AllRules, f.Services
	k.Addresses = slices.DeleteFunc(slices.Clone(f.Addresses), func(a cloudstack.PublicIP) bool {
		return a.AssociatedNetworkID != k.Cluster.NetworkID
	})
	living := 0
	var stale []Object
	for _, l := range ckscheck.Leftovers(&k) {
		switch {
		case l.Living:
			living++
		case l.Allocated && slices.Contains(f.ClusterIDs, l.Address.Tags[plan.TagCluster]):
			stale = append(stale, objectf("PublicIpAddress", "", l.Address.Address,
				"acquired for %s, which is gone; id %s", l.Address.Tags[plan.TagService], l.Address.ID))
		}
	}
	out := Passf("deleting the cluster would leave nothing behind")
	if living > 0 {
		out = Passf("deleting the cluster would leave %s of its Services behind: `csccm cks delete --remove-services` takes them too",
			english.Plural(living, "address", ""))
	}
	return out.Unless(stale, "address", "%s of Services that are gone would stay in the network for ever")
}
