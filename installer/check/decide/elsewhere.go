// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package decide

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/dustin/go-humanize/english"
	corev1 "k8s.io/api/core/v1"

	"github.com/csccm/csccm/installer/cloud/credentials"
	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/inventory"
	"github.com/csccm/csccm/pkg/node"
)

// Lost returns the nodes that have no VM here by provider ID or name, nor one of another name, where that are all or most
// nodes: then the VMs are somewhere else, and deleting Nodes would delete a cluster that is well.
func Lost(nodes []corev1.Node, vms *inventory.VMSnapshot) []corev1.Node {
	lost := slices.DeleteFunc(slices.Clone(nodes), func(n corev1.Node) bool {
		_, err := node.Match(vms, &n)
		missing, is := errors.AsType[*node.NotFoundError](err)
		return !is || missing.State != "" || likelyVM(&n, vms) != ""
	})
	if 2*len(lost) <= len(nodes) {
		return nil
	}
	return lost
}

// misplaced changes a problem with nodes without VMs where the VMs are somewhere else.
func (f *Facts) misplaced(out Finding) Finding {
	if lost := Lost(f.Nodes, f.VMs); out.Outcome == "" && len(lost) > 0 {
		return elsewhere(out, lost, append(f.Places, credentials.Place{Project: f.Config.ProjectID, VMs: f.VMs.All()}))
	}
	return out
}

// Misplaced judges, before the controller has keys, whether the place that is chosen for it owns the VMs of the nodes: vms are
// those there, and places returns where else VMs are. ok is false where all or most nodes have none.
func Misplaced(nodes []corev1.Node, vms []cloudstack.VirtualMachine, place credentials.Place, zone string, places func() []credentials.Place) (out Finding, ok bool) {
	there := inventory.NewVMSnapshot(time.Time{}, inventory.Scope{}, slices.DeleteFunc(slices.Clone(vms), func(vm cloudstack.VirtualMachine) bool {
		return !inventory.InZone(&vm, zone)
	}))
	lost := Lost(nodes, there)
	if len(lost) == 0 {
		return out, true
	}
	out = Problemf("%d of %s have no VM in %s", len(lost), english.Plural(len(nodes), "node", ""), place).
		About(about("Node", lost, func(*corev1.Node) string { return "has no VM there" })...)
	if zone != "" {
		out.Message += ", zone " + zone
	}
	place.VMs = vms // of all zones
	return elsewhere(out, lost, append(slices.DeleteFunc(places(), func(p credentials.Place) bool { return p.String() == place.String() }), place)), false
}

// elsewhere adds to a finding about nodes without VMs where their VMs are.
func elsewhere(out Finding, lost []corev1.Node, places []credentials.Place) Finding {
	counts := map[string]int{}
	for _, p := range places {
		there := inventory.NewVMSnapshot(time.Time{}, inventory.Scope{}, p.VMs)
		for i := range lost {
			if vm, err := node.Match(there, &lost[i]); err == nil {
				counts[fmt.Sprintf("%s, zone %s (%s, --zone %s)", p, vm.ZoneName, p.Flag(), vm.ZoneName)]++
			}
		}
	}
	out.Message += "; wrong account, project or zone"
	if len(counts) > 0 {
		out.Message += ": VMs of the nodes are elsewhere"
	}
	for _, place := range slices.Sorted(maps.Keys(counts)) {
		out.Message += fmt.Sprintf(", %d in %s", counts[place], place)
	}
	return out.Fix("do not delete any Node: run `csccm install` with the account (--account), project (--project) and zone (--zone) " +
		"that own the VMs of the nodes, or with keys of that account")
}
