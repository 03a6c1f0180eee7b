// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csccm/csccm/pkg/annotation"
	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/loadbalancer/plan"
	"github.com/csccm/csccm/pkg/service"
)

// What upstream v1.2 and older providers leave is taken over without a change.
func TestAdoption(t *testing.T) {
	t.Parallel()
	adopt := func(t *testing.T, rules string, annotations ...string) *serviceEnv {
		t.Helper()
		return takenOver(t, []int{80, 443}, rules, annotations...)
	}
	const upstream = `
      - {name: LB-tcp-80, publicPort: 80, privatePort: 30080, protocol: tcp, cidrs: [0.0.0.0/0], members: [w1, w2]}
      - {name: LB-tcp-443, publicPort: 443, privatePort: 30443, protocol: tcp, cidrs: [0.0.0.0/0], members: [w1, w2]}`
	const legacy = `
      - {name: LB-80, publicPort: 80, privatePort: 30080, members: [w1, w2]}
      - {name: LB-443, publicPort: 443, privatePort: 30443, members: [w1, w2]}`

	for name, rules := range map[string]string{"upstream": upstream, "legacy names": legacy} {
		parallel(t, name+": no change", func(t *testing.T) {
			env := adopt(t, rules)
			before := env.dump()
			env.mustSync("web")
			assert.Equal(t, before, env.dump())
			assert.Equal(t, "203.0.113.40", env.ip("web"))
			require.NoError(t, env.remove("web"))
			assert.Equal(t, []string{"address Allocated []"}, of(env.dump(), "203.0.113.40"), "without proof the address stays")
		})
	}
	parallel(t, "what the Service says of who acquired the address proves nothing", func(t *testing.T) {
		env := adopt(t, upstream, annotation.AssociatedByController, "true")
		before := env.dump()
		env.mustSync("web")
		assert.Equal(t, before, env.dump())
		require.NoError(t, env.remove("web"))
		assert.Equal(t, []string{"address Allocated []"}, of(env.dump(), "203.0.113.40"))
	})
	parallel(t, "a legacy rule takes its name when it is touched", func(t *testing.T) {
		env := adopt(t, legacy, annotation.ProxyProtocol, "true")
		env.mustSync("web")
		assert.Contains(t, of(env.dump(), "203.0.113.40"), "rule "+webLB+"-tcp-proxy-80 80->30080 tcp-proxy roundrobin [] [w1 w2]")
	})
	parallel(t, "deleted before it was ever synced", func(t *testing.T) {
		env := adopt(t, upstream)
		require.NoError(t, env.remove("web"))
		assert.Equal(t, []string{"address Allocated []"}, of(env.dump(), "203.0.113.40"))
	})
}

// An address that somebody else released and acquired again has the same id.
func TestAddressAcquiredBySomebodyElseIsNotReleased(t *testing.T) {
	t.Parallel()
	env := served(t, []int{80}, by("w1"))
	ip := env.ip("web")
	env.acquireAgain(ip, env.address(ip).AssociatedNetworkID)
	require.NoError(t, env.remove("web"))
	assert.Equal(t, []string{"address Allocated []"}, of(env.dump(), ip))
}

func TestForeignRuleOnOurAddressKeepsIt(t *testing.T) {
	t.Parallel()
	env := served(t, []int{80}, by("w1"))
	ip := env.ip("web")
	env.did(env.inspect.CreateLoadBalancerRule(t.Context(), cloudstack.CreateLoadBalancerRuleRequest{
		Name: "by-hand", Algorithm: "roundrobin", Protocol: "tcp", PublicIPID: env.address(ip).ID, PublicPort: 9000, PrivatePort: 9000, OpenFirewall: true,
	}))
	require.NoError(t, env.remove("web"))
	assert.Equal(t, []string{
		"address Allocated [csccm-allocated-by=cloudstack-ccm csccm-cluster=test csccm-managed-by=cloudstack-ccm]", // the last to leave releases it
		"firewall tcp 9000-9000 [0.0.0.0/0]",
		"rule by-hand 9000->9000 tcp roundrobin [] []",
	}, of(env.dump(), ip))
	assert.Contains(t, env.event(plan.ReasonAddressKept), "a load balancer rule on it is not of this Service")
}

// The cached copy of a Service can be older than the records of an earlier process.
func TestStaleCopyOfTheServiceAllocatesNothingTwice(t *testing.T) {
	t.Parallel()
	env := newEnv(t)
	env.create("web", []int{80})
	stale := env.get("web")
	env.mustSync("web", "w1")
	want := env.dump()
	env.lies = func(svc *corev1.Service) { *svc = *stale.DeepCopy() }
	env.restart()
	require.NoError(t, env.attempt("web"))
	assert.Equal(t, want, env.dump())

	// A Service that is gone gets no address.
	env.lies = nil
	env.restart()
	require.NoError(t, env.remove("web"))
	empty := env.dump()
	env.forget("web")
	env.restart()
	env.lb.ServiceAdded(stale)
	_, err := env.lb.Sync(t.Context(), service.KeyOf(stale))
	require.Error(t, err)
	assert.Equal(t, empty, env.dump())
}

// sharing makes a second Service, mail, that uses the address of web.
func sharing(env *serviceEnv) (ip string) {
	env.t.Helper()
	env.create("web", []int{80})
	env.mustSync("web")
	ip = env.ip("web")
	env.create("mail", []int{25}, func(s *corev1.Service) { s.Spec.LoadBalancerIP = ip })
	env.mustSync("mail")
	return ip
}

// The address is released with the last Service that uses it, whichever acquired it.
func TestSharedAddress(t *testing.T) {
	t.Parallel()
	for name, order := range map[string][]string{"the first one goes first": {"web", "mail"}, "the first one goes last": {"mail", "web"}} {
		for _, restarted := range []bool{false, true} {
			parallel(t, name, func(t *testing.T) {
				env := newEnv(t)
				ip := sharing(env)
				assert.Len(t, of(env.dump(), ip), 5)
				if restarted {
					env.restart()
				}
				require.NoError(t, env.remove(order[0]))
				assert.Len(t, of(env.dump(), ip), 3, "the other one's rule, firewall and address stay")
				if restarted {
					env.restart()
				}
				env.mustSync(order[1])
				env.removed(order[1])
			})
		}
	}
	parallel(t, "handed over and never synced again", func(t *testing.T) {
		env := newEnv(t)
		sharing(env)
		require.NoError(t, env.remove("web"))
		env.restart()
		env.removed("mail")
	})
	parallel(t, "a port that the other one has", func(t *testing.T) {
		env := newEnv(t)
		ip := sharing(env)
		env.edit("mail", func(s *corev1.Service) { s.Spec.Ports = servicePorts(25, 80) })
		require.ErrorContains(t, env.sync("mail", "w1"), "port 80")
		assert.NotEmpty(t, env.event(plan.ReasonPortTaken))
		assert.Len(t, of(env.dump(), ip), 5)
	})
	parallel(t, "both go at once", func(t *testing.T) {
		env := newEnv(t)
		sharing(env)
		var group sync.WaitGroup
		for _, name := range []string{"web", "mail"} {
			env.edit(name, ofType(corev1.ServiceTypeClusterIP))
		}
		env.noticed()
		for _, name := range []string{"web", "mail"} {
			group.Go(func() { assert.NoError(t, env.attempt(name)) })
		}
		group.Wait()
		assert.Equal(t, env.before, env.dump())
	})
}

// leftBy is what another provider left on a real CloudStack and in its cluster.
type leftBy struct {
	CloudStack struct {
		PublicIPs []struct {
			ID        string `json:"id"`
			Address   string `json:"ipaddress"`
			SourceNAT bool   `json:"issourcenat"`
		} `json:"publicipaddress"`
		Rules []struct {
			ID, Name, PublicIP, Algorithm, Protocol string
			PublicPort, PrivatePort                 string
			CIDRList                                *string
		} `json:"loadbalancerrule"`
		Members  map[string][]string `json:"loadbalancerruleinstances"`
		Firewall []struct {
			IPAddress, Protocol, CIDRList string
			StartPort, EndPort            int
		} `json:"firewallrule"`
	} `json:"cloudstack"`
	Kubernetes struct {
		Services []*corev1.Service `json:"services"`
	} `json:"kubernetes"`
}

// world writes what was left as a world of the simulator.
func (l *leftBy) world() string {
	var b strings.Builder
	b.WriteString(`
zones: [{name: zone-1, publicRanges: [192.168.2.2-192.168.2.99], hosts: [h1]}]
accounts:
  - {name: admin, role: Root Admin, users: [{name: admin, password: password}]}
  - {name: k8s, role: User, users: [{name: ccm, apiKey: ` + testAPIKey + `, secretKey: ` + testSecret + `}, {name: inspector, apiKey: inspect, secretKey: inspect}]}
networks: [{name: k8s-net, account: k8s, cidr: 10.1.1.0/24, sourceNAT: 192.168.2.4}]
virtualMachines:
`)
	for i := 1; i <= 5; i++ {
		fmt.Fprintf(&b, "  - {name: node-%d, account: k8s, nics: [{network: k8s-net}]}\n", i)
	}
	b.WriteString("publicIPs:\n")
	for _, ip := range l.CloudStack.PublicIPs {
		if ip.SourceNAT {
			continue
		}
		fmt.Fprintf(&b, "  - address: %s\n    id: %s\n    network: k8s-net\n    loadBalancerRules:\n", ip.Address, ip.ID)
		for _, r := range l.CloudStack.Rules {
			if r.PublicIP != ip.Address {
				continue
			}
			fmt.Fprintf(&b, "      - {name: %s, publicPort: %s, privatePort: %s, algorithm: %s, members: [%s]", r.Name, r.PublicPort, r.PrivatePort, r.Algorithm, strings.Join(l.CloudStack.Members[r.ID], ", "))
			if r.Protocol != "" {
				fmt.Fprintf(&b, ", protocol: %s", r.Protocol)
			}
			if r.CIDRList != nil {
				fmt.Fprintf(&b, ", cidrs: [%s]", strings.ReplaceAll(*r.CIDRList, " ", ", "))
			}
			b.WriteString("}\n")
		}
		b.WriteString("    firewallRules:\n")
		for _, f := range l.CloudStack.Firewall {
			if f.IPAddress == ip.Address {
				fmt.Fprintf(&b, "      - {protocol: %s, startPort: %d, endPort: %d, cidrs: [%s]}\n", f.Protocol, f.StartPort, f.EndPort, f.CIDRList)
			}
		}
	}
	return b.String()
}

// What upstream v1.2 and Leaseweb's fork v1.8 left on a real server is taken over: no rule is deleted or recreated,
// every address stays. Only settings that the Service asked for and did not get change.
func TestTakeoverOfRealClusters(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"upstream-v1.2.0", "leaseweb-v1.8.1"} {
		parallel(t, name, func(t *testing.T) {
			data, err := os.ReadFile("testdata/left-by-" + name + ".json")
			require.NoError(t, err)
			var left leftBy
			require.NoError(t, json.Unmarshal(data, &left))
			env := newEnv(t, withWorld(func(string) string { return left.world() }))
			for _, svc := range left.Kubernetes.Services {
				_, err := env.kube.CoreV1().Services(svc.Namespace).Create(t.Context(), svc, metav1.CreateOptions{})
				require.NoError(t, err)
				status := svc.Status.DeepCopy()
				require.NoError(t, env.sync(svc.Name, "node-1", "node-2", "node-3", "node-4", "node-5"), svc.Name)
				assert.Equal(t, status.LoadBalancer.Ingress[0].IP, env.get(svc.Name).Status.LoadBalancer.Ingress[0].IP)
				assert.Equal(t, status.LoadBalancer.Ingress[0].Hostname, env.get(svc.Name).Status.LoadBalancer.Ingress[0].Hostname)
			}
			assert.Zero(t, env.Ledger().Count("associateIpAddress", "disassociateIpAddress"))
			// PROXY protocol "enabled" is switched in place; ranges that only the rule had get to the firewall.
			assert.Zero(t, env.Ledger().Count("deleteLoadBalancerRule", "createLoadBalancerRule"))
			changed := 0
			for _, line := range env.before {
				if !slices.Contains(env.dump(), line) && !strings.HasPrefix(line, "address ") {
					changed++
					t.Log("changed:", line)
				}
			}
			assert.LessOrEqual(t, changed, 2)
			for _, svc := range left.Kubernetes.Services {
				records, err := annotation.ParseRecords(env.get(svc.Name).Annotations)
				require.NoError(t, err)
				require.Len(t, records.Addresses, 1, svc.Name)
			}
		})
	}
}
