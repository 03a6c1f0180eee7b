// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/cert"
	"sigs.k8s.io/yaml"

	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/test/testenv"
)

const (
	examplesDir = "../../docs/examples"
	// exampleCertificate is the UUID in docs/examples/tls.
	exampleCertificate = "8f14e45f-ceea-467f-a0e6-3c1f0b2d7a11"
	// exampleTenancy allows what vpc-tier and tls say that the chart must allow.
	exampleTenancy = `{"annotations": {"network": {"allow": ["default"]}, "ssl-certificate": {"allow": ["default"]}}}`
)

// Where the examples are applied: an isolated network, and two tiers of a VPC, of which the nodes' first one has the internal load
// balancer. The addresses are those in the examples.
const (
	isolatedWorld = `
version: 4.22.0.0
zones: [{name: zone-1, publicRanges: [203.0.113.10-203.0.113.199], hosts: [h1]}]
accounts: [{name: k8s, role: User, users: [{name: ccm-a, password: password}, {name: inspector, password: password}]}]
networks: [{name: k8s-net, account: k8s, cidr: 10.1.1.0/24, sourceNAT: 203.0.113.10}]
virtualMachines:
  - {name: w1, account: k8s, nics: [{network: k8s-net, ip: 10.1.1.21}]}
  - {name: w2, account: k8s, nics: [{network: k8s-net, ip: 10.1.1.22}]}
`
	vpcWorld = `
version: 4.22.0.0
zones: [{name: zone-1, publicRanges: [203.0.113.10-203.0.113.199], hosts: [h1]}]
accounts: [{name: k8s, role: User, users: [{name: ccm-a, password: password}, {name: inspector, password: password}]}]
vpcs:
  - name: vpc-1
    cidr: 10.2.0.0/16
    account: k8s
    aclLists: [{name: acl-1, items: [{number: 10, protocol: all, action: Deny}]}]
networks:
  - {name: inner, vpc: vpc-1, account: k8s, cidr: 10.2.1.0/24, acl: acl-1, offering: DefaultIsolatedNetworkOfferingForVpcNetworksWithInternalLB}
  - {name: k8s-tier, vpc: vpc-1, account: k8s, cidr: 10.2.2.0/24, acl: acl-1}
virtualMachines:
  - {name: w1, account: k8s, nics: [{network: inner, ip: 10.2.1.21}, {network: k8s-tier, ip: 10.2.2.21}]}
  - {name: w2, account: k8s, nics: [{network: inner, ip: 10.2.1.22}, {network: k8s-tier, ip: 10.2.2.22}]}
`
)

// balanced is what becomes of an example's Service in CloudStack.
type balanced struct {
	service string
	at      string   // the address, or its network
	traffic []string // load balancer rules and port forwardings, as trafficAt writes them, or patterns of path.Match
}

// manifests are the examples that are applied with kubectl, by the world they are for. Each Service has one ready Pod, on w1.
var manifests = map[string]map[string][]balanced{
	isolatedWorld: {
		"public-web":     {{"web", "203.0.113.0/24", []string{"80/tcp to w1,w2"}}},
		"proxy-protocol": {{"whoami", "203.0.113.0/24", []string{"80/tcp-proxy to w1"}}},
		"allow-list": {
			{"web-office", "203.0.113.0/24", []string{"80/tcp from 198.51.100.0/24,203.0.113.7/32 to w1,w2"}},
			{"web-office-2", "203.0.113.0/24", []string{"80/tcp from 198.51.100.0/24,203.0.113.7/32 to w1,w2"}},
			{"web-closed", "203.0.113.0/24", []string{"80/tcp to w1,w2, closed"}},
		},
		"shared-address": {
			{"shop", "203.0.113.20", []string{"25/tcp to w1,w2", "443/tcp to w1,w2"}},
			{"mail", "203.0.113.20", []string{"25/tcp to w1,w2", "443/tcp to w1,w2"}},
		},
		"static-address": {{"web-kept", "203.0.113.21", []string{"80/tcp to w1,w2"}}},
		"tls":            {{"web-tls", "203.0.113.0/24", []string{"443/ssl to w1,w2", "80/tcp to w1,w2"}}},
		"dns":            {{"dns", "203.0.113.0/24", []string{"53/tcp forwarded to w1", "53/udp forwarded to w1"}}},
		"wireguard":      {{"wireguard", "203.0.113.0/24", []string{"51820/udp forwarded to w?"}}},
		"game-server": {
			{"game", "203.0.113.0/24", []string{"34197/udp forwarded to w1"}},
			{"game-console", "203.0.113.0/24", []string{"27015/tcp forwarded to w1"}},
		},
	},
	vpcWorld: {
		"internal": {{"web-internal", "10.2.1.0/24", []string{"80/tcp internal to 10.2.1.21,10.2.1.22"}}},
		"vpc-tier": {{"web-tier", "203.0.113.0/24", []string{"80/tcp from 198.51.100.0/24 to w1,w2"}}},
	},
}

// elsewhere are the folders that other tests apply: the script gitops, and test/real-nodes, which has real traffic for them.
var elsewhere = []string{"gitops-", "gateway-", "terraform", "ingress-nginx", "traefik"}

// TestExamples applies each folder of docs/examples with kubectl, compares what becomes of its Services, and deletes it.
func TestExamples(t *testing.T) {
	t.Parallel()
	folders, err := filepath.Glob(examplesDir + "/*/")
	require.NoError(t, err)
	for _, dir := range folders {
		name := filepath.Base(dir)
		tested := slices.ContainsFunc(elsewhere, func(e string) bool { return strings.HasPrefix(name, e) })
		if manifests[isolatedWorld][name] == nil && manifests[vpcWorld][name] == nil && !tested {
			t.Errorf("no test applies docs/examples/%s", name)
		}
	}
	for where, world := range map[string]string{"isolated network": isolatedWorld, "VPC": vpcWorld} {
		t.Run(where, func(t *testing.T) {
			t.Parallel()
			e := directEnvOf(t, testenv.Options{World: world})
			e.controller(t, testenv.User, "--leader-elect=false", "--tenancy="+exampleTenancy)
			e.register(t, 1, 2, nil)
			e.initialised(t, 2)
			for name, services := range manifests[world] {
				t.Run(name, func(t *testing.T) { e.example(t, name, services) }) //nolint:paralleltest // they share addresses
			}
		})
	}
}

// example applies a folder, waits for its Services, and deletes it.
func (e *directEnv) example(t *testing.T, name string, services []balanced) {
	file := filepath.Join(examplesDir, name, "manifest.yaml")
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	manifest := string(text)
	if strings.Contains(manifest, exampleCertificate) {
		manifest = strings.ReplaceAll(manifest, exampleCertificate, e.uploadCertificate(t))
	}
	balancers := 0
	for _, document := range strings.Split(manifest, "\n---\n") {
		var s struct {
			Kind     string
			Metadata struct{ Name string }
			Spec     struct{ Type corev1.ServiceType }
		}
		require.NoError(t, yaml.Unmarshal([]byte(document), &s))
		if s.Kind == "Service" && s.Spec.Type == corev1.ServiceTypeLoadBalancer {
			balancers++
			e.podOf(t, s.Metadata.Name)
		}
	}
	if out, err := e.kubectl(t.Context(), manifest, "apply", "--validate=strict", "-f", "-"); err != nil || strings.Contains(out, "Warning") {
		t.Fatalf("kubectl apply -f %s: %v\n%s", file, err, out)
	}
	if balancers != len(services) {
		t.Errorf("%s has %d Services of type LoadBalancer, want %d", file, balancers, len(services))
	}
	for _, want := range services {
		ip := e.address(t, want.service)
		if want.at != ip && !within(ip, want.at) {
			t.Errorf("Service %s has the address %s, want %s", want.service, ip, want.at)
		}
		// Of an address that is shared the other Service may come later.
		client := e.api(t, testenv.User)
		e.eventually(t, fmt.Sprintf("the traffic of Service %s to be %q", want.service, want.traffic), func(ctx context.Context) error {
			is, err := trafficAt(ctx, client, ip)
			matches := func(is, want string) bool { ok, err := path.Match(want, is); return ok && err == nil }
			if err == nil && !slices.EqualFunc(is, want.traffic, matches) {
				err = fmt.Errorf("it is %q", is)
			}
			return err
		})
	}
	if out, err := e.kubectl(t.Context(), manifest, "delete", "--timeout=5m", "-f", "-"); err != nil {
		t.Fatalf("kubectl delete -f %s: %v\n%s", file, err, out)
	}
}

func within(ip, prefix string) bool {
	p, err := netip.ParsePrefix(prefix)
	a, err2 := netip.ParseAddr(ip)
	return err == nil && err2 == nil && p.Contains(a)
}

// podOf makes the EndpointSlice of a Service with one ready Pod on the node w1: no kubelet runs here.
func (e *directEnv) podOf(t *testing.T, service string) {
	t.Helper()
	ready, node := true, "w1"
	slice := &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Name: service, Labels: map[string]string{discoveryv1.LabelServiceName: service}},
		AddressType: discoveryv1.AddressTypeIPv4,
		Endpoints:   []discoveryv1.Endpoint{{Addresses: []string{"10.244.0.1"}, NodeName: &node, Conditions: discoveryv1.EndpointConditions{Ready: &ready}}},
	}
	if _, err := e.Client.DiscoveryV1().EndpointSlices(metav1.NamespaceDefault).Create(t.Context(), slice, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// trafficAt lists the load balancer rules with members, internal load balancers and port forwardings of an address.
func trafficAt(ctx context.Context, client *cloudstack.Client, ip string) (all []string, err error) {
	addresses, err := client.ListPublicIPs(ctx, cloudstack.PublicIPQuery{Address: ip})
	if err != nil {
		return nil, err
	}
	firewall, err := client.ListFirewallRules(ctx, cloudstack.FirewallRuleQuery{})
	if err != nil {
		return nil, err
	}
	rules, err := testenv.Rules(ctx, client, ip)
	for _, r := range rules {
		opens := func(f cloudstack.FirewallRule) bool {
			return f.PublicIPID == r.PublicIPID && f.StartPort <= r.PublicPort && r.PublicPort <= f.EndPort
		}
		closed := ""
		if len(addresses) == 1 && addresses[0].VPCID == "" && !slices.ContainsFunc(firewall, opens) { // a VPC has no firewall
			closed = ", closed"
		}
		all = append(all, fmt.Sprintf("%d/%s%s to %s%s", r.PublicPort, r.Protocol, from(r.CIDRs), strings.Join(r.Members, ","), closed))
	}
	internal, err2 := client.ListInternalLoadBalancers(ctx, cloudstack.InternalLoadBalancerQuery{})
	for _, l := range internal {
		if l.Address == ip {
			var members []string
			for _, m := range l.Members { // their names are the hypervisor's
				members = append(members, m.Addresses...)
			}
			slices.Sort(members)
			all = append(all, fmt.Sprintf("%d/tcp internal to %s", l.Port, strings.Join(members, ",")))
		}
	}
	forwardings, err3 := client.ListPortForwardings(ctx, cloudstack.PortForwardingQuery{})
	for _, f := range forwardings {
		if f.PublicIP == ip {
			all = append(all, fmt.Sprintf("%d/%s forwarded to %s", f.StartPort, f.Protocol, f.VMName))
		}
	}
	slices.Sort(all)
	return all, errors.Join(err, err2, err3)
}

func from(ranges []string) string {
	if len(ranges) == 0 || slices.Equal(ranges, []string{"0.0.0.0/0"}) {
		return ""
	}
	slices.Sort(ranges)
	return " from " + strings.Join(ranges, ",")
}

// uploadCertificate uploads a certificate as the account's user would, and returns its UUID.
func (e *directEnv) uploadCertificate(t *testing.T) string {
	t.Helper()
	certificate, key, err := cert.GenerateSelfSignedCertKey("www.example.org", nil, nil)
	require.NoError(t, err)
	block, _ := pem.Decode(key)
	parsed, err := x509.ParsePKCS1PrivateKey(block.Bytes)
	require.NoError(t, err)
	der, err := x509.MarshalPKCS8PrivateKey(parsed) // the only form that CloudStack reads
	require.NoError(t, err)
	domains, _ := e.admin(t, "listDomains", map[string]string{"name": "ROOT"})["domain"].([]any)
	root, _ := domains[0].(map[string]any)
	domain, _ := root["id"].(string)
	answer := e.admin(t, "uploadSslCert", map[string]string{
		"name": "web", "account": "k8s", "domainid": domain, "certificate": string(certificate),
		"privatekey": string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})),
	})
	uploaded, _ := answer["sslcert"].(map[string]any)
	id, _ := uploaded["id"].(string)
	if id == "" {
		t.Fatalf("uploadSslCert: %v", answer)
	}
	return id
}
