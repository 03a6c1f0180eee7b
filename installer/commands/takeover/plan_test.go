// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package takeover

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csccm/csccm/installer/commands/migrate"
	"github.com/csccm/csccm/installer/commands/takeover/leftby"
	"github.com/csccm/csccm/installer/engine/report"
	"github.com/csccm/csccm/pkg/annotation"
)

// needing are the differences that need consent, as "Service kind port: was -> becomes".
func needing(p *Plan) []string {
	var out []string
	for _, s := range p.Services {
		for _, d := range s.Differences {
			if d.Consent {
				out = append(out, s.Service+" "+d.key()+" "+d.Was+" -> "+d.Becomes)
			}
		}
	}
	return out
}

func TestPlanOfRecordedStates(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		state   string
		needing []string
		values  map[string]string
		renames int
		pins    map[string]map[string]string
	}{
		"apache": {
			state: leftby.Apache, values: map[string]string{"instanceTypeFormat": "upstream"},
			needing: []string{
				"default/documented protocol:8080 tcp -> tcp-proxy",
			},
			pins: map[string]map[string]string{"default/documented": {annotation.ProxyProtocol: "false"}},
		},
		"leaseweb": {
			state: leftby.Leaseweb, values: map[string]string{"providerIDFormat": "cloudstack"}, renames: 7,
			needing: []string{
				"default/cidrs ranges:8443 0.0.0.0/0 -> 10.0.0.0/8,172.16.0.0/12",
				"default/documented protocol:8080 tcp -> tcp-proxy",
			},
			pins: map[string]map[string]string{
				"default/cidrs": {annotation.SourceCIDRs: "0.0.0.0/0"}, "default/documented": {annotation.ProxyProtocol: "false"},
			},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBed(t, tt.state)
			f := b.facts(t)
			p := NewPlan(f)
			require.Equal(t, tt.needing, needing(p))
			require.Equal(t, tt.values, p.Values)
			require.Equal(t, tt.renames, p.Rules.Count(migrate.VerdictRename))
			require.Len(t, p.Services, 6)
			rules := 0
			for i := range p.Services {
				s := &p.Services[i]
				rules += len(s.Rules)
				require.NotEmpty(t, s.Address, s.Service)
				require.Equal(t, tt.pins[s.Service], s.Pins(), s.Service)
			}
			require.Equal(t, 7, rules)
			for _, fs := range [][]corev1.Service{f.Services} {
				slices.Reverse(fs)
			}
			slices.Reverse(f.Rules)
			slices.Reverse(f.Addresses)
			slices.Reverse(f.Firewall)
			slices.Reverse(f.Nodes)
			require.Equal(t, p.Services, NewPlan(f).Services, "the order of the input does not matter")
		})
	}
}

func TestConsent(t *testing.T) {
	t.Parallel()
	p := NewPlan(newBed(t, leftby.Apache).facts(t))
	taker := func(accept, pin []string) *Taker { return &Taker{Plan: p, Options: Options{Accept: accept, Pin: pin}} }
	var e *report.Error
	require.ErrorAs(t, taker(nil, nil).Check(), &e)
	require.Equal(t, 3, e.ExitCode())
	require.Len(t, p.Undecided(nil, nil), 1, "default/restricted keeps its wide rule: the firewall filters")
	require.Contains(t, e.Error(), "the protocol of port 8080 changes from tcp to tcp-proxy")
	require.Contains(t, e.Remedy(), "--accept default/documented")
	require.NoError(t, taker(nil, []string{"all"}).Check())
	require.NoError(t, taker(nil, []string{"default/documented"}).Check())
	require.NoError(t, taker([]string{"all"}, nil).Check())
}

func TestRecognise(t *testing.T) {
	t.Parallel()
	lease := func(name string) *LeaseName { return &LeaseName{"kube-system", name} }
	usual := lease("cloud-controller-manager")
	tests := map[string]struct {
		d      *appsv1.Deployment
		family Family
		lease  *LeaseName
	}{
		"apache":                {leftby.Controller("cloud-controller-manager", "apache/cloudstack-kubernetes-provider:v1.2.0", nil, "--leader-elect=true", "--cloud-provider=external-cloudstack"), Apache, usual},
		"mirrored image":        {leftby.Controller("ccm", "registry.example.org/mirror:1", nil, "--cloud-provider", "external-cloudstack", "--leader-elect-resource-name=x"), Apache, lease("x")},
		"leaseweb, one replica": {leftby.Controller("ccm", "ghcr.io/leaseweb/cloudstack-kubernetes-provider:1.8.1", nil, "--cloud-provider=cloudstack", "--leader-elect=false"), Leaseweb, nil},
		"leaseweb, two":         {leftby.Controller("ccm", "x", nil, "--cloud-provider=cloudstack"), Leaseweb, usual},
		"another cloud":         {leftby.Controller("hcloud-cloud-controller-manager", "x", nil, "--cloud-provider=hcloud"), Other, usual},
		"ours":                  {ours(), "", nil},
		"something else":        {leftby.Controller("web", "nginx", nil), "", nil},
		"something like it":     {leftby.Controller("cloud-controller-manager-exporter", "exporter", nil, "--port=1"), Other, usual},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := ofDeployment(tt.d)
			p, is := recognise(&w)
			require.Equal(t, tt.family != "", is)
			require.Equal(t, tt.family, p.Family)
			require.Equal(t, tt.lease, p.Lease)
		})
	}
	kcm := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "kcm"}, Spec: corev1.PodSpec{Containers: []corev1.Container{
		{Name: "kube-controller-manager", Command: []string{"kube-controller-manager", "--cloud-provider=cloudstack"}},
	}}}
	require.Len(t, inTree([]corev1.Pod{kcm}), 1)
	kcm.Spec.Containers[0].Command[1] = "--cloud-provider=external"
	require.Empty(t, inTree([]corev1.Pod{kcm}))
}

func TestOrder(t *testing.T) {
	t.Parallel()
	usual, other := DefaultLease, LeaseName{"x", "y"}
	old := func(f Family, wanted int32, l *LeaseName) Predecessor {
		return Predecessor{Family: f, Kind: "Deployment", Namespace: "n", Name: "old", Wanted: wanted, Lease: l}
	}
	tests := map[string]struct {
		old      []Predecessor
		want     Order
		problems int
		running  int
	}{
		"none":               {nil, Nothing, 0, 0},
		"same lease":         {[]Predecessor{old(Apache, 1, &usual)}, OursFirst, 0, 1},
		"no lease":           {[]Predecessor{old(Leaseweb, 1, nil)}, OldFirst, 0, 1},
		"another lease":      {[]Predecessor{old(Apache, 1, &other)}, OldFirst, 0, 1},
		"one of two without": {[]Predecessor{old(Leaseweb, 1, nil), old(Apache, 1, &usual)}, OldFirst, 0, 2},
		"stopped":            {[]Predecessor{old(Apache, 0, &usual)}, OldFirst, 0, 0},
		"in-tree":            {[]Predecessor{old(InTree, 1, nil)}, Nothing, 1, 0},
		"another cloud's":    {[]Predecessor{old(Other, 1, nil)}, Nothing, 1, 0},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := NewPlan(&Facts{Predecessors: tt.old, Own: Own{Lease: usual}})
			require.Equal(t, tt.want, p.Order, p.Why)
			require.Len(t, p.Problems, tt.problems)
			require.Len(t, p.Running(), tt.running)
			if tt.problems > 0 {
				require.ErrorContains(t, (&Taker{Plan: p}).Check(), "nothing was changed")
			}
		})
	}
}

// The lease counts whatever kind of workload the chart makes: by it is decided which controller ends first.
func TestLeaseOfAChart(t *testing.T) {
	t.Parallel()
	for kind, want := range map[string]LeaseName{"Deployment": {"infra", "mine"}, "DaemonSet": {"infra", "mine"}, "StatefulSet": DefaultLease} {
		manifest := "apiVersion: v1\nkind: ServiceAccount\n---\napiVersion: apps/v1\nkind: " + kind + `
metadata: {name: ccm, labels: {app.kubernetes.io/name: cloudstack-ccm}}
spec: {template: {spec: {containers: [{name: ccm, args: [--leader-elect-resource-name=mine, --leader-elect-resource-namespace=infra]}]}}}
`
		require.Equal(t, want, LeaseOf(manifest), kind)
	}
}
