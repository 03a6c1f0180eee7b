// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/node"
	"github.com/csccm/csccm/test/processnode"
)

// TestNodesAreAdopted has kubelets that register their nodes without the taint, as those of CloudStack Kubernetes Service do.
// One node is there before the controller, one joins later, and one has an address that its VM has not. CloudStack's UI lists the
// cluster with the VMs of its nodes.
func TestNodesAreAdopted(t *testing.T) {
	t.Parallel()
	e := newClusterEnv(t, nil)
	e.join(t, cp1, notExternal(worker1))
	e.csccm(t, adminPassword+"\n", installArgs(e, "--skip-taint", "--set", "adoptNodes=true", "--set", "registerCluster=night")...).want(t, 0)
	e.initialised(t, 2)
	e.entry(t, cp1.Name, worker1.Name)

	e.join(t, notExternal(worker2))
	e.initialised(t, 3)
	e.entry(t, cp1.Name, worker1.Name, worker2.Name)
	e.service(t, "web", 80)
	e.wantRules(t, e.address(t, "web"), "80:demo-worker-1,demo-worker-2")

	events, err := e.Client.CoreV1().Events(metav1.NamespaceDefault).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var adopted []string
	for i := range events.Items {
		if events.Items[i].Reason == "NodeAdopted" {
			adopted = append(adopted, events.Items[i].InvolvedObject.Name)
		}
	}
	slices.Sort(adopted)
	if want := []string{worker1.Name, worker2.Name}; !slices.Equal(adopted, want) {
		t.Errorf("Events NodeAdopted on %v, want %v", adopted, want)
	}
	e.csccm(t, "", "doctor", "--only", "NODE-001,NODE-006,NODE-007").want(t, 0, "2 of 3 nodes without it; the controller initialises such nodes")
	e.uninstalledWithEntry(t)
}

// uninstalledWithEntry uninstalls the controller, and the entry with it.
func (e *clusterEnv) uninstalledWithEntry(t *testing.T) {
	t.Helper()
	e.csccm(t, "", "uninstall", "--orphan-load-balancers", "--yes").want(t, 0, "entry night in CloudStack's UI; no VM is changed")
	client, err := e.cloud.Client(owner)
	if err != nil {
		t.Fatal(err)
	}
	if list, err := client.ListKubernetesClusters(t.Context(), ""); err != nil || len(list) > 0 {
		t.Errorf("after the uninstall the entries are %+v, %v", list, err)
	}
}

// notExternal is a node whose kubelet runs without --cloud-provider=external.
func notExternal(o processnode.Options) processnode.Options { o.NotExternal = true; return o }

// entry waits until CloudStack has one entry of the cluster with the VMs of these nodes.
func (e *clusterEnv) entry(t *testing.T, nodes ...string) {
	t.Helper()
	client, err := e.cloud.Client(owner)
	if err != nil {
		t.Fatal(err)
	}
	e.eventually(t, "the entry in CloudStack has the VMs of "+strings.Join(nodes, ", "), func(ctx context.Context) error {
		list, err := client.ListKubernetesClusters(ctx, "")
		if err != nil {
			return err
		}
		if len(list) != 1 || list[0].Name != "night" || list[0].Type != cloudstack.ExternalManaged {
			return fmt.Errorf("the clusters are %+v", list)
		}
		var want []string
		for _, name := range nodes {
			var n *corev1.Node
			if n, err = e.Client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{}); err != nil {
				return err
			}
			id, _, err := node.ParseProviderID(n.Spec.ProviderID)
			if err != nil {
				return err
			}
			want = append(want, id)
		}
		slices.Sort(want)
		got := slices.Sorted(slices.Values(list[0].VMs))
		if !slices.Equal(got, want) {
			return fmt.Errorf("VMs %v, want %v", got, want)
		}
		return nil
	})
}
