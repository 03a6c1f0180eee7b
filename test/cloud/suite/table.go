// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package suite

import (
	"slices"

	"github.com/csccm/csccm/installer/testenv/leftby"
)

// The images of the providers that are taken over from, and the names that these give themselves.
const (
	apacheImage   = "apache/cloudstack-kubernetes-provider:v1.2.0"
	leasewebImage = "ghcr.io/leaseweb/cloudstack-kubernetes-provider:1.8.1"
)

// scenarios is the table of all scenarios, in the order in which they are run: those of one place together. Their names
// begin with the place's.
func scenarios() []scenario {
	// Services are the same wherever the nodes are.
	services := []scenario{
		played("a Service comes and goes"),
		played("algorithm and session affinity"),
		played("PROXY protocol"),
		played("source ranges"),
		played("ports added and removed"),
		played("stickiness"),
		played("hostname"),
		played("external traffic policy Local"),
		played("node selector and labels"),
		{name: "network, zone and project named", trusted: true, run: placeNamed},
		{name: "what is refused", run: refused},
		{name: "certificate", trusted: true, need: needCertificate, run: certificate},
		// Who has an address and who releases it.
		played("address of the account"),
		played("shared and kept address"),
		played("address changed live"),
		// Calls are counted, and times compared with those of calls by hand.
		{name: "calls and seconds of 10 ports", run: budgets},
	}
	// What others change in CloudStack.
	drifts := []scenario{{name: "drift of each kind", run: drift}}
	removals := []scenario{{name: "uninstall", run: uninstalled}}
	in := func(place string, all ...[]scenario) []scenario {
		list := slices.Concat(all...)
		for i := range list {
			list[i].at, list[i].name = place, place+": "+list[i].name
		}
		return list
	}
	// Each place is installed by another kind of credentials.
	return slices.Concat(
		in(isolated, []scenario{
			{name: "install by a domain administrator's login", need: needRoot, bare: true, run: installBy(byDomainAdmin)},
			{name: "install by a root administrator's login, after uninstall", need: needRoot, bare: true, run: installBy(byRoot)},
		}, services, drifts, []scenario{
			{name: "VMs stopped, destroyed and expunged", need: needRoot, run: nodeLife},
			{name: "two network interfaces", trusted: true, run: twoNICs},
			{name: "rotate-keys", need: needRoot, run: rotateKeys},
			{name: "migrate-rules and its undo", run: migrate},
			{name: "every tenth call fails, every tenth answer is lost", run: faults},
			{name: "killed with the answer of each call lost", run: crashPoints},
			// What the providers that people run today leave is made by API calls, after states that were recorded; the
			// providers themselves do not run.
			{name: "takeover from upstream v1.2.0", bare: true, run: takeover(leftby.Apache, apacheImage, "external-cloudstack")},
			{name: "takeover from Leaseweb v1.8.1", bare: true, run: takeover(leftby.Leaseweb, leasewebImage, "cloudstack")},
		}, removals, []scenario{
			{name: "load balancers left at uninstall, cleaned up by the next install", run: orphans},
		}),
		in(vpc, []scenario{{name: "install by keys", bare: true, run: installBy(byKeys)}}, services, []scenario{
			{name: "internal load balancer", trusted: true, need: needInternalLB, run: internal},
		}, drifts, removals),
		in(project, []scenario{
			{name: "install into a project, with an account made for it", need: needRoot, bare: true, run: installBy(byRoot)},
		}, services, drifts, removals),
	)
}
