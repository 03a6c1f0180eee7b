// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"fmt"
	"testing"

	"github.com/csccm/csccm/pkg/annotation"
	"github.com/csccm/csccm/pkg/tenancy"
)

// Namespaces of the tenant tests. Only trustedNS is trusted by the default policy.
const (
	attackerNS = "attacker"
	victimNS   = "victim"
	friendNS   = "friend"
	trustedNS  = "kube-system"
)

// Addresses of tenantWorld, all in k8s-net and none of them acquired by this cluster.
const (
	idleIP          = "203.0.113.31"
	forwardedIP     = "203.0.113.41" // forwards port 2222, with a firewall rule for that port
	staticIP        = "203.0.113.42" // static NAT to w5
	wideFirewallIP  = "203.0.113.43" // forwards port 2222, with a firewall rule for 2000-2999
	openedIP        = "203.0.113.44" // a firewall rule on port 80 and nothing else
	otherClusterIP  = "203.0.113.46" // tagged by another cluster
	otherLeasewebIP = "203.0.113.47" // rules of another cluster of Leaseweb's provider
	secondIdleIP    = "203.0.113.48"
)

// tenantAddresses is the end of a world: what operators and other clusters have in the account.
const tenantAddresses = `
  - address: 203.0.113.41
    network: k8s-net
    firewallRules: [{protocol: tcp, startPort: 2222, endPort: 2222, cidrs: [198.51.100.0/24]}]
  - address: 203.0.113.42
    network: k8s-net
    staticNAT: w5
    firewallRules: [{protocol: tcp, startPort: 2222, endPort: 2222, cidrs: [198.51.100.0/24]}]
  - address: 203.0.113.43
    network: k8s-net
    firewallRules: [{protocol: tcp, startPort: 2000, endPort: 2999, cidrs: [198.51.100.0/24]}]
  - address: 203.0.113.44
    network: k8s-net
    firewallRules: [{protocol: tcp, startPort: 80, endPort: 80}]
  - address: 203.0.113.46
    network: k8s-net
    tags: {csccm-cluster: other, csccm-service: attacker/web, csccm-service-uid: 0e000000-0000-4000-8000-000000000001, csccm-managed-by: cloudstack-ccm, csccm-allocated-by: cloudstack-ccm}
    loadBalancerRules:
      - {name: a0e0000000000400080000000000000-tcp-80, publicPort: 80, privatePort: 30080, protocol: tcp, members: [w5]}
    firewallRules: [{protocol: tcp, startPort: 80, endPort: 80}]
  - address: 203.0.113.47
    network: k8s-net
    loadBalancerRules:
      - {name: K8s_svc_OTHER_attacker_web-tcp-80, publicPort: 80, privatePort: 30080, protocol: tcp, members: [w5]}
      - {name: K8s_svc_OTHER_attacker_web-tcp-443, publicPort: 443, privatePort: 30443, protocol: tcp, members: [w5]}
    firewallRules: [{protocol: tcp, startPort: 80, endPort: 80}]
  - {address: 203.0.113.48, network: k8s-net}
`

// withoutTags gives the controller a role that may not set tags, like the role that CKS gives its clusters.
func withoutTags(env *serviceEnv, w *string) {
	env.noTags, *w = true, denying(*w, "createTags", "deleteTags", "listTags", "listZones")
}

// tenantPolicy is the default policy, under which only kube-system is trusted.
func tenantPolicy(noTags bool) tenancy.Policy {
	p := tenancy.Default()
	if noTags {
		// Without tags, kept addresses cannot be counted, and are refused unless there is no limit.
		p.Limits.KeepIP.MaxPerNamespace = nil
	}
	return p
}

// newTenantEnv returns an environment with Services in several namespaces, under the default tenancy policy.
func newTenantEnv(t *testing.T, options ...envOption) *serviceEnv {
	t.Helper()
	tenants := func(env *serviceEnv, w *string) { env.tenants, *w = true, *w+tenantAddresses }
	env := newEnv(t, append([]envOption{tenants}, options...)...)
	env.forward(forwardedIP, 2222, "w5")
	env.forward(wideFirewallIP, 2222, "w5")
	return env
}

// forward makes an operator forward a port of an address to the same port of a VM. It opens no firewall.
func (env *serviceEnv) forward(ip string, port int, vm string) {
	env.t.Helper()
	p := fmt.Sprint(port)
	env.Admin("createPortForwardingRule", "ipaddressid", env.on(ip).ID, "protocol", "tcp", "publicport", p,
		"privateport", p, "virtualmachineid", env.vm(vm), "openfirewall", "false")
}

// delete removes the load balancer, and then the Service, as the API server does after the finalizer is removed.
func (env *serviceEnv) delete(key string) error {
	env.t.Helper()
	if err := env.remove(key); err != nil {
		return err
	}
	env.forget(key)
	return nil
}

// shareWith sets the annotation with which a Service shares its address with Services of other namespaces.
const shareWith = annotation.Prefix + "share-with"

// keptPerNamespace is keepIP.maxPerNamespace of the default policy.
const keptPerNamespace = 2

func numbers(first, count int) []int {
	var out []int
	for i := range count {
		out = append(out, first+i)
	}
	return out
}
