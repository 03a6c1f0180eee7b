// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package registration

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/utils/clock"

	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/internal/testenv"
	"github.com/csccm/csccm/pkg/inventory"
	"github.com/csccm/csccm/pkg/simulator"
)

const world = `
version: 4.22.0.0
zones: [{name: zone-1, publicRanges: [203.0.113.10-203.0.113.99], hosts: [h1]}]
accounts:
  - {name: admin, role: Root Admin, users: [{name: admin, password: password}]}
  - {name: k8s, role: User, users: [{name: ccm, password: password, apiKey: key, secretKey: secret}]}
networks:
  - {name: net, account: k8s, cidr: 10.1.1.0/24, sourceNAT: 203.0.113.10}
virtualMachines:
  - {name: c1, account: k8s, nics: [{network: net, ip: 10.1.1.5}]}
  - {name: w1, account: k8s, nics: [{network: net, ip: 10.1.1.11}]}
  - {name: w2, account: k8s, nics: [{network: net, ip: 10.1.1.12}]}
  - {name: w3, account: k8s, nics: [{network: net, ip: 10.1.1.13}]}
`

// env is a simulated CloudStack with the ids of its VMs by name.
type env struct {
	*testenv.Cloud
	api *cloudstack.Client
	vms map[string]string
}

func newEnv(t *testing.T) *env {
	t.Helper()
	e := &env{Cloud: testenv.New(t, world, simulator.Options{}), vms: map[string]string{}}
	e.api = e.Client("key", "secret")
	vms, err := e.api.ListVirtualMachines(t.Context(), cloudstack.VMQuery{})
	require.NoError(t, err)
	for i := range vms {
		e.vms[vms[i].Name] = vms[i].ID
	}
	return e
}

// run runs the controller in a synctest bubble. set replaces the cluster's Nodes; c1 is a control plane node.
func (e *env) run(t *testing.T) (set func(names ...string)) {
	t.Helper()
	var nodes atomic.Pointer[[]*corev1.Node]
	set = func(names ...string) {
		var all []*corev1.Node
		for _, name := range names {
			n := &corev1.Node{
				ObjectMeta: metav1.ObjectMeta{Name: name},
				Spec:       corev1.NodeSpec{ProviderID: "external-cloudstack://" + e.vms[name]},
			}
			if name == "c1" {
				n.Labels = map[string]string{"node-role.kubernetes.io/control-plane": ""}
			}
			all = append(all, n)
		}
		nodes.Store(&all)
	}

	set()
	ctx, cancel := context.WithCancel(t.Context())
	c := &Controller{
		API: e.api, Inventory: inventory.New(e.api, inventory.Options{Clock: clock.RealClock{}}),
		Name: "prod", ClusterID: "uid-1", Nodes: func() ([]*corev1.Node, error) { return *nodes.Load(), nil },
	}

	e.Ledger().Reset()
	go c.Run(ctx)
	t.Cleanup(func() { cancel(); synctest.Wait() })
	return set
}

// entry returns the names of the VMs in the only entry.
func (e *env) entry(t *testing.T) (control, size any, names []string) {
	t.Helper()
	list, err := e.api.ListKubernetesClusters(t.Context(), "")
	require.NoError(t, err)
	require.Len(t, list, 1, "never a second entry")
	for name, id := range e.vms {
		if slices.Contains(list[0].VMs, id) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	raw, _ := e.Admin("listKubernetesClusters", "listall", "true")["kubernetescluster"].([]any)
	cluster, _ := raw[0].(map[string]any)
	return cluster["controlnodes"], cluster["size"], names
}

// The entry is updated within seconds when Nodes join and leave. Each change costs one call, and without changes there
// are no calls.
func TestEntryFollowsNodes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := newEnv(t)
		set := e.run(t)
		time.Sleep(time.Minute)
		assert.Empty(t, e.Calls("ccm"), "no Node is initialised yet")
		const (
			list   = "listKubernetesClusters"
			add    = "addVirtualMachinesToKubernetesCluster"
			remove = "removeVirtualMachinesFromKubernetesCluster"
		)
		for _, step := range []struct {
			name    string
			workers []string
			calls   []string
		}{
			{"first", nil, []string{list, "createKubernetesCluster", add}},
			{"one joins", []string{"w1"}, []string{list, add}},
			{"two join", []string{"w1", "w2", "w3"}, []string{list, add}},
			{"nothing changes", []string{"w3", "w1", "w2"}, nil},
			{"one leaves", []string{"w1", "w3"}, []string{list, remove}},
			{"one for another", []string{"w2", "w3"}, []string{list, add, remove}},
		} {
			e.Ledger().Reset()
			set(append([]string{"c1"}, step.workers...)...)
			time.Sleep(11 * time.Second)
			calls := slices.DeleteFunc(e.Calls("ccm"), func(s string) bool { return s == "listVirtualMachines" })
			assert.Equal(t, step.calls, calls, step.name)
			control, size, names := e.entry(t)
			assert.EqualValues(t, 1, control, step.name)
			assert.EqualValues(t, len(step.workers), size, step.name)
			assert.ElementsMatch(t, append([]string{"c1"}, step.workers...), names, step.name)
		}

		lists := func() int {
			defer e.Ledger().Reset()
			return len(e.Ledger().Find(list, "ccm"))
		}

		e.Ledger().Reset()
		time.Sleep(refresh - time.Minute)
		assert.Empty(t, e.Calls("ccm"), "nothing changed")
		time.Sleep(refresh)
		assert.Equal(t, 1, lists(), "every ten minutes")
		e.Inject(simulator.Fault{Command: list, Kind: simulator.FaultErrorBefore, HTTPStatus: 432, Text: "no"})
		set("c1", "w1")
		time.Sleep(refresh - time.Minute)
		assert.Equal(t, 1, lists(), "a refusal is not repeated at once")
	})
}

func TestEntriesOfOthersAreLeftAlone(t *testing.T) {
	t.Parallel()
	w := &Entry{Name: "prod", ClusterID: "uid-1", Control: sets.New("c1"), Workers: sets.New("w1", "w2")}
	external := func(name, description string, vms ...string) cloudstack.KubernetesCluster {
		return cloudstack.KubernetesCluster{
			ID:          "id-" + name,
			Name:        name,
			Description: description,
			Type:        cloudstack.ExternalManaged,
			VMs:         vms,
		}
	}

	managed := func(name string, vms ...string) cloudstack.KubernetesCluster {
		return cloudstack.KubernetesCluster{ID: "id-" + name, Name: name, Type: "CloudManaged", VMs: vms}
	}
	for _, c := range []struct {
		name    string
		entries []cloudstack.KubernetesCluster
		id, err string
	}{
		{"none yet", nil, "", ""},
		{"other clusters", []cloudstack.KubernetesCluster{external("dev", "x", "d1"), managed("cks", "k1")}, "", ""},
		{"ours, with a VM of a node that left",
			[]cloudstack.KubernetesCluster{external("prod", mark+w.ClusterID, "c1", "w1", "old")}, "id-prod", ""},
		{"ours, renamed in the UI",
			[]cloudstack.KubernetesCluster{external("production", mark+w.ClusterID, "c1", "w1", "w2")}, "id-production",
			""},
		{"somebody else's of the same name", []cloudstack.KubernetesCluster{external("prod", "by hand", "w1")}, "",
			`not this cluster (id id-prod, description "by hand")`},
		{"another cluster of ours with the same name",
			[]cloudstack.KubernetesCluster{external("prod", "Registered by csccm, cluster uid-2", "x1")}, "",
			"choose another name"},
		{"somebody else's with our VMs",
			[]cloudstack.KubernetesCluster{external("prod - capc", "prod - capc managed by CAPC", "w1")}, "",
			"shows VMs of this cluster already"},
		{"a cluster of CKS with the same name", []cloudstack.KubernetesCluster{managed("prod", "k1")}, "",
			"choose another name"},
		{"a cluster of CKS with our VMs", []cloudstack.KubernetesCluster{managed("mine", "w1")}, "",
			"created this cluster"},
	} {
		own, err := w.find(c.entries)
		if c.err != "" {
			require.ErrorContains(t, err, c.err, c.name)
			continue
		}
		require.NoError(t, err, c.name)
		id := ""
		if own != nil {
			id = own.ID
		}
		assert.Equal(t, c.id, id, c.name)
	}
}
