// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package simulator

import "fmt"

// The calls of CloudStack Kubernetes Service that are not among the recordings.

func init() {
	preparations["deleteKubernetesCluster.again"] = func(r *replayer) { r.dropCluster("deleteKubernetesCluster.again") }
}

// dropCluster deletes the cluster that a case names, as a call before it did.
func (r *replayer) dropCluster(name string) {
	if k, ok := r.h.sim.st.kubernetesClusters.get(fmt.Sprint(r.byName[name].Params["id"])); ok {
		k.removed = true
	}
}

// setCluster gives a cluster the nodes that a list shows.
func (r *replayer) setCluster(v view) {
	k, ok := r.h.sim.st.kubernetesClusters.get(v.str("id"))
	if !ok {
		return
	}
	k.nodes = nil
	list, _ := v.obj["virtualmachines"].([]any)
	for _, x := range list {
		o, _ := x.(map[string]any)
		if m, ok := r.h.sim.st.vms.get(text(o["id"])); ok {
			k.nodes = append(k.nodes, &clusterNode{vm: m})
		}
	}
	if n := v.number("controlnodes"); n != nil && len(k.nodes) > *n {
		for i := range *n { // which of them are control nodes does not show
			k.nodes[i].control = true
		}
		k.recount()
	}
}
