// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csccm/csccm/pkg/simulator"
	"github.com/csccm/csccm/pkg/ui/model"
	"github.com/csccm/csccm/test/plane"
	"github.com/csccm/csccm/test/processnode"
	"github.com/csccm/csccm/test/testenv"
)

// TestRecord records what csccm ui shows of a live cluster in several states, for the tests and pictures of package
// browser: CSCCM_UI_RECORD=$PWD/browser/testdata/recorded.json.gz go test ./e2e -run 'TestRecord$'. The first state is
// complete; each other one is a patch of the state before it.
func TestRecord(t *testing.T) {
	t.Parallel()
	file := os.Getenv("CSCCM_UI_RECORD")
	if file == "" {
		t.Skip("CSCCM_UI_RECORD names no file")
	}
	workers := map[string]string{"pool": "workers"}
	nodes := []processnode.Options{
		{Name: "cp1", Address: "10.1.1.11", Labels: cp1.Labels},
		{Name: "cp2", Address: "10.1.1.12", Labels: cp1.Labels},
		{Name: "w1", Address: "10.1.1.21", Labels: workers}, {Name: "w2", Address: "10.1.1.22", Labels: workers},
		{Name: "w3", Address: "10.1.1.23", Labels: workers},
	}
	e := newClusterEnv(t, worldOf(t, 64, nodes...))
	e.join(t, nodes...)
	e.csccm(t, adminPassword+"\n", installArgs(e)...).want(t, 0)
	e.initialised(t, 5)
	signal := func(s syscall.Signal) { // to all Pods of the controller
		t.Helper()
		for _, pod := range e.controllerPods(t) {
			name, _, _ := strings.Cut(pod, "/")
			for _, n := range e.nodes.Nodes() {
				if pid, ok := n.PodPID(metav1.NamespaceSystem, name); ok && syscall.Kill(pid, s) != nil {
					t.Fatal(name, "has ended")
				}
			}
		}
	}
	namespaces, names := []string{"shop", "payments", "search", "media", "platform",
		"internal"}, []string{"web", "api", "admin", "grpc", "metrics", "auth", "cart", "feed", "events", "proxy"}
	for _, namespace := range namespaces {
		e.makeNamespace(t, namespace)
		for i, name := range names {
			e.serviceIn(t, namespace, name, nil, [][]int32{{443}, {443, 80}, {443}, {9090}}[i%4]...)
		}
	}
	url := fmt.Sprintf("https://%s:%d", e.Host, e.Port)
	wire := newLink(t, url)
	config, err := os.ReadFile(e.Kubeconfig)
	require.NoError(t, err)
	e.environ = []string{"KUBECONFIG=" +
		e.file(t, "by-wire", strings.Replace(string(config), url, "https://"+wire.listener.Addr().String(), 1))}
	p := e.opens(t)

	var states []map[string]any
	var healthy, last model.Snapshot
	record := func(name string, holds func() bool) {
		t.Helper()
		p.until(t, name, holds)
		patch, _ := model.Diff(last, p.now)
		states, last = append(states, map[string]any{"name": name, "patch": patch}), p.now
	}
	services := func(healths ...model.Health) (n int) {
		for _, o := range p.now.Objects {
			if o.Kind == model.KindService && slices.Contains(healths, o.Health) {
				n++
			}
		}
		return n
	}
	calm := func() bool {
		return services(model.HealthPending, model.HealthWarning, model.HealthError) == 0 &&
			!p.lacks("plans") &&
			!p.lacks("checks") &&
			len(p.now.Plans) == 0 &&
			len(p.rules()) >= 78 &&
			p.now.Controller.Ready == 2
	}
	p.until(t, "the 60 Services", calm)
	healthy, last = p.now, p.now
	slow := e.cloud.Inject(simulator.Fault{
		Command: "createLoadBalancerRule",
		Kind:    simulator.FaultDelay,
		Delay:   30 * time.Second,
	})
	e.serviceIn(t, "shop", "checkout", nil, 443)
	record("creating",
		func() bool { return p.health("service/shop/checkout") == model.HealthPending && len(p.now.Plans) == 1 })
	slow()
	p.until(t, "the new Service", calm)

	signal(syscall.SIGSTOP)
	for _, o := range p.now.Objects {
		if o.Kind == model.KindRule && o.Label == "shop/web" {
			e.admin(t, "deleteLoadBalancerRule", map[string]string{"id": strings.TrimPrefix(o.ID, "rule/")})
		}
	}
	record("rule gone",
		func() bool { return p.health("service/shop/web") == model.HealthWarning && len(p.now.Plans) == 1 })
	record("no leader",
		func() bool { c := p.now.Controller; return c != nil && p.now.At.Sub(c.Renewed) > 30*time.Second })
	signal(syscall.SIGCONT) // a controller that has lost the lease exits and is started again
	p.until(t, "the repair", calm)
	e.nodes.Nodes()[4].Stop()
	_, vm, _ := strings.Cut(e.node(t, "w3").Spec.ProviderID, "://")
	e.admin(t, "destroyVirtualMachine", map[string]string{"id": vm, "expunge": "true"})
	e.notReady(t, "w3")
	record("VM gone", func() bool { return p.health("vm/"+vm) == "" && p.health("node/w3") == model.HealthError })
	e.nodeGone(t, "w3")
	for _, name := range names {
		e.serviceIn(t, "media", name+"-2", nil, 443)
	}
	record("exhausted", func() bool { // 61 Services and the network itself have one address each
		return services(model.HealthError) == 8 && strings.Count(fmt.Sprint(p.now.Objects), "{Next try ") == 8
	})
	failing := func(i int, reason string) bool {
		return p.now.Sources[i].State == model.SourceFailing && strings.Contains(p.now.Sources[i].Reason, reason)
	}
	fails := e.cloud.Inject(simulator.Fault{Command: "*", Kind: simulator.FaultErrorBefore})
	record("CloudStack fails", func() bool { return failing(1, "530") })
	fails()
	hangs := e.cloud.Inject(simulator.Fault{Command: "*", Kind: simulator.FaultDelay, Delay: time.Minute})
	record("CloudStack hangs", func() bool { return failing(1, "no result") })
	hangs()
	wire.cut.Store(true)
	record("API server gone", func() bool { return failing(0, "") })

	write(t, file, map[string]any{"healthy": healthy, "states": states})
}

// TestRecordLarge records a cluster with 1,000 Services on 1,000 nodes, for the picture of docs/ui.md and the times of
// docs/contributing/performance.md: CSCCM_UI_RECORD_LARGE=/tmp/large.json.gz go test ./e2e -run TestRecordLarge.
func TestRecordLarge(t *testing.T) {
	t.Parallel()
	file := os.Getenv("CSCCM_UI_RECORD_LARGE")
	if file == "" {
		t.Skip("CSCCM_UI_RECORD_LARGE names no file")
	}

	const size = 1000
	var nodes []processnode.Options
	for i := range size {
		nodes = append(nodes,
			processnode.Options{Name: fmt.Sprint("w", i+1), Address: testenv.VMAddress(i + 1), Labels: cp1.Labels})
	}

	// Only the nodes of the controller's Pods have a kubelet.
	e := newClusterEnvOn(t, borrow(t, plane.Options{NodeGrace: time.Hour}), worldOf(t, 1024, nodes...))
	e.join(t, nodes[:2]...)
	e.csccm(t, adminPassword+"\n", installArgs(e)...).want(t, 0)
	others := testenv.Env{Client: e.Client}
	require.NoError(t,
		others.Register(t.Context(), 3, size, func(n *corev1.Node) { n.Labels["pool"] = "pool-" + n.Name[1:2] }))
	e.initialised(t, size)
	for i := range size {
		namespace := fmt.Sprintf("team-%02d", i/25)
		if i%25 == 0 {
			e.makeNamespace(t, namespace)
		}
		e.serviceIn(t, namespace, fmt.Sprintf("web-%d", i), nil, 443)
	}

	p := e.opens(t)
	p.until(t, "all Services", func() bool {
		return !p.lacks("plans") &&
			!p.lacks("checks") &&
			len(p.now.Plans) == 0 &&
			len(p.rules()) == size &&
			p.now.Controller.Ready == 2
	})

	write(t, file, map[string]any{"healthy": p.now})
}

// worldOf returns a CloudStack with the VMs of nodes, in an account with a limit of public addresses.
func worldOf(t *testing.T, addresses int, nodes ...processnode.Options) *simulator.World {
	t.Helper()
	yaml := fmt.Sprintf(`
version: 4.22.0.0
zones: [{name: zone-1, publicRanges: [198.18.0.1-198.18.7.250], hosts: [h1]}]
serviceOfferings: [{name: Small Instance, cpus: 1, cpuSpeed: 500, memoryMiB: 512}]
accounts:
  - {name: admin, role: Root Admin, users: [{name: admin, password: password}]}
  - {name: k8s, role: User, limits: {publicIPs: %d}, users: [{name: k8s-owner, password: password}]}
networks: [{name: k8s-net, account: k8s, cidr: 10.1.0.0/16}]
virtualMachines:
`, addresses)

	for _, n := range nodes {
		yaml += fmt.Sprintf("  - {name: %s, account: k8s, offering: Small Instance, nics: [{network: k8s-net, ip: "+
			"%s}]}\n", n.Name, n.Address)
	}

	world, err := simulator.LoadWorld(strings.NewReader(yaml))
	require.NoError(t, err)
	return world
}

// write writes a recording.
func write(t *testing.T, file string, recording any) {
	t.Helper()
	out, err := os.Create(file)
	require.NoError(t, err)
	packed, err := gzip.NewWriterLevel(out, gzip.BestCompression)
	require.NoError(t, errors.Join(err, json.NewEncoder(packed).Encode(recording), packed.Close(), out.Close()))
}

func (e *env) makeNamespace(t *testing.T, name string) {
	t.Helper()
	if _, err := e.Client.CoreV1().Namespaces().Create(t.Context(),
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}
