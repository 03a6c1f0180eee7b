// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	cloudprovider "k8s.io/cloud-provider"
	"sigs.k8s.io/yaml"

	"github.com/csccm/csccm/installer/engine/report"
	"github.com/csccm/csccm/pkg/simulator"
	"github.com/csccm/csccm/pkg/ui/server"
	"github.com/csccm/csccm/test/internal/console"
	"github.com/csccm/csccm/test/internal/must"
	"github.com/csccm/csccm/test/plane"
	"github.com/csccm/csccm/test/testenv"
)

// Names in the simulator's example world.
const (
	account       = "k8s"
	adminUser     = "admin"
	adminPassword = "password"
	service       = "web"
	// oldService has its address from the previous provider; the example world holds its
	// rules. Their names contain the Service's UID, which the API server chooses, so
	// writeWorld replaces legacyBalancer in them by the name for that UID.
	oldService     = "shop"
	legacyBalancer = "a0123456789abcdef0123456789abcde"
	legacyAddress  = "203.0.113.20"
)

const stepLimit = 5 * time.Minute

// startCluster starts the control plane and its nodes, and creates two Services: a new
// one without address, and one that a previous provider has served.
func (d *demo) startCluster(ctx context.Context) {
	d.Say("etcd, kube-apiserver, kube-controller-manager and kube-scheduler %s run as processes. The nodes are processes too: "+
		"they register as kubelets with --cloud-provider=external do, heartbeat, and run the controller's Pod for real.", plane.Version)
	d.cluster = must.Get(testenv.StartCluster(ctx, testenv.ClusterOptions{
		Plane: plane.Options{Binary: d.plane, Dir: d.Dir}, Controller: d.binaries.Controller,
	}))
	for _, o := range testenv.ExampleNodes() {
		o.Dir = d.Dir
		must.Get(d.cluster.Join(ctx, o))
	}
	services := d.cluster.Client.CoreV1().Services(metav1.NamespaceDefault)
	must.Get(services.Create(ctx, loadBalancer(service, 0, 0), metav1.CreateOptions{}))
	old := must.Get(services.Create(ctx, loadBalancer(oldService, 30080, 30443), metav1.CreateOptions{}))
	d.legacyName = cloudprovider.DefaultLoadBalancerName(old)
	old.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: legacyAddress}}
	must.Get(services.UpdateStatus(ctx, old, metav1.UpdateOptions{}))
	d.Say("Service %s is new and waits. Service %s has its address from the provider that ran here before.", service, oldService)
	d.kubectl(ctx, "get", "nodes", "-o", "custom-columns=NAME:.metadata.name,PROVIDER-ID:.spec.providerID,TAINTS:.spec.taints[*].key")
	d.kubectl(ctx, "get", "service", service, oldService)
}

// loadBalancer returns a Service; for node ports of 0 the API server chooses the ports.
func loadBalancer(name string, httpNodePort, httpsNodePort int32) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.ServiceSpec{
			Type: corev1.ServiceTypeLoadBalancer, Selector: map[string]string{"app": name},
			Ports: []corev1.ServicePort{
				{Name: "http", Port: 80, NodePort: httpNodePort, TargetPort: intstr.FromInt32(8080)},
				{Name: "https", Port: 443, NodePort: httpsNodePort, TargetPort: intstr.FromInt32(8443)},
			},
		},
	}
}

// startCloudStack starts the simulator with the example world.
func (d *demo) startCloudStack(ctx context.Context) {
	d.Say("A simulator answers the CloudStack API as a 4.22 management server does: one zone, an isolated network, "+
		"three VMs, and at %s the load balancer rules that the old provider made for Service %s.", legacyAddress, oldService)
	dir := filepath.Join(d.Dir, "cloudstack")
	world := d.writeWorld(dir)
	d.Echo("cloudstack-sim --listen 127.0.0.1:0 --world world.yaml")
	args := []string{"--world", world}
	if d.stay {
		args = append(args, "--ui") // for the end
	}
	d.simulator = must.Get(testenv.StartSimulator(ctx, testenv.SimulatorOptions{Binary: d.binaries.Simulator, Dir: dir, Args: args}))
	d.Printf("%s\n", d.simulator.URL)
}

// writeWorld writes the example world with the name of the old Service's load balancer.
func (d *demo) writeWorld(dir string) string {
	world := simulator.ExampleWorld()
	renamed := 0
	for i := range world.PublicIPs {
		rules := world.PublicIPs[i].LoadBalancerRules
		for j := range rules {
			if port, ok := strings.CutPrefix(rules[j].Name, legacyBalancer); ok {
				rules[j].Name = d.legacyName + port
				renamed++
			}
		}
	}
	must.Be(renamed != 0, "the example world holds no rule of %s", legacyBalancer)
	b := must.Get(yaml.Marshal(world))
	must.OK(os.MkdirAll(dir, 0o700))
	path := filepath.Join(dir, "world.yaml")
	must.OK(os.WriteFile(path, b, 0o600))
	return path
}

// install runs csccm install with flags. All process nodes share this machine's network,
// so each Pod gets a loopback address instead of its node's address.
func (d *demo) install(ctx context.Context) {
	d.Say("The login is used once, to make a user with the few rights that the controller needs. " +
		"hostNetwork and bindAddress are for this machine, where three nodes share one network.")
	d.csccm(ctx, adminPassword+"\n", "install", "--yes",
		"--api-url", d.simulator.URL, "--admin-user", adminUser, "--admin-password-stdin", "--account", account,
		"--set", "hostNetwork=false", "--set", "bindAddress=$(POD_IP)")
}

// showResult shows the nodes and Services of the first steps again, and the rules in CloudStack.
func (d *demo) showResult(ctx context.Context) {
	testenv.Await(ctx, stepLimit, "the Service to get its address", func(ctx context.Context) {
		s := must.Get(d.cluster.Client.CoreV1().Services(metav1.NamespaceDefault).Get(ctx, service, metav1.GetOptions{}))
		must.Not(len(s.Status.LoadBalancer.Ingress) == 0, "service %s has none yet", service)
	})
	d.Say("The nodes have lost their taint and got provider ID, labels and addresses from their VMs. Service %s has a public address; "+
		"Service %s has kept its own, and its rules are served on as they stand.", service, oldService)
	for _, args := range [][]string{
		{"get", "nodes", "-o", "custom-columns=NAME:.metadata.name,PROVIDER-ID:.spec.providerID,TYPE:.metadata.labels.node\\.kubernetes\\.io/instance-type," +
			"ZONE:.metadata.labels.topology\\.kubernetes\\.io/zone,ADDRESS:.status.addresses[0].address,TAINTS:.spec.taints[*].key"},
		{"get", "pods", "-n", metav1.NamespaceSystem, "-o", "wide"},
		{"get", "service", service, oldService},
		{"get", "events", "--field-selector", "involvedObject.kind=Service", "-o", "custom-columns=TYPE:.type,REASON:.reason,MESSAGE:.message"},
	} {
		d.kubectl(ctx, args...)
	}
	d.showRules(ctx)
	d.Say("Nothing answers at the address: these nodes have no kube-proxy. The rules are what there is to see; make real-nodes sends traffic.")
}

// doctor runs csccm doctor. It finds no errors, but warns about the rules with old names, which the next step renames.
func (d *demo) doctor(ctx context.Context) { d.csccm(ctx, "", "doctor") }

// migrate renames the rules of the old provider and runs csccm doctor again.
func (d *demo) migrate(ctx context.Context) {
	d.Say("The rules at %s have names of the old form, <balancer>-<port>. First a look:", legacyAddress)
	d.csccm(ctx, "", "migrate-rules", "--dry-run")
	before := d.rules(ctx, legacyAddress)
	d.Say("\nThen for real: names change; ids, addresses and members stay.")
	d.csccm(ctx, "", "migrate-rules", "--yes", "--journal", filepath.Join(d.Dir, "migrate.jsonl"))
	d.showRules(ctx)
	after := d.rules(ctx, legacyAddress)
	checkRenamed(before, after)
	d.Say("\nNow nothing is left to warn of:")
	d.csccm(ctx, "", "doctor", "-o", "short", "--fail-on=warning")
}

// checkRenamed returns an error unless only the names of the rules have changed.
func checkRenamed(before, after []testenv.Rule) {
	must.Not(len(before) == 0 || len(before) != len(after), "%d rules at %s before and %d after", len(before), legacyAddress, len(after))
	byID := map[string]testenv.Rule{}
	for _, r := range after {
		byID[r.ID] = r
	}
	for _, b := range before {
		a, ok := byID[b.ID]
		switch {
		case !ok:
			must.Fail("rule %s (%s) is gone", b.Name, b.ID)
		case a.Name == b.Name:
			must.Fail("rule %s still has its old name", b.Name)
		case !slices.Equal(a.Members, b.Members) || a.PublicPort != b.PublicPort:
			must.Fail("rule %s has changed in more than its name", b.Name)
		}
	}
}

func (d *demo) summary(ctx context.Context) {
	took := time.Since(d.started).Round(time.Second)
	d.Printf("\n%s\n", d.Style.Paint(report.Good, fmt.Sprintf("All of it worked, in %s.", took)))
	if !d.stay {
		return
	}
	config := d.cloudConfig(ctx)
	d.Printf("\nEverything keeps running until ^C. In another terminal:\n\n")
	d.Printf("export KUBECONFIG=%s PATH=%s:%s:$PATH\n", d.cluster.Kubeconfig, filepath.Dir(d.cluster.Kubectl), filepath.Dir(d.binaries.CLI))
	d.Printf("export CLOUDSTACK_API_URL=%s CLOUDSTACK_API_KEY=%s CLOUDSTACK_SECRET_KEY=%s   # or log in as %s, password %s\n",
		config.APIURL, config.APIKey, config.SecretKey, adminUser, adminPassword)
	remove := func() {}
	defer func() { remove() }()
	var typed <-chan string
	if console.Terminal() {
		typed = console.Lines(ctx, os.Stdin)
		d.Printf("\nPress Enter to see the simulated CloudStack in a browser: its objects, the calls as they come, faults to switch on.\n" +
			"The cluster in its cloud is shown by: csccm ui\n")
	}
	for {
		select {
		case <-ctx.Done():
			d.Printf("\nStopping.\n")
			return
		case _, more := <-typed:
			if !more {
				typed = nil // the input has ended
				continue
			}
			d.Printf("%s\nIf no browser opens: the address is for one browser on this machine.\n", d.simulator.Page)
			remove()
			opened, err := server.Open(ctx, d.simulator.Page)
			if remove = opened; err != nil {
				d.Printf("%v\n", err)
			}
		case <-time.After(time.Second):
			must.OK(d.cluster.Err())
		}
	}
}
