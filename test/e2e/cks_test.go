// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/simulator"
	"github.com/csccm/csccm/test/plane"
	"github.com/csccm/csccm/test/testenv"
)

// cksWorld is a CloudStack without any cluster. Its public addresses are this machine's own, so that nothing answers at the API
// address that CloudStack shows for a cluster.
func cksWorld() *simulator.World {
	return &simulator.World{
		Zones:              []simulator.Zone{{Name: "zone-1", PublicRanges: []string{"127.77.0.10-127.77.0.60"}}},
		ServiceOfferings:   []simulator.ServiceOffering{{Name: "node", CPUs: 2, CPUSpeed: 1000, Memory: 4096}},
		Accounts:           []simulator.Account{{Name: "k8s", Users: []simulator.User{{Name: owner}}}},
		Networks:           []simulator.Network{{Name: "prod-net", Account: "k8s", CIDR: "10.1.1.0/24", Offering: "DefaultNetworkOfferingforKubernetesService"}},
		KubernetesVersions: []simulator.KubernetesVersion{{Semantic: "1.36.3"}, {Semantic: "1.37.1"}},
	}
}

// newCKS returns an empty CloudStack whose first Kubernetes cluster runs on process nodes. Its API server is idle before.
func newCKS(t *testing.T) *clusterEnv {
	t.Helper()
	p := borrow(t, plane.Options{NodeGrace: defaultGrace})
	nodes, err := testenv.NewCluster(p, testenv.ClusterOptions{Controller: programs.Controller, Heartbeat: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	cloud, err := testenv.StartCloudStackWith(simulator.Options{World: cksWorld(), Inside: &testenv.CKS{Cluster: nodes}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cloud.Stop)
	if _, err := cloud.Admin(t.Context(), "updateConfiguration", map[string]string{"name": "endpoint.url", "value": cloud.URL}); err != nil {
		t.Fatal(err)
	}
	return newClusterEnvOf(t, p, cloud, nodes)
}

// TestKubernetesServiceOnATerminal takes a cluster of CloudStack Kubernetes Service from an empty cloud to its end. Nodes come from
// kubelets without --cloud-provider=external; CloudStack puts Apache's provider into the cluster.
func TestKubernetesServiceOnATerminal(t *testing.T) { //nolint:tparallel // the parts share one cluster, in this order
	t.Parallel()
	e := newCKS(t)
	api := []string{"--api-url", e.cloud.URL}
	cks := func(args ...string) []string { return slices.Concat([]string{"cks"}, args, api) }
	config := e.config(t, owner)
	e.environ = []string{"CLOUDSTACK_API_KEY=" + config.APIKey, "CLOUDSTACK_SECRET_KEY=" + config.SecretKey}
	e.csccm(t, "", cks("versions")...).want(t, 0, "1.36.3", "Ready")

	create := cks("create", "prod", "--version", "1.36.3", "--offering", "node", "--network", "prod-net", "--size", "1", "--with", "csccm")
	e.dialog(t, []answer{{"Create cluster prod in CloudStack ", "y" + enter}}, append(create, podNetwork...)...).shows(t, 0,
		"Cluster prod: Running", "Took the place of Deployment kube-system/cloud-controller-manager",
		"the controller initialises such nodes (adoptNodes)", "0 warning, 0 failed", "Cluster prod: Running")
	e.initialised(t, 2)
	secrets, err := e.Client.CoreV1().Secrets("").List(t.Context(), metav1.ListOptions{})
	if err != nil || len(secrets.Items) == 0 {
		t.Fatalf("%d Secrets, %v", len(secrets.Items), err)
	}
	for i := range secrets.Items { // the cluster has the keys that CloudStack made for it, not those with which it was created
		for key, value := range secrets.Items[i].Data {
			if bytes.Contains(value, []byte(config.APIKey)) || bytes.Contains(value, []byte(config.SecretKey)) {
				t.Errorf("Secret %s: %s has the keys with which the cluster was created", secrets.Items[i].Name, key)
			}
		}
	}
	e.csccm(t, "", cks("show", "prod")...).want(t, 0, "prod-node-")
	e.csccm(t, "", "doctor", "--only", "CKS").want(t, 0, "the controller initialises the nodes that CKS adds")
	e.service(t, "web", 80)
	e.address(t, "web")
	(&remedyEnv{clusterEnv: e}).heals(t, remediesOfCKS)

	e.dialog(t, []answer{{"Scale cluster prod in CloudStack ", "y" + enter}}, cks("scale", "prod", "--size", "2")...).shows(t, 0, "1 -> 2", "Cluster prod: Running")
	e.initialised(t, 3) // the node that CloudStack added
	e.dialog(t, []answer{{"Upgrade cluster prod in CloudStack ", "y" + enter}}, cks("upgrade", "prod", "--version", "1.37.1")...).shows(t, 0, "Cluster prod: Running")
	e.csccm(t, "", cks("list")...).want(t, 0, "v1.37.1")
	e.csccm(t, "", cks("kubeconfig", "prod", "--output-file", "prod.kubeconfig")...).want(t, 0)
	e.csccm(t, "", "doctor", "--kubeconfig", "prod.kubeconfig").want(t, 0, "0 warning, 0 failed")

	e.dialog(t, []answer{{"Delete cluster prod in CloudStack ", "y" + enter}}, cks("delete", "prod", "--remove-services")...).shows(t, 0,
		"delete Service default/web with its load balancer", "their rules are gone", "Cluster prod: deleted")
	e.nothingOfCKS(t)
}

// nothingOfCKS checks that CloudStack has no VM, rule or address but the network's source NAT address.
func (e *clusterEnv) nothingOfCKS(t *testing.T) {
	t.Helper()
	client, ctx := e.api(t, owner), t.Context()
	vms, err := client.ListVirtualMachines(ctx, cloudstack.VMQuery{})
	if err != nil || len(vms) > 0 {
		t.Errorf("VMs %v, %v", vms, err)
	}
	rules, err := client.ListLoadBalancerRules(ctx, cloudstack.LoadBalancerRuleQuery{})
	if err != nil || len(rules) > 0 {
		t.Errorf("rules %v, %v", rules, err)
	}
	firewall, err := client.ListFirewallRules(ctx, cloudstack.FirewallRuleQuery{})
	if err != nil || len(firewall) > 0 {
		t.Errorf("firewall rules %v, %v", firewall, err)
	}
	ips, err := client.ListPublicIPs(ctx, cloudstack.PublicIPQuery{})
	if err != nil || len(ips) != 1 || !ips[0].SourceNAT {
		t.Errorf("addresses %v, %v", ips, err)
	}
}
