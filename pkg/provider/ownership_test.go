// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csccm/csccm/pkg/annotation"
	"github.com/csccm/csccm/pkg/service"
)

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
