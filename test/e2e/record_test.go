// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csccm/csccm/pkg/simulator"
	"github.com/csccm/csccm/pkg/ui/model"
)

// TestRecord records what csccm ui shows of a live cluster in several states, for the tests and pictures of package browser:
// CSCCM_UI_RECORD=$PWD/browser/testdata/recorded.json.gz go test ./e2e -run 'TestRecord$'. The first state is whole, each other is a patch of the one before.
func TestRecord(t *testing.T) {
	t.Parallel()
	file := os.Getenv("CSCCM_UI_RECORD")
	if file == "" {
		t.Skip("CSCCM_UI_RECORD names no file")
	}
	e := newDirectEnv(t, 4)
	e.register(t, 1, 4, func(n *corev1.Node) {
		pool := "workers"
		if n.Name == "w1" {
			n.Labels["node-role.kubernetes.io/control-plane"], n.Labels["node.kubernetes.io/exclude-from-external-load-balancers"], pool = "", "", ""
		}
		n.Labels["pool"] = pool
	})
	ccm := e.controller(t, "ccm-a")
	e.leads(t, ccm)
	e.initialised(t, 4)
	namespaces, names := []string{"shop", "payments", "search", "media", "platform", "internal"}, []string{"web", "api", "admin", "grpc", "metrics", "auth", "cart", "feed", "events", "proxy"}
	create := func(namespace, name string, ports ...int32) {
		_, err := e.Client.CoreV1().Services(namespace).Create(t.Context(), &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, Ports: servicePorts(ports...)},
		}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, namespace := range namespaces {
		_, err := e.Client.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for i, name := range names {
			create(namespace, name, [][]int32{{443}, {443, 80}, {443}, {9090}}[i%4]...)
		}
	}
	wire := newLink(t, e.url())
	config, err := os.ReadFile(e.Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	e.environ = []string{"KUBECONFIG=" + e.file(t, "by-wire", strings.Replace(string(config), e.url(), "https://"+wire.listener.Addr().String(), 1))}
	e.file(t, "ui-config", string(e.config(t, "ccm-a").Render()))
	p := e.opens(t, "--cloud-config", "ui-config")

	type state struct {
		Name  string      `json:"name"`
		Patch model.Patch `json:"patch"`
	}
	var states []state
	var healthy, last model.Snapshot
	record := func(name string, holds func() bool) {
		t.Helper()
		p.until(t, name, holds)
		patch, _ := model.Diff(last, p.now)
		states, last = append(states, state{name, patch}), p.now
	}
	calm := func() bool {
		for i := range p.now.Objects {
			if o := &p.now.Objects[i]; o.Kind == model.KindService && o.Health != model.HealthOK {
				return false
			}
		}
		return !p.lacks("plans") && !p.lacks("checks") && len(p.now.Plans) == 0 && len(p.rules()) >= 78
	}
	p.until(t, "the 60 Services", calm)
	healthy, last = p.now, p.now
	slow := e.cloud.Inject(simulator.Fault{Command: "createLoadBalancerRule", Kind: simulator.FaultDelay, Delay: 30 * time.Second})
	create("shop", "checkout", 443)
	record("creating", func() bool { return p.health("service/shop/checkout") == model.HealthPending && len(p.now.Plans) == 1 })
	slow()
	p.until(t, "the new Service", calm)

	if err := ccm.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	for i := range p.now.Objects {
		if o := &p.now.Objects[i]; o.Kind == model.KindRule && o.Label == "shop/web" {
			e.admin(t, "deleteLoadBalancerRule", map[string]string{"id": strings.TrimPrefix(o.ID, "rule/")})
		}
	}
	record("rule gone", func() bool { return p.health("service/shop/web") == model.HealthWarning && len(p.now.Plans) == 1 })
	record("no leader", func() bool { c := p.now.Controller; return c != nil && p.now.At.Sub(c.Renewed) > 30*time.Second })
	ccm.Stop(0) // who wakes up without the lease ends
	e.leads(t, e.controllerAs(t, "ccm-b", "ccm-a", e.url()))
	p.until(t, "the repair", calm)
	e.destroy(t, "w3")
	record("VM gone", func() bool { return p.health("vm/"+e.vms.VM("w3")) == "" && p.health("node/w3") == model.HealthError })
	e.nodeGone(t, "w3")

	account := e.admin(t, "listAccounts", map[string]string{"listall": "true", "name": "k8s"})["account"].([]any)[0].(map[string]any)
	e.admin(t, "updateResourceLimit", map[string]string{"account": "k8s", "domainid": account["domainid"].(string), "resourcetype": "1", "max": fmt.Sprint(len(names)*len(namespaces) + 2)}) // with the network's own
	for _, name := range names {
		create("media", name+"-2", 443)
	}
	record("exhausted", func() bool {
		return p.health("service/media/web-2") == model.HealthError && p.health("service/media/proxy-2") == model.HealthError
	})
	failing := func(i int, reason string) func() bool {
		return func() bool {
			return p.now.Sources[i].State == model.SourceFailing && strings.Contains(p.now.Sources[i].Reason, reason)
		}
	}
	fails := e.cloud.Inject(simulator.Fault{Command: "*", Kind: simulator.FaultErrorBefore})
	record("CloudStack fails", failing(1, "530"))
	fails()
	hangs := e.cloud.Inject(simulator.Fault{Command: "*", Kind: simulator.FaultDelay, Delay: time.Minute})
	record("CloudStack hangs", failing(1, "did not answer"))
	hangs()
	wire.cut.Store(true)
	record("API server gone", failing(0, ""))

	var out bytes.Buffer
	packed, err := gzip.NewWriterLevel(&out, gzip.BestCompression)
	if err == nil {
		err = json.NewEncoder(packed).Encode(map[string]any{"healthy": healthy, "states": states})
	}
	if err == nil {
		err = packed.Close()
	}
	if err == nil {
		err = os.WriteFile(file, out.Bytes(), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}
