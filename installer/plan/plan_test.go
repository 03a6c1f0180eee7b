// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/csccm/csccm/installer/report"
	"github.com/csccm/csccm/pkg/loadbalancer"
	"github.com/csccm/csccm/pkg/loadbalancer/plan"
	"github.com/csccm/csccm/pkg/provider"
	"github.com/csccm/csccm/pkg/service"
	"github.com/csccm/csccm/pkg/ui/terminal"
)

// scripted is a Previewer with a fixed result for each Service name.
type scripted map[string]loadbalancer.Preview

func (s scripted) Service(_ context.Context, svc *corev1.Service, nodes []*corev1.Node) (loadbalancer.Preview, error) {
	p, known := s[svc.Name]
	p.Service = svc.Namespace + "/" + svc.Name
	if len(nodes) != 1 || !known {
		return p, errors.New("list addresses: CloudStack is down")
	}
	return p, nil
}

var (
	on20     = plan.On{IP: "203.0.113.20"}
	previews = scripted{
		"idle": {}, "pending": {Pending: 1},
		"web": {Actions: []plan.Step{
			{
				Kind: plan.CreateRule,
				On:   on20,
				Port: 80,
				Rule: plan.Rule{
					Name:        "a-tcp-80",
					PublicPort:  80,
					PrivatePort: 30080,
					Protocol:    "tcp",
					Algorithm:   "roundrobin",
				},
			},
			{
				Kind:   plan.UpdateRule,
				On:     on20,
				ItemID: "r1",
				Port:   81,
				Rule:   plan.Rule{Protocol: "tcp", Algorithm: "source"},
			},
			{Kind: plan.DeleteRule, On: on20, ItemID: "r2", Port: 82},
		}, Notices: []plan.Notice{{Warning: true, Reason: "X", Message: "not serving: node n9 has no VM"}}},
		"api": {Refusal: &plan.RefusalError{
			Reason:  plan.ReasonPortTaken,
			Message: "port 80 of 203.0.113.30 is taken",
			Remedy:  "use another port",
			Port:    80,
		}},
		"leaving": {
			Desired: &plan.Desired{Absent: true},
			Actions: []plan.Step{{Kind: plan.ReleaseAddress, On: plan.On{IP: "203.0.113.21"}}},
		},
	}
)

func balancer(namespace, name string, change ...func(*corev1.Service)) corev1.Service {
	svc := corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer},
	}
	for _, c := range change {
		c(&svc)
	}
	return svc
}

func serving(ip string) func(*corev1.Service) {
	return func(s *corev1.Service) { s.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: ip}} }
}

func clusterObjects() []corev1.Service {
	class := "other.example.org/lb"
	return []corev1.Service{
		balancer("shop", "web", serving("203.0.113.20")), balancer("shop", "api"),
		balancer("apps", "idle", serving("203.0.113.22")),
		balancer("apps", "internal", func(s *corev1.Service) { s.Spec.Type = corev1.ServiceTypeClusterIP }),
		balancer("apps", "classy", func(s *corev1.Service) { s.Spec.LoadBalancerClass = &class }),
	}
}

// makePlan plans Services of a cluster with one node.
func makePlan(t *testing.T, settings Settings, names []string, all ...corev1.Service) (*Report, error) {
	t.Helper()
	selected, err := Select(names)
	if err != nil {
		return nil, err
	}
	services, err := selected.Of(all, service.Classes{})
	if err != nil {
		return nil, err
	}
	return Of(t.Context(), previews, settings, services, make([]corev1.Node, 1))
}

func TestOf(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		more    []corev1.Service
		names   []string
		policy  string
		want    []string // expected Services
		summary Summary
		todo    bool
		err     string
	}{
		"all": {
			want: []string{"apps/idle", "shop/api", "shop/web"}, todo: true,
			summary: Summary{Services: 3, Settled: 1, Changing: 1, Refused: 1, Actions: 3},
		},
		"one": {
			names:   []string{"apps/idle"},
			want:    []string{"apps/idle"},
			summary: Summary{Services: 1, Settled: 1},
		},
		"only a refused one": {
			names:   []string{"shop/api"},
			want:    []string{"shop/api"},
			todo:    true,
			summary: Summary{Services: 1, Refused: 1},
		},
		"a namespace": {
			names:   []string{"shop/"},
			want:    []string{"shop/api", "shop/web"},
			todo:    true,
			summary: Summary{Services: 2, Changing: 1, Refused: 1, Actions: 3},
		},
		"an empty one": {names: []string{"none/"}},
		"no-delete": {
			names:   []string{"shop/web"},
			policy:  "no-delete",
			want:    []string{"shop/web"},
			todo:    true,
			summary: Summary{Services: 1, Changing: 1, Actions: 3, BlockedByPolicy: 1},
		},
		"dry-run": {
			names:   []string{"shop/web"},
			policy:  "dry-run",
			want:    []string{"shop/web"},
			todo:    true,
			summary: Summary{Services: 1, Changing: 1, Actions: 3, BlockedByPolicy: 3},
		},
		"a failure": {
			more:    []corev1.Service{balancer("z", "broken")},
			names:   []string{"z/"},
			want:    []string{"z/broken"},
			summary: Summary{Services: 1, Failed: 1},
		},
		"an unknown outcome": {
			more:    []corev1.Service{balancer("z", "pending")},
			names:   []string{"z/"},
			want:    []string{"z/pending"},
			todo:    true,
			summary: Summary{Services: 1, Changing: 1},
		},
		"malformed name":      {names: []string{"web"}, err: "web is not of the form NAMESPACE/NAME"},
		"no such Service":     {names: []string{"shop/wbe"}, err: "shop/wbe is not a Service"},
		"no load balancer":    {names: []string{"apps/internal"}, err: "its type is not LoadBalancer"},
		"of another balancer": {names: []string{"apps/classy"}, err: "its loadBalancerClass is not one"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, err := makePlan(t, Settings{Policy: c.policy}, c.names, append(clusterObjects(), c.more...)...)
			if c.err != "" {
				require.ErrorContains(t, err, c.err)
				return
			}

			require.NoError(t, err)
			var got []string
			for _, s := range r.Services {
				got = append(got, s.Service)
			}

			assert.Equal(t, c.want, got)
			assert.Equal(t, c.summary, r.Summary)
			assert.Equal(t, c.todo, r.ToDo())
		})
	}
}

func TestReportAsJSON(t *testing.T) {
	t.Parallel()
	r, err := makePlan(t, Settings{ClusterID: "c1", Policy: "no-delete"}, nil, clusterObjects()...)
	require.NoError(t, err)
	text, err := json.Marshal(r)
	require.NoError(t, err)
	var back struct {
		Services []struct {
			Service, Address string
			Actions          []map[string]any
			Refusal          map[string]any
		}
	}

	require.NoError(t, json.Unmarshal(text, &back))
	idle, api, web := back.Services[0], back.Services[1], back.Services[2]
	assert.NotNil(t, idle.Actions, "an empty list, not null")
	assert.Equal(t, "use another port", api.Refusal["remedy"])
	assert.Equal(t, "shop/web 203.0.113.20", web.Service+" "+web.Address)
	assert.Equal(t, "create-rule", web.Actions[0]["kind"])
	assert.Nil(t, web.Actions[0]["heldByPolicy"])
	assert.Equal(t, true, web.Actions[2]["heldByPolicy"])
}

func TestText(t *testing.T) {
	t.Parallel()
	objects := append(clusterObjects(), balancer("z", "leaving", serving("203.0.113.21")), balancer("z", "broken"))
	report1, err := makePlan(t, Settings{ClusterID: "c1", Policy: "no-delete", From: "the defaults"}, nil, objects...)
	require.NoError(t, err)
	write := func(style report.Style, verbose bool) string {
		var b bytes.Buffer
		require.NoError(t, report1.WriteText(&b, style, verbose))
		return b.String()
	}
	plain := write(report.Style{Unicode: true}, false)
	assert.Equal(t, `shop/api    -              refused: PortTaken
  ✗ port 80 of 203.0.113.30 is taken
    fix: use another port
shop/web    203.0.113.20   3 actions
  + create rule a-tcp-80 on 203.0.113.20 (80 to node port 30080, tcp, roundrobin)
  ~ update rule of port 81 on 203.0.113.20 (tcp, source)
  - delete rule of port 82 on 203.0.113.20 (blocked by the policy)
  ! not serving: node n9 has no VM
z/broken    -              not known
  ✗ list addresses: CloudStack is down
z/leaving   203.0.113.21   1 action to delete it
  - release address 203.0.113.21 (blocked by the policy)

5 Services: 1 as asked for, 2 with 4 actions, 1 refused, 1 not known.
The controller's policy no-delete blocks 2 actions.
`, plain)
	assert.Contains(t, write(report.Style{}, true),
		"apps/idle   203.0.113.22   as asked for\n")
	assert.Contains(t, write(report.Style{}, true),
		"cluster c1, policy no-delete, settings of the defaults\n")
	assert.NotContains(t, plain, "\x1b[")
	assert.Contains(t, write(report.Style{Color: true}, false),
		terminal.Own("\x1b[31m")+"-"+terminal.Own("\x1b[0m")+" delete rule")
	for line := range strings.Lines(write(report.Style{Unicode: true, Width: 40}, false)) {
		assert.LessOrEqual(t, len([]rune(strings.TrimSuffix(line, "\n"))), 40, line)
	}
	var b bytes.Buffer
	require.NoError(t, (&Report{}).WriteText(&b, report.Style{}, false))
	assert.Equal(t, "No Service of type LoadBalancer.\n", b.String())
}

func TestOptions(t *testing.T) {
	t.Parallel()
	labels := map[string]string{"app.kubernetes.io/name": "cloudstack-ccm", "app.kubernetes.io/instance": "mine"}
	pod := func(args ...string) corev1.PodTemplateSpec {
		return corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{
			{Name: "sidecar", Args: []string{"--cluster-id=wrong"}},
			{
				Name:    "controller",
				Command: []string{"/cloudstack-ccm"},
				Args: append([]string{"--cloud-provider=external-cloudstack", "--leader-elect=true", "--v=2"},
					args...),
			},
		}}}
	}

	meta := metav1.ObjectMeta{Namespace: "kube-system", Name: "ccm", Labels: labels}
	for name, c := range map[string]struct {
		object runtime.Object
		from   string
		want   func(*provider.Options)
		err    string
	}{
		"none": {from: "the defaults", want: func(*provider.Options) {}},
		"Deployment": {&appsv1.Deployment{
			ObjectMeta: meta,
			Spec: appsv1.DeploymentSpec{
				Template: pod("--cluster-id=c1", "--load-balancer-policy=no-delete", "--manage-network-acls=false"),
			},
		}, "Deployment kube-system/ccm",
			func(o *provider.Options) { o.ClusterID, o.Policy, o.ManageNetworkACLs = "c1", "no-delete", false }, ""},
		"DaemonSet": {&appsv1.DaemonSet{
			ObjectMeta: meta,
			Spec:       appsv1.DaemonSetSpec{Template: pod("--cluster-name", "c2")},
		}, "DaemonSet kube-system/ccm", func(o *provider.Options) { o.ClusterName = "c2" }, ""},
		"wrong flag": {
			object: &appsv1.Deployment{
				ObjectMeta: meta,
				Spec:       appsv1.DeploymentSpec{Template: pod("--drift-period=soon")},
			},
			err: "drift-period",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			kube := fake.NewClientset()
			if c.object != nil {
				kube = fake.NewClientset(c.object)
			}
			o, from, err := Options(t.Context(), kube, "kube-system", "mine")
			if c.err != "" {
				require.ErrorContains(t, err, c.err)
				return
			}
			require.NoError(t, err)
			assert.Equal(t, c.from, from)
			want := provider.DefaultOptions()
			c.want(&want)
			assert.Equal(t, want, o)
		})
	}
}
