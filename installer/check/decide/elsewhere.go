// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package decide

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/csccm/csccm/installer/cloud/credentials"
	"github.com/csccm/csccm/pkg/inventory"
	"github.com/csccm/csccm/pkg/node"
)

// Here stands for the configured project, whose VMs may be in another zone.
const Here = "."

// WithoutVM returns the nodes that have no VM here by provider ID or name, nor one of another name.
func WithoutVM(nodes []corev1.Node, vms *inventory.VMSnapshot) []corev1.Node {
	return slices.DeleteFunc(slices.Clone(nodes), func(n corev1.Node) bool {
		_, err := node.Match(vms, &n)
		missing, is := errors.AsType[*node.NotFoundError](err)
		return !is || missing.State != "" || likelyVM(&n, vms) != ""
	})
}

// Elsewhere adds to a finding about nodes without VMs where their VMs are.
func Elsewhere(f Finding, lost []corev1.Node, places []credentials.Place, zone string) Finding {
	var found, flags []string
	for _, p := range places {
		there := inventory.NewVMSnapshot(time.Time{}, inventory.Scope{}, p.VMs)
		nodes, zones := 0, []string{}
		for i := range lost {
			vm, err := node.Match(there, &lost[i])
			if err != nil {
				continue
			}
			nodes++
			if !inventory.InZone(&vm, zone) && !slices.Contains(zones, vm.ZoneName) {
				zones = append(zones, vm.ZoneName)
			}
		}
		if nodes == 0 {
			continue
		}
		var where, flag []string
		if p.Project != Here {
			where, flag = append(where, p.String()), append(flag, p.Flag())
		}
		for _, z := range zones {
			where, flag = append(where, "zone "+z), append(flag, "--zone "+z)
		}
		found = append(found, fmt.Sprintf("%d in %s", nodes, strings.Join(where, ", ")))
		flags = append(flags, fmt.Sprintf("%s: %s", strings.Join(where, ", "), strings.Join(flag, " ")))
	}
	f.Message += "; wrong account, project or zone"
	if len(found) == 0 {
		return f.Fix("do not delete any Node: run `csccm install` with the account (--account), project (--project) and zone (--zone) that own the VMs of the nodes, or with keys of that account")
	}
	f.Message += ": VMs of the nodes are elsewhere, " + strings.Join(found, ", ")
	return f.Fix("do not delete any Node: run `csccm install` with the place of the VMs (%s)", strings.Join(flags, "; "))
}
