// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package failover

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cpapi "k8s.io/cloud-provider/api"

	"github.com/csccm/csccm/pkg/loadbalancer/plan"
)

// plant is a cluster whose kubelets renew their leases every 10 s, observed by a Suspicion.
type plant struct {
	s     *Suspicion
	now   time.Time
	dead  map[string]bool // kubelets that neither renew leases nor answer probes
	mute  map[string]bool // kubelets that do not renew leases
	shut  map[string]bool // kubelets that do not answer probes
	names []string
	tries int
}

func newPlant(nodes int) *plant {
	p := &plant{
		s:    NewSuspicion(12 * time.Second),
		now:  time.Unix(1000, 0),
		dead: map[string]bool{},
		mute: map[string]bool{},
		shut: map[string]bool{},
	}
	ready := map[string]bool{}
	for i := range nodes {
		name := fmt.Sprintf("n%d", i)
		p.names, ready[name] = append(p.names, name), true
	}
	p.s.Nodes(ready)
	return p
}

// run lets time pass, one second at a time. A probe ends at once if it is answered, and otherwise after two seconds.
func (p *plant) run(d time.Duration) {
	ends := map[string]time.Time{}
	for range int(d / time.Second) {
		p.now = p.now.Add(time.Second)
		for i, name := range p.names {
			if (p.now.Unix()+int64(i))%10 == 0 && !p.dead[name] && !p.mute[name] {
				p.s.Renewed(name, p.now.String(), p.now)
			}
			if at, probing := ends[name]; probing && !p.now.Before(at) {
				delete(ends, name)
				p.s.Probed(name, false, p.now)
			}
		}

		probe, _ := p.s.Due(p.now, 100)
		p.tries += len(probe)
		for _, name := range probe {
			if p.dead[name] || p.shut[name] {
				ends[name] = p.now.Add(ProbeTimeout)
			} else {
				p.s.Probed(name, true, p.now)
			}
		}
	}
}

func (p *plant) suspected() string {
	suspected, held := p.s.Suspected(p.now)
	out := strings.Join(slices.Sorted(maps.Keys(suspected)), " ")
	if len(held) > 0 {
		out += "held " + strings.Join(held, " ")
	}
	return out
}

func TestSuspicion(t *testing.T) {
	t.Parallel()
	set := func(m map[string]bool, is bool, names ...string) {
		for _, n := range names {
			m[n] = is
		}
	}

	for name, c := range map[string]struct {
		nodes  int
		before func(*plant) // runs at the start
		happen func(*plant) // runs after a minute
		after  time.Duration
		want   string
	}{
		"nothing happens": {nodes: 3, after: time.Hour, want: ""},
		"a node dies": {
			nodes:  3,
			happen: func(p *plant) { set(p.dead, true, "n1") },
			after:  16 * time.Second,
			want:   "n1",
		},
		"not before its lease": {
			nodes:  3,
			happen: func(p *plant) { set(p.dead, true, "n1") },
			after:  3 * time.Second,
			want:   "",
		},
		"a kubelet is replaced": {
			nodes:  3,
			happen: func(p *plant) { set(p.mute, true, "n1") },
			after:  time.Minute,
			want:   "",
		},
		"a port is closed later": {
			nodes:  3,
			happen: func(p *plant) { set(p.shut, true, "n1") },
			after:  time.Minute,
			want:   "",
		},
		"ports that never answer": {
			nodes:  3,
			before: func(p *plant) { set(p.shut, true, "n1") },
			happen: func(p *plant) { set(p.mute, true, "n1") },
			after:  time.Minute,
			want:   "",
		},
		"two of three die": {
			nodes:  3,
			happen: func(p *plant) { set(p.dead, true, "n0", "n1") },
			after:  time.Minute,
			want:   "held n0 n1",
		},
		"two of ten die": {
			nodes:  10,
			happen: func(p *plant) { set(p.dead, true, "n0", "n9") },
			after:  time.Minute,
			want:   "n0 n9",
		},
		"three of ten die": {
			nodes:  10,
			happen: func(p *plant) { set(p.dead, true, "n0", "n5", "n9") },
			after:  time.Minute,
			want:   "held n0 n5 n9",
		},
		"the API server is away": {
			nodes:  4,
			happen: func(p *plant) { set(p.mute, true, p.names...) },
			after:  time.Minute,
			want:   "",
		},
		"the controller is cut off": {
			nodes:  4,
			happen: func(p *plant) { set(p.mute, true, p.names...); set(p.shut, true, p.names...) },
			after:  time.Minute,
			want:   "held n2 n3",
		},
		"the only node dies": {
			nodes:  1,
			happen: func(p *plant) { set(p.dead, true, "n0") },
			after:  time.Minute,
			want:   "held n0",
		},
		"Kubernetes knows": {nodes: 3, happen: func(p *plant) {
			set(p.dead, true, "n1")
			p.s.Nodes(map[string]bool{"n0": true, "n1": false, "n2": true})
		}, after: time.Minute, want: ""},
		"the Node is deleted": {
			nodes:  3,
			happen: func(p *plant) { set(p.dead, true, "n1"); p.s.Nodes(map[string]bool{"n0": true, "n2": true}) },
			after:  time.Minute,
			want:   "",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlant(c.nodes)
			if c.before != nil {
				c.before(p)
			}
			p.run(time.Minute)
			assert.Empty(t, p.suspected())
			if c.happen != nil {
				c.happen(p)
			}
			p.run(c.after)
			assert.Equal(t, c.want, p.suspected())
			clear(p.dead)
			clear(p.mute)
			p.run(11 * time.Second)
			assert.Empty(t, p.suspected(), "a lease is renewed")
		})
	}
}

// There are few probes: one for each healthy node, at most limit at the same time, and none for nodes that Kubernetes
// already considers lost.
func TestProbesAreBounded(t *testing.T) {
	t.Parallel()
	p := newPlant(100)
	p.run(time.Hour)
	assert.Equal(t, 100, p.tries, "each node answers once, and is not asked again")
	for _, name := range p.names {
		p.mute[name], p.shut[name] = true, true
	}
	p.tries = 0
	p.run(time.Hour)
	assert.LessOrEqual(t, p.tries, 100, "only while most leases are believed")

	p = newPlant(100)
	for _, name := range p.names {
		p.s.Renewed(name, "first", p.now)
	}
	probe, next := p.s.Due(p.now, 7)
	assert.Len(t, probe, 7)
	assert.Equal(t, p.now.Add(ProbeTimeout), next)
	again, _ := p.s.Due(p.now, 100)
	assert.Len(t, again, 93, "those that are being probed are not probed twice")
}

// readyNode returns a Node that is Ready, with its kubelet's address.
func readyNode(name string, changes ...func(*corev1.Node)) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	n.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: name}}
	n.Status.DaemonEndpoints.KubeletEndpoint.Port = 10250
	for _, c := range changes {
		c(n)
	}
	return n
}

func taint(key string) func(*corev1.Node) {
	return func(n *corev1.Node) { n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: key}) }
}

func ready(status corev1.ConditionStatus, reason string) func(*corev1.Node) {
	return func(n *corev1.Node) {
		n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: status, Reason: reason}}
	}
}

func TestProblems(t *testing.T) {
	t.Parallel()
	label := func(value string) func(*corev1.Node) {
		return func(n *corev1.Node) { n.Labels = map[string]string{corev1.LabelNodeExcludeBalancers: value} }
	}
	for name, c := range map[string]struct {
		change func(*corev1.Node)
		cause  plan.Cause
		text   string
	}{
		"ready":         {func(*corev1.Node) {}, "", ""},
		"cordoned":      {func(n *corev1.Node) { n.Spec.Unschedulable = true }, "", ""},
		"another taint": {taint("node.kubernetes.io/memory-pressure"), "", ""},
		"kubelet stopped": {ready(corev1.ConditionFalse, "KubeletNotReady"),
			plan.NotReady, "not Ready (KubeletNotReady)"},
		"kubelet silent": {ready(corev1.ConditionUnknown, ""), plan.NotReady, "not Ready"},
		"new":            {func(n *corev1.Node) { n.Status.Conditions = nil }, plan.NotReady, "not Ready yet"},
		"VM stopped":     {taint(cpapi.TaintNodeShutdown), plan.Stopped, "its VM is stopped"},
		"out of service": {taint(corev1.TaintNodeOutOfService),
			plan.OutOfOrder, "taint " + corev1.TaintNodeOutOfService},
		"excluded":          {label(""), plan.Excluded, "label " + corev1.LabelNodeExcludeBalancers},
		"excluded by false": {label("false"), "", ""},
		"being deleted": {func(n *corev1.Node) { n.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)} },
			plan.Deleted, "about to be deleted"},
		"autoscaler": {taint(TaintBeingDeleted), plan.Deleted, "about to be deleted"},
	} {
		want := map[string]plan.Problem{}
		if c.cause != "" {
			want["a"] = plan.Problem{Cause: c.cause, Text: c.text}
		}
		assert.Equal(t, want, Problems([]*corev1.Node{readyNode("a", c.change)}, nil), name)
	}

	nodes := []*corev1.Node{readyNode("a"), readyNode("b", ready(corev1.ConditionUnknown, "NodeStatusUnknown")),
		readyNode("c")}
	want := map[string]plan.Problem{
		"a": {Cause: plan.Suspected, Text: "silent"},
		"b": {Cause: plan.NotReady, Text: "not Ready (NodeStatusUnknown)"},
	}
	assert.Equal(t, want, Problems(nodes, map[string]string{"a": "silent", "b": "silent", "gone": "silent"}),
		"what Kubernetes knows comes first")
}
