// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package failover

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cpapi "k8s.io/cloud-provider/api"
)

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
		want   Problem
	}{
		"ready":             {func(*corev1.Node) {}, Problem{}},
		"cordoned":          {func(n *corev1.Node) { n.Spec.Unschedulable = true }, Problem{}},
		"another taint":     {taint("node.kubernetes.io/memory-pressure"), Problem{}},
		"kubelet stopped":   {ready(corev1.ConditionFalse, "KubeletNotReady"), Problem{NotReady, "not Ready (KubeletNotReady)"}},
		"kubelet silent":    {ready(corev1.ConditionUnknown, ""), Problem{NotReady, "not Ready"}},
		"new":               {func(n *corev1.Node) { n.Status.Conditions = nil }, Problem{NotReady, "not Ready yet"}},
		"VM stopped":        {taint(cpapi.TaintNodeShutdown), Problem{Stopped, "its VM is stopped"}},
		"out of service":    {taint(corev1.TaintNodeOutOfService), Problem{OutOfOrder, "taint " + corev1.TaintNodeOutOfService}},
		"excluded":          {label(""), Problem{Excluded, "label " + corev1.LabelNodeExcludeBalancers}},
		"excluded by false": {label("false"), Problem{}},
		"being deleted":     {func(n *corev1.Node) { n.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)} }, Problem{Deleted, "about to be deleted"}},
		"autoscaler":        {taint(TaintBeingDeleted), Problem{Deleted, "about to be deleted"}},
	} {
		want := map[string]Problem{}
		if c.want.Cause != "" {
			want["a"] = c.want
		}
		assert.Equal(t, want, Problems([]*corev1.Node{readyNode("a", c.change)}, nil), name)
	}
	nodes := []*corev1.Node{readyNode("a"), readyNode("b", ready(corev1.ConditionUnknown, "NodeStatusUnknown")), readyNode("c")}
	assert.Equal(t, map[string]Problem{"a": {Suspected, "silent"}, "b": {NotReady, "not Ready (NodeStatusUnknown)"}},
		Problems(nodes, map[string]string{"a": "silent", "b": "silent", "gone": "silent"}), "what Kubernetes knows comes first")
}
