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
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csccm/csccm/pkg/annotation"
	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/internal/testenv"
	"github.com/csccm/csccm/pkg/node"
	"github.com/csccm/csccm/pkg/service"
)

// Clusters without a name share the default one, so objects of another such cluster must not be removed as orphans. A
// cluster without an ID of its own is identified by the UID of namespace kube-system.
func TestNamesOfClusters(t *testing.T) {
	t.Parallel()
	kube := testenv.Kube(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: metav1.NamespaceSystem, UID: "uid-1"}})
	made := func(flag, framework, file string, clean bool) (*Provider, error) {
		o := DefaultOptions()
		o.ClusterID, o.ClusterName, o.CleanOrphans = flag, framework, clean
		return New(&cloudstack.Config{APIURL: testenv.URL, APIKey: "key", SecretKey: "secret", ClusterID: file}, o)
	}

	for _, c := range []struct{ flag, framework, file, id string }{
		{"", "", "", "uid-1"},
		{"", "kubernetes", "", "uid-1"}, // the framework's default
		{"kubernetes", "", "", "kubernetes"},
		{"", "", "kubernetes", "kubernetes"},
		{"prod", "name", "file", "prod"},
		{"", "name", "prod", "prod"},
		{"", "prod", "", "prod"},
	} {
		p, err := made(c.flag, c.framework, c.file, false)
		require.NoError(t, err, c)
		require.NoError(t, p.readClusterUID(t.Context(), kube), c)
		assert.Equal(t, c.id, p.clusterID(), c)
		p.options.RegisterCluster = "entry" // the UID always identifies the owner of the entry
		require.NoError(t, p.readClusterUID(t.Context(), kube), c)
		assert.Equal(t, "uid-1", p.uid(), c)
		assert.Equal(t, c.id, p.clusterID(), c)
		_, err = made(c.flag, c.framework, c.file, true)
		assert.Equal(t, c.id == "kubernetes", err != nil && strings.Contains(err.Error(), "--cluster-id"), c)
	}

	assert.Empty(t, ClusterID("", "", "kubernetes", ""), "no UID was read yet")
	for _, id := range []string{strings.Repeat("a", 129), " prod", "prod\n", "prod \U0001F680", "\xff"} {
		_, err := made(id, "", "", false)
		require.ErrorContains(t, err, "cluster-id", id)
	}
}

func TestOptionsValidate(t *testing.T) {
	t.Parallel()
	o := DefaultOptions()
	require.NoError(t, o.Validate())
	o.DriftPeriod, o.Tenancy = 0, "{}"
	require.NoError(t, o.Validate())
	bad := Options{
		ProviderIDFormat:   "x",
		InstanceTypeFormat: "y",
		DriftPeriod:        time.Second,
		DeletionGuard:      node.DeletionLimit{Percent: 101, Window: -1},
		Tenancy:            `{"annotations":{"networks":{"deny":true}}}`,
		NodeInternalCIDRs:  "x",
		NodeExternalCIDRs:  "y",
		NodeLabels:         []string{"z"},
	}

	for _, part := range []string{
		"--provider-id-format", "--instance-type-format", "--drift-period", "--node-deletion-limit",
		"--node-deletion-window",
		`--tenancy: tenancy.annotations: there is no annotation "networks"`,
		`--node-internal-cidrs: "x"`, `--node-external-cidrs: "y"`, `--node-labels: "z"`,
	} {
		require.ErrorContains(t, bad.Validate(), part)
	}
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

	// A deleted Service gets no address.
	env.lies = nil
	env.restart()
	require.NoError(t, env.remove("web"))
	empty := env.dump()
	env.forget("web")
	env.restart()
	env.lb.ServiceChanged(stale)
	_, err := env.lb.Sync(t.Context(), service.KeyOf(stale))
	require.Error(t, err)
	assert.Equal(t, empty, env.dump())
}

// leftBy has the objects that another provider has left on a real CloudStack and in its cluster.
type leftBy struct {
	CloudStack struct {
		PublicIPs []struct {
			ID        string `json:"id"`
			Address   string `json:"ipaddress"`
			SourceNAT bool   `json:"issourcenat"`
		} `json:"publicipaddress"`
		Rules []struct {
			ID, Name, PublicIP, Algorithm, Protocol, PublicPort, PrivatePort string
			CIDRList                                                         *string
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

// world returns these objects as a world of the simulator.
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

		fmt.Fprintf(&b, "  - address: %s\n    id: %s\n    network: k8s-net\n    loadBalancerRules:\n", ip.Address,
			ip.ID)
		for _, r := range l.CloudStack.Rules {
			cidrs := ""
			if r.CIDRList != nil {
				cidrs = ", cidrs: [" + strings.ReplaceAll(*r.CIDRList, " ", ", ") + "]"
			}
			if r.PublicIP == ip.Address {
				fmt.Fprintf(&b,
					"      - {name: %s, publicPort: %s, privatePort: %s, algorithm: %s, protocol: '%s', "+
						"members: [%s]%s}\n",
					r.Name, r.PublicPort, r.PrivatePort, r.Algorithm, r.Protocol,
					strings.Join(l.CloudStack.Members[r.ID], ", "), cidrs)
			}
		}

		b.WriteString("    firewallRules:\n")
		for _, f := range l.CloudStack.Firewall {
			if f.IPAddress == ip.Address {
				fmt.Fprintf(&b, "      - {protocol: %s, startPort: %d, endPort: %d, cidrs: [%s]}\n", f.Protocol,
					f.StartPort, f.EndPort, f.CIDRList)
			}
		}
	}

	return b.String()
}

// Objects that upstream v1.2 and Leaseweb's fork v1.8 left on a real server are taken over: no rule is deleted or
// recreated, and every address is kept. The only changes are settings that the Service requested and did not get.
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
				was := svc.Status.LoadBalancer.Ingress[0]
				env.mustSync(svc.Name, "node-1", "node-2", "node-3", "node-4", "node-5")
				is := env.get(svc.Name)
				assert.Equal(t, []string{was.IP, was.Hostname},
					[]string{is.Status.LoadBalancer.Ingress[0].IP, is.Status.LoadBalancer.Ingress[0].Hostname})
				records, err := annotation.ParseRecords(is.Annotations)
				require.NoError(t, err)
				require.Len(t, records.Addresses, 1, svc.Name)
			}

			assert.Zero(t, env.Ledger().Count("associateIpAddress", "disassociateIpAddress"))

			// PROXY protocol "enabled" is changed in place; ranges that only the rule had are added to the firewall.
			assert.Zero(t, env.Ledger().Count("deleteLoadBalancerRule", "createLoadBalancerRule"))
			changed := slices.DeleteFunc(grep(changes(env.before, env.dump()), "- "),
				func(line string) bool { return strings.HasPrefix(line, "- address ") })
			assert.LessOrEqual(t, len(changed), 2, changed)
		})
	}
}
