// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csccm/csccm/pkg/annotation"
	"github.com/csccm/csccm/pkg/loadbalancer/plan"
)

// ready is the condition that says whether the load balancer is as asked for.
func (b *bubble) ready(namespace, name string) metav1.Condition {
	b.t.Helper()
	c := apimeta.FindStatusCondition(b.get(namespace, name).Status.Conditions, ConditionReady)
	require.NotNil(b.t, c)
	return *c
}

// A Service whose rules have no members is not ready, and says why nobody is served.
func TestNotReadyWithoutMembers(t *testing.T) {
	t.Parallel()
	inBubble(t, nil, func(b *bubble) {
		const settle = time.Minute
		b.service("default", "web")
		b.service("default", "edge", annotate(annotation.NodeSelector, "tier=edge"))
		b.service("default", "local", func(s *corev1.Service) { s.Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyLocal })
		time.Sleep(settle)
		assert.Equal(t, metav1.ConditionTrue, b.ready("default", "web").Status)
		for name, why := range map[string]string{
			"edge":  "no node matches " + annotation.NodeSelector,
			"local": "externalTrafficPolicy is Local and no node has a ready endpoint",
		} {
			c := b.ready("default", name)
			assert.Equal(t, metav1.ConditionFalse, c.Status, name)
			assert.Equal(t, string(plan.ReasonNoBackends), c.Reason, name)
			assert.Contains(t, c.Message, why, name)
		}

		b.label("w2", "tier", "edge")
		time.Sleep(settle)
		assert.Equal(t, metav1.ConditionTrue, b.ready("default", "edge").Status)

		for _, n := range []string{"w1", "w2"} {
			b.label(n, corev1.LabelNodeExcludeBalancers, "true")
		}
		time.Sleep(settle)
		c := b.ready("default", "web")
		assert.Equal(t, metav1.ConditionFalse, c.Status)
		assert.Equal(t, string(plan.ReasonNoBackends), c.Reason)
		assert.Contains(t, c.Message, "no node is eligible: of 2 in the cluster, 2 with the label "+corev1.LabelNodeExcludeBalancers)

		b.label("w1", corev1.LabelNodeExcludeBalancers, "")
		time.Sleep(settle)
		assert.Equal(t, metav1.ConditionTrue, b.ready("default", "web").Status)
	})
}

// A new Service of a cluster without eligible nodes says which nodes there are, and why they do not serve.
func TestNoEligibleNodes(t *testing.T) {
	t.Parallel()
	inBubble(t, nil, func(b *bubble) {
		for _, n := range []string{"w1", "w2"} {
			b.label(n, corev1.LabelNodeExcludeBalancers, "true")
		}
		synctest.Wait()
		b.service("default", "web")
		time.Sleep(time.Minute)
		c := b.ready("default", "web")
		assert.Equal(t, metav1.ConditionFalse, c.Status)
		assert.Equal(t, string(plan.ReasonNoNodes), c.Reason)
		assert.Equal(t, "no node is eligible: of 2 in the cluster, 2 with the label "+corev1.LabelNodeExcludeBalancers+
			", so that the network of the address is not known; add a node that may serve; the Service is tried again", c.Message)
		b.label("w1", corev1.LabelNodeExcludeBalancers, "")
		time.Sleep(time.Minute)
		assert.Equal(t, []string{"w1"}, b.members("default", "web"))
	})
}
