// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package register

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	sdk "github.com/apache/cloudstack-go/v2/cloudstack"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/csccm/csccm/installer/cloud"
	"github.com/csccm/csccm/installer/engine/report"
	"github.com/csccm/csccm/installer/testenv"
	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/registration"
	"github.com/csccm/csccm/pkg/simulator"
)

// names are the nodes, and the VMs of the example world with one more.
var names = []string{"demo-cp-1", "demo-worker-1", "demo-worker-2", "demo-worker-3"}

const uid = "5d0c1a52-0000-4000-8000-00000000abcd"

// env is a cluster whose nodes are VMs of a simulated CloudStack.
type env struct {
	*testenv.Env
	sim *testenv.Cloud
	cs  *cloud.Cloud
	vms map[string]string // ids by name
}

func newEnv(t *testing.T, objects ...runtime.Object) *env {
	t.Helper()
	return newEnvIn(t, "", objects...)
}

// newEnvIn makes an environment in the example world, to which a world in YAML adds roles, offerings and settings.
func newEnvIn(t *testing.T, added string, objects ...runtime.Object) *env {
	t.Helper()
	world := simulator.ExampleWorld()
	more := world.VirtualMachines[2]
	more.Name, more.NICs = names[3], slices.Clone(more.NICs)
	more.NICs[0].IP = "10.1.1.23"
	world.VirtualMachines = append(world.VirtualMachines, more)
	if added != "" {
		others, err := simulator.LoadWorld(strings.NewReader(added))
		require.NoError(t, err)
		world.Roles, world.Settings, world.Templates = others.Roles, others.Settings, others.Templates
		world.ServiceOfferings = append(world.ServiceOfferings, others.ServiceOfferings...)
		if len(world.Roles) > 0 {
			world.Accounts[1].Role = world.Roles[0].Name
		}
	}
	e := &env{sim: testenv.NewCloud(t, world), vms: map[string]string{}}
	objects = append(objects, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "kube-system", UID: uid}})
	e.Env = testenv.New(t, objects...)
	e.cs = &cloud.Cloud{Client: e.sim.Client(t, ""), Config: e.sim.Config(t, ""), From: "Secret kube-system/cloudstack-secret"}
	vms, err := e.cs.Client.ListVirtualMachines(t.Context(), cloudstack.VMQuery{})
	require.NoError(t, err)
	for i := range vms {
		e.vms[vms[i].Name] = vms[i].ID
	}
	return e
}

// nodes makes the cluster have these nodes. Those of odd number are not initialised yet: they have no provider ID.
func (e *env) nodes(t *testing.T, have ...string) {
	t.Helper()
	nodes := e.Kube.CoreV1().Nodes()
	for i, name := range names {
		_ = nodes.Delete(t.Context(), name, metav1.DeleteOptions{})
		if !slices.Contains(have, name) {
			continue
		}
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{}}}
		if i%2 == 0 {
			n.Spec.ProviderID = "cloudstack:///" + e.vms[name]
		}
		if i == 0 {
			n.Labels["node-role.kubernetes.io/control-plane"] = ""
		}
		_, err := nodes.Create(t.Context(), n, metav1.CreateOptions{})
		require.NoError(t, err)
	}
}

// run registers the cluster and returns the result; the ledger holds the calls of this run.
func (e *env) run(t *testing.T, name string) (*Result, error) {
	t.Helper()
	e.sim.Ledger().Reset()
	e.Stdout.Reset()
	e.Stderr.Reset()
	e.Output = "json"
	err := Run(t.Context(), e.Env.Env, e.cs, name)
	r := &Result{}
	if e.Stdout.Len() > 0 {
		require.NoError(t, json.Unmarshal(e.Stdout.Bytes(), r))
	}
	return r, err
}

// writes are the calls since the last reset that change something.
func (e *env) writes() []string {
	var out []string
	for _, c := range e.sim.Ledger().Calls() {
		if !slices.Contains([]string{"listKubernetesClusters", "listVirtualMachines", "listApis", "queryAsyncJobResult", "listAsyncJobs"}, c.Command) {
			out = append(out, c.Command)
		}
	}
	return out
}

// entries returns the names of the VMs of each entry, by the entry's name.
func (e *env) entries(t *testing.T) map[string][]string {
	t.Helper()
	list, err := e.cs.Client.ListKubernetesClusters(t.Context(), "")
	require.NoError(t, err)
	out := map[string][]string{}
	for i := range list {
		require.NotContains(t, out, list[i].Name, "never a second entry of one name")
		out[list[i].Name] = []string{}
		for _, name := range names {
			if slices.Contains(list[i].VMs, e.vms[name]) {
				out[list[i].Name] = append(out[list[i].Name], name)
			}
		}
	}
	return out
}

// requireVMsUntouched: no VM has changed its state, and nobody asked for it.
func (e *env) requireVMsUntouched(t *testing.T) {
	t.Helper()
	vms, err := e.cs.Client.ListVirtualMachines(t.Context(), cloudstack.VMQuery{})
	require.NoError(t, err)
	require.Len(t, vms, len(names))
	for i := range vms {
		require.Equal(t, cloudstack.VMRunning, vms[i].State)
	}
}

const (
	create = "createKubernetesCluster"
	add    = "addVirtualMachinesToKubernetesCluster"
	remove = "removeVirtualMachinesFromKubernetesCluster"
)

// Three nodes join and two leave. Each change costs one call, no change costs none, and each dry run costs none.
func TestRegisterFollowsNodes(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	for _, step := range []struct {
		name  string
		nodes []string
		calls []string
	}{
		{"first", names[:1], []string{create, add}},
		{"one joins", names[:2], []string{add}},
		{"two join", names, []string{add}},
		{"nothing changes", names, nil},
		{"one leaves", []string{names[0], names[1], names[3]}, []string{remove}},
		{"one leaves again", []string{names[0], names[3]}, []string{remove}},
	} {
		e.nodes(t, step.nodes...)
		e.DryRun = true
		planned, err := e.run(t, "prod")
		require.NoError(t, err, step.name)
		require.Empty(t, e.writes(), step.name)
		require.True(t, planned.DryRun)
		require.NoFileExists(t, e.Journal, "%s: a dry run", step.name)
		e.DryRun = false
		made, err := e.run(t, "prod")
		require.NoError(t, err, step.name)
		require.Equal(t, step.calls, e.writes(), step.name)
		require.Equal(t, planned.Changes, made.Changes, step.name)
		require.Equal(t, len(step.calls), made.Done, step.name)
		require.NotEmpty(t, made.EntryID)
		require.Equal(t, map[string][]string{"prod": step.nodes}, e.entries(t), step.name)
		if len(step.calls) > 0 {
			require.NoError(t, os.Remove(e.Journal), "what was changed is recorded")
		}
	}
	_, err := e.run(t, "")
	require.NoError(t, err, "the entry has a name")
	require.Empty(t, e.writes())
	e.requireVMsUntouched(t)
}

func TestRegisterRefuses(t *testing.T) {
	t.Parallel()
	controller := func(flags ...string) *appsv1.Deployment {
		d := testenv.Deployment(1)
		d.Spec.Template.Spec.Containers[0].Args = append([]string{"--cloud-provider=external-cloudstack"}, flags...)
		return d
	}
	other := func(t *testing.T, e *env) {
		_, err := e.cs.Client.CreateExternalCluster(t.Context(), cloudstack.ExternalClusterRequest{Name: "prod", ZoneID: e.zone(t), Description: "by hand"})
		require.NoError(t, err)
	}
	shown := func(t *testing.T, e *env) {
		id, err := e.cs.Client.CreateExternalCluster(t.Context(), cloudstack.ExternalClusterRequest{Name: "capc", ZoneID: e.zone(t)})
		require.NoError(t, err)
		require.NoError(t, e.cs.Client.AddClusterVMs(t.Context(), id, []string{e.vms[names[1]]}, false))
		e.sim.Ledger().Reset()
	}
	own := func(t *testing.T, e *env) {
		_, err := e.run(t, "old")
		require.NoError(t, err)
	}
	without := func(command string) func(*testing.T, *env) {
		return func(_ *testing.T, e *env) {
			e.sim.Inject(simulator.Fault{Command: command, Kind: simulator.FaultErrorBefore, HTTPStatus: 432, Text: "not for this role"})
		}
	}
	for name, tc := range map[string]struct {
		objects   []runtime.Object
		before    func(*testing.T, *env)
		name      string
		says, fix string
		code      int
	}{
		"a name that is taken":         {before: other, name: "prod", says: `named prod that is not this cluster`, fix: "another name than prod", code: 3},
		"VMs that another entry shows": {before: shown, name: "prod", says: "capc in CloudStack", fix: "syncWithACS", code: 3},
		"another name":                 {before: own, name: "new", says: "registered as old, and CloudStack cannot rename", fix: "csccm unregister", code: 3},
		"no name":                      {name: " ", says: "no name in CloudStack's UI yet", fix: "csccm register NAME; the kubeconfig calls the cluster kind", code: 2},
		"another name than the controller's": {
			objects: []runtime.Object{controller("--register-cluster=night")}, name: "day", says: "under the name night", fix: "csccm upgrade --set registerCluster=", code: 3,
		},
		"a role that may not list":   {before: without("listKubernetesClusters"), name: "prod", says: add, fix: "--cloud-config", code: 3},
		"no VM for any of the nodes": {before: func(t *testing.T, e *env) { e.nodes(t) }, name: "prod", says: "no VM for any of 0 nodes", fix: "csccm doctor", code: 3},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newEnv(t, tc.objects...)
			e.Cluster.Name = "kind"
			e.nodes(t, names...)
			if tc.before != nil {
				tc.before(t, e)
			}
			for _, dry := range []bool{true, false} {
				e.DryRun = dry
				_, err := e.run(t, tc.name)
				testenv.RequireRefusal(t, err, tc.says, tc.fix, tc.code)
				require.Empty(t, e.writes())
			}
			e.requireVMsUntouched(t)
		})
	}
}

func (e *env) zone(t *testing.T) string {
	t.Helper()
	zones, err := e.cs.Client.ListZones(t.Context())
	require.NoError(t, err)
	return zones[0].ID
}

// A role without one of the commands is refused before the first change; the error names the command.
func TestRegisterNeedsItsCommands(t *testing.T) {
	t.Parallel()
	e := newEnvIn(t, `
zones: [{name: z, publicRanges: [203.0.113.1-203.0.113.9]}]
roles: [{name: limited, type: User, rules: [{deny: addVirtualMachinesToKubernetesCluster}, {deny: remove*Cluster}, {allow: "*"}]}]
`)
	e.nodes(t, names...)
	for _, dry := range []bool{true, false} {
		e.DryRun = dry
		_, err := e.run(t, "prod")
		testenv.RequireRefusal(t, err, "the keys of Secret kube-system/cloudstack-secret may not call "+add+", "+remove, "--cloud-config", report.ExitCheckFailed)
		require.Empty(t, e.writes())
		require.Contains(t, e.Stdout.String(), `"changes"`, "the plan is written all the same")
	}
}

// A cluster of CloudStack Kubernetes Service has its entry, under whatever name it is registered.
func TestRegisterRefusesCKS(t *testing.T) {
	t.Parallel()
	e := newEnvIn(t, `
settings: {endpointURL: "http://192.0.2.1:8080/client/api"}
zones: [{name: z, publicRanges: [203.0.113.1-203.0.113.9]}]
serviceOfferings: [{name: node, cpus: 2, cpuSpeed: 1000, memoryMiB: 2048}]
templates: [{name: plain}, {name: ready, forCKS: true}]
`)
	api := func(user string) *sdk.CloudStackClient {
		keys := e.sim.Config(t, user)
		return sdk.NewClient(e.sim.URL, keys.APIKey, keys.SecretKey, false)
	}
	v := api("admin").Kubernetes.NewAddKubernetesSupportedVersionParams(2, 2048, "1.31.1")
	v.SetUrl("http://192.0.2.1/x.iso")
	version, err := api("admin").Kubernetes.AddKubernetesSupportedVersion(v)
	require.NoError(t, err)
	offering, _, err := api("").ServiceOffering.GetServiceOfferingID("node")
	require.NoError(t, err)
	made, err := api("").Kubernetes.CreateKubernetesCluster(api("").Kubernetes.NewCreateKubernetesClusterParams("", version.Id, "cks", offering, 1, e.zone(t)))
	require.NoError(t, err)
	_, err = e.cs.Client.Jobs().Wait(t.Context(), create, made.JobID)
	require.NoError(t, err)
	list, err := e.cs.Client.ListKubernetesClusters(t.Context(), "")
	require.NoError(t, err)
	require.Len(t, list, 1)
	for i, id := range list[0].VMs {
		e.vms[names[2*i]] = id // the nodes with a provider ID
	}
	e.nodes(t, names[0], names[2])
	for _, name := range []string{"prod", "cks"} {
		_, err = e.run(t, name)
		testenv.RequireRefusal(t, err, "CloudStack Kubernetes Service made this cluster", "none is needed", report.ExitCheckFailed)
		require.Empty(t, e.writes())
	}
}

// The run ends between two calls, or an answer is lost. The next run goes on, without a second entry.
func TestRegisterGoesOn(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]simulator.Fault{
		"before the entry":                  {Command: create, Kind: simulator.FaultErrorBefore, HTTPStatus: 530, Text: "busy", Count: 1},
		"the entry's answer is lost":        {Command: create, Kind: simulator.FaultLostAnswer, Count: 1},
		"before the VMs":                    {Command: add, Kind: simulator.FaultErrorBefore, HTTPStatus: 530, Text: "busy", Count: 1},
		"between control plane and workers": {Command: add, Kind: simulator.FaultErrorBefore, HTTPStatus: 530, Text: "busy", Nth: 2, Count: 1},
		"the VMs' answer is lost":           {Command: add, Kind: simulator.FaultLostAnswer, Count: 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newEnv(t)
			e.nodes(t, names...)
			e.sim.Inject(fault)
			_, err := e.run(t, "prod")
			testenv.RequireRefusal(t, err, "in CloudStack", "run the same command again", report.ExitFailure)
			again, err := e.run(t, "prod")
			require.NoError(t, err)
			require.Equal(t, map[string][]string{"prod": names}, e.entries(t))
			require.Equal(t, len(again.Changes), again.Done)
			e.requireVMsUntouched(t)
		})
	}
}

func TestRegisterAsksForTheName(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	e.nodes(t, names...)
	e.Cluster.Name = "kind"
	e.Answers("", "no")
	err := Run(t.Context(), e.Env.Env, e.cs, "")
	testenv.RequireRefusal(t, err, "not confirmed", "--yes", report.ExitUsage)
	require.Contains(t, e.Said(), "Cluster kind is not registered", "the suggestion is taken")
	require.Empty(t, e.entries(t))
	e.Answers("shop", "yes")
	require.NoError(t, Run(t.Context(), e.Env.Env, e.cs, ""), e.Said())
	require.Contains(t, e.entries(t), "shop")
	require.Contains(t, e.Stderr.String(), "csccm upgrade --set registerCluster=shop has the controller keep the entry")
}

// With the controller's option the controller alone changes the entry.
func TestRegisterLeavesTheControllersEntry(t *testing.T) {
	t.Parallel()
	d := testenv.Deployment(1)
	d.Spec.Template.Spec.Containers[0].Args = []string{"--cloud-provider=external-cloudstack", "--register-cluster=night"}
	e := newEnv(t, d)
	e.nodes(t, names...)
	for _, name := range []string{"", "night"} {
		r, err := e.run(t, name)
		require.NoError(t, err)
		require.True(t, r.KeptByController)
		require.Empty(t, e.writes())
		require.Contains(t, e.Stderr.String(), "the controller keeps the entry")
	}
}

func TestUnregister(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	e.nodes(t, names...)
	_, err := e.cs.Client.CreateExternalCluster(t.Context(), cloudstack.ExternalClusterRequest{Name: "others", ZoneID: e.zone(t), Description: "Registered by csccm, cluster another"})
	require.NoError(t, err)
	_, err = e.run(t, "prod")
	require.NoError(t, err)
	e.sim.Ledger().Reset()
	e.DryRun = true
	require.NoError(t, Unregister(t.Context(), e.Env.Env, e.cs))
	require.Empty(t, e.writes())
	e.DryRun = false
	e.sim.Inject(simulator.Fault{Command: registration.UnregisterCommand, Kind: simulator.FaultJobFails, Count: 1, Text: "busy"})
	testenv.RequireRefusal(t, Unregister(t.Context(), e.Env.Env, e.cs), "delete the entry prod", "again", report.ExitFailure)
	e.sim.Ledger().Reset()
	for range 2 {
		require.NoError(t, Unregister(t.Context(), e.Env.Env, e.cs), e.Said())
	}
	require.Equal(t, []string{registration.UnregisterCommand}, e.writes(), "the second run has nothing to do")
	require.Equal(t, map[string][]string{"others": {}}, e.entries(t))
	e.requireVMsUntouched(t)
}

func TestUnregisterRefusesWhileTheControllerKeepsTheEntry(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	e.nodes(t, names...)
	_, err := e.run(t, "night")
	require.NoError(t, err)
	d := testenv.Deployment(1)
	d.Spec.Template.Spec.Containers[0].Args = []string{"--cloud-provider=external-cloudstack", "--register-cluster=night"}
	_, err = e.Kube.AppsV1().Deployments(d.Namespace).Create(t.Context(), d, metav1.CreateOptions{})
	require.NoError(t, err)
	e.sim.Ledger().Reset()
	testenv.RequireRefusal(t, Unregister(t.Context(), e.Env.Env, e.cs), "would create the entry again", "csccm upgrade --set registerCluster=", report.ExitCheckFailed)
	require.Empty(t, e.writes())
}
