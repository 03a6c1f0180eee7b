// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cloudproviderapi "k8s.io/cloud-provider/api"

	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/internal/testenv"
	"github.com/csccm/csccm/pkg/node"
	"github.com/csccm/csccm/pkg/provider/event"
	"github.com/csccm/csccm/pkg/simulator"
)

// nodeEnv is a simulated CloudStack with the VMs w1 ... wN of the account k8s.
type nodeEnv struct {
	*testenv.Cloud
	t   *testing.T
	ids map[string]string // of the VMs, by name
}

func newNodeEnv(t *testing.T, vms int) *nodeEnv { t.Helper(); return newNodeEnvWith(t, vms, nil) }

// newNodeEnvWith is newNodeEnv in a changed world.
func newNodeEnvWith(t *testing.T, vms int, change func(world string) string) *nodeEnv {
	t.Helper()
	var w strings.Builder
	w.WriteString(`
version: 4.22.0.0
zones:
  - {name: zone-1, publicRanges: [203.0.113.10-203.0.113.99], hosts: [h1]}
serviceOfferings:
  - {name: Small Instance, cpus: 1, cpuSpeed: 500, memoryMiB: 512}
accounts:
  - {name: admin, role: Root Admin, users: [{name: admin, password: password, apiKey: admin-key, secretKey: admin-secret}]}
  - {name: k8s, role: User, users: [{name: ccm, password: password, apiKey: ` + testAPIKey + `, secretKey: ` + testSecret + `}]}
  - {name: cks, role: Project Kubernetes Service Role, users: [{name: cks, password: password, apiKey: cks-key, secretKey: cks-secret}]}
projects:
  - {name: dev, owner: k8s, members: [cks]}
  - {name: empty, owner: k8s, members: [cks]}
networks:
  - {name: k8s-net, account: k8s, cidr: 10.1.0.0/16}
  - {name: dev-net, project: dev, cidr: 10.2.0.0/16}
virtualMachines:
  - {name: p1, project: dev, offering: Small Instance, nics: [{network: dev-net, ip: 10.2.0.21}]}
  - {name: p2, project: dev, offering: Small Instance, nics: [{network: dev-net, ip: 10.2.0.22}]}
`)
	for i := 1; i <= vms; i++ {
		fmt.Fprintf(&w, "  - {name: w%d, account: k8s, offering: Small Instance, nics: [{network: k8s-net, ip: 10.1.%d.%d}]}\n", i, 1+i/200, 20+i%200)
	}
	text := w.String()
	if change != nil {
		text = change(text)
	}
	env := &nodeEnv{Cloud: testenv.New(t, text, simulator.Options{}), t: t, ids: map[string]string{}}
	for _, project := range []string{"", env.project("dev")} {
		list, err := env.Client(testAPIKey, testSecret).ListVirtualMachines(t.Context(), cloudstack.VMQuery{ProjectID: project})
		require.NoError(t, err)
		for i := range list {
			env.ids[list[i].Name] = list[i].ID
		}
	}
	env.Ledger().Reset()
	return env
}

func (env *nodeEnv) project(name string) string {
	env.t.Helper()
	projects, err := env.Client(testAPIKey, testSecret).ListProjects(env.t.Context())
	require.NoError(env.t, err)
	i := slices.IndexFunc(projects, func(p cloudstack.Project) bool { return p.Name == name })
	require.GreaterOrEqual(env.t, i, 0, name)
	return projects[i].ID
}

// provider makes a provider whose client does not wait long between retries.
func (env *nodeEnv) provider(change func(*cloudstack.Config)) *Provider {
	env.t.Helper()
	cfg := env.Config(testAPIKey, testSecret)
	if change != nil {
		change(cfg)
	}
	_, o := fakeClockOptions() // calls are counted: a list must not get too old because the machine is busy
	p, err := New(cfg, o, env.Option(), testenv.NoJitter)
	require.NoError(env.t, err)
	return p
}

// nodes are the initialised, not ready Nodes of w1 ... wN.
func (env *nodeEnv) nodes(n int) []*corev1.Node {
	var out []*corev1.Node
	for i := 1; i <= n; i++ {
		name := fmt.Sprintf("w%d", i)
		out = append(out, k8sNode(name, node.ProviderID(node.FormUpstream, env.ids[name])))
	}
	return out
}

func (c *cluster) event(reason string) string {
	list, err := c.kube.CoreV1().Events("default").List(context.Background(), metav1.ListOptions{})
	if err != nil {
		return ""
	}
	for i := range list.Items {
		if list.Items[i].Reason == reason {
			return list.Items[i].Message
		}
	}
	return ""
}

func (c *cluster) initialised(names ...string) {
	c.t.Helper()
	for _, name := range names {
		c.eventually(name+" is initialised", func() bool {
			n, err := c.node(name)
			return err == nil && !tainted(n, cloudproviderapi.TaintExternalCloudProvider) && len(n.Status.Addresses) > 0
		})
	}
}

func TestSimulatedNodesAreInitialised(t *testing.T) {
	t.Parallel()
	env := newNodeEnv(t, 5)
	c := startCluster(t, env.provider(func(cfg *cloudstack.Config) { cfg.Zone = "zone-1"; cfg.Region = "somewhere" }), uninitialised(5)...)
	c.initialised("w1", "w2", "w3", "w4", "w5")
	n, err := c.node("w3")
	require.NoError(t, err)
	assert.Equal(t, "external-cloudstack://"+env.ids["w3"], n.Spec.ProviderID)
	assert.Equal(t, "Small_Instance", n.Labels[corev1.LabelInstanceTypeStable])
	assert.Equal(t, "zone-1", n.Labels[corev1.LabelTopologyZone])
	assert.Equal(t, "somewhere", n.Labels[corev1.LabelTopologyRegion])
	assert.ElementsMatch(t, []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "10.1.1.23"}, {Type: corev1.NodeHostName, Address: "w3"}}, n.Status.Addresses)
	// The list of VMs, for all five Nodes and the first contact, and the check of the zone, which nobody waits for.
	c.eventually("the zone is checked", func() bool { return env.Ledger().Count("listZones") > 0 })
	assert.ElementsMatch(t, []string{"listVirtualMachines", "listZones"}, env.Calls("ccm"))
}

func TestSimulatedNodesOfALargeAccount(t *testing.T) {
	t.Parallel()
	env := newNodeEnv(t, 501)
	nodes := uninitialised(1)
	nodes[0].Name, nodes[0].UID = "w501", "uid-of-w501"
	c := startCluster(t, env.provider(nil), nodes...)
	c.initialised("w501")
	assert.Equal(t, []string{"listVirtualMachines", "listVirtualMachines"}, env.Calls("ccm"), "two pages")
}

func TestSimulatedLifeOfVMs(t *testing.T) {
	t.Parallel()
	env := newNodeEnv(t, 6)
	env.Admin("stopVirtualMachine", "id", env.ids["w2"])
	env.Admin("destroyVirtualMachine", "id", env.ids["w3"])
	c := startCluster(t, env.provider(nil), env.nodes(6)...)
	c.eventually("w2 is tainted", func() bool {
		n, err := c.node("w2")
		return err == nil && tainted(n, cloudproviderapi.TaintNodeShutdown)
	})
	c.eventually("w3 is deleted", func() bool {
		_, err := c.node("w3")
		return apierrors.IsNotFound(err)
	})
	c.rounds(3, 5)
	list, err := c.kube.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	assert.Len(t, list.Items, 5)
	for i := range list.Items {
		assert.Equal(t, list.Items[i].Name == "w2", tainted(&list.Items[i], cloudproviderapi.TaintNodeShutdown), list.Items[i].Name)
	}
}

func TestSimulatedFaultsDeleteNoNode(t *testing.T) {
	t.Parallel()
	project := func(name string) func(*nodeEnv, *cloudstack.Config) {
		return func(env *nodeEnv, cfg *cloudstack.Config) { cfg.ProjectID = env.project(name) }
	}
	for _, c := range []struct {
		name   string
		fault  *simulator.Fault
		config func(*nodeEnv, *cloudstack.Config)
		event  string // part of an Event with the reason NodeDeletionRefused
	}{
		{name: "401", fault: &simulator.Fault{Kind: simulator.FaultErrorBefore, HTTPStatus: 401, Text: "unable to verify user credentials"}},
		{name: "432", fault: &simulator.Fault{Kind: simulator.FaultErrorBefore, HTTPStatus: 432}},
		{name: "503", fault: &simulator.Fault{Kind: simulator.FaultErrorBefore, HTTPStatus: 503}},
		{name: "530", fault: &simulator.Fault{Kind: simulator.FaultErrorBefore}},
		{name: "cut", fault: &simulator.Fault{Kind: simulator.FaultCutBefore}},
		{name: "lost answer", fault: &simulator.Fault{Kind: simulator.FaultLostAnswer}},
		{name: "a wrong key", config: func(_ *nodeEnv, cfg *cloudstack.Config) { cfg.SecretKey = "wrong" }},
		{name: "a wrong project", config: project("dev"), event: "none of the 4 nodes (w1, w2, w3, w4) has a VM in project"},
		{name: "an empty project", config: project("empty"), event: "(0 VMs)"},
		{name: "a project that does not exist", config: func(_ *nodeEnv, cfg *cloudstack.Config) { cfg.ProjectID = "b7f0a1de-0000-4000-8000-000000000000" }},
		{name: "a project by a wrong name", config: func(_ *nodeEnv, cfg *cloudstack.Config) { cfg.ProjectID = "prod" }},
		{name: "another zone", config: func(_ *nodeEnv, cfg *cloudstack.Config) { cfg.Zone = "zone-2" }},
	} {
		parallel(t, c.name, func(t *testing.T) {
			env := newNodeEnv(t, 4)
			p := env.provider(func(cfg *cloudstack.Config) {
				if c.config != nil {
					c.config(env, cfg)
				}
			})
			if c.fault != nil {
				env.Inject(*c.fault)
			}
			k := startCluster(t, p, env.nodes(4)...)
			k.rounds(3, 4)
			if c.event != "" {
				k.eventually("an Event", func() bool { return strings.Contains(k.event(string(event.NodeDeletionRefused)), c.event) })
			}
			list, err := k.kube.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
			require.NoError(t, err)
			assert.Len(t, list.Items, 4)
		})
	}
}

// The role that CloudStack Kubernetes Service gives to its clusters allows neither listZones nor listProjects.
func TestSimulatedProjectWithTheRoleOfCKS(t *testing.T) {
	t.Parallel()
	env := newNodeEnv(t, 0)
	nodes := []*corev1.Node{k8sNode("p1", ""), k8sNode("p2.example.org", "")}
	for _, n := range nodes {
		n.Spec.Taints = []corev1.Taint{{Key: cloudproviderapi.TaintExternalCloudProvider, Effect: corev1.TaintEffectPreferNoSchedule}}
	}
	c := startCluster(t, env.provider(func(cfg *cloudstack.Config) {
		cfg.APIKey, cfg.SecretKey, cfg.ProjectID, cfg.Zone = "cks-key", "cks-secret", env.project("dev"), "zone-1"
	}), nodes...)
	c.initialised("p1", "p2.example.org")
	n, err := c.node("p2.example.org")
	require.NoError(t, err)
	assert.Equal(t, "external-cloudstack://"+env.ids["p2"], n.Spec.ProviderID)
}

func TestSimulatedProjectByName(t *testing.T) {
	t.Parallel()
	env := newNodeEnv(t, 0)
	nodes := uninitialised(1)
	nodes[0].Name = "p1"
	c := startCluster(t, env.provider(func(cfg *cloudstack.Config) { cfg.ProjectID = "dev" }), nodes...)
	c.initialised("p1")
	assert.Equal(t, []string{"listProjects", "listVirtualMachines"}, env.Calls("ccm"))

	_, err := env.provider(func(cfg *cloudstack.Config) { cfg.ProjectID = "prod" }).tryContact(t.Context())
	require.ErrorContains(t, err, `project "prod" not found: the API key's user belongs to "dev", "empty"`)
}

func TestCommandsAreAllowed(t *testing.T) {
	t.Parallel()
	env := newNodeEnv(t, 0)
	user, err := env.Client(testAPIKey, testSecret).ListAPIs(t.Context())
	require.NoError(t, err)
	for _, name := range RequiredCommands {
		assert.Contains(t, user, name, "the default User role")
	}

	admin := env.Client("admin-key", "admin-secret")
	roles, err := admin.ListRoles(t.Context(), "Project Kubernetes Service Role")
	require.NoError(t, err)
	require.Len(t, roles, 1)
	rules, err := admin.ListRolePermissions(t.Context(), roles[0].ID)
	require.NoError(t, err)
	allowed := map[string]bool{}
	for _, r := range rules {
		allowed[r.Rule] = r.Permission == "allow"
	}
	for _, c := range Commands {
		assert.True(t, c.Optional || allowed[c.Name], "%s is neither optional nor allowed to CKS's clusters", c.Name)
		assert.Equal(t, c.Optional, c.Without != "", c.Name)
	}
	assert.Len(t, RequiredCommands, len(Commands))
	assert.Subset(t, RequiredCommands, OptionalCommands)
}
