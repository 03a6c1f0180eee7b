// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package observe

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/csccm/csccm/pkg/loadbalancer/plan"
)

func TestNeighboursOfRules(t *testing.T) {
	t.Parallel()
	const uid = "7c3e1b52-0000-4000-8000-00000000abcd"
	n := IndexNeighbours([]Neighbour{{UID: uid, Namespace: "shop", Name: "web", ShareWith: []string{"blog"}}})
	for name, tc := range map[string]struct {
		rule string
		tags map[string]string
		want bool
	}{
		"by its tags":               {rule: "renamed", tags: map[string]string{plan.TagServiceUID: uid}, want: true},
		"by its name":               {rule: plan.LBName(uid) + "-tcp-80", want: true},
		"by an older name":          {rule: plan.LBName(uid) + "-80", want: true},
		"by Leaseweb's name":        {rule: "K8s_svc_kubernetes_shop_web-tcp-80", want: true},
		"of another cluster's name": {rule: "K8s_svc_other_shop_web-tcp-80"},
		"tags before the name":      {rule: plan.LBName(uid) + "-tcp-80", tags: map[string]string{plan.TagServiceUID: "other"}},
		"by hand":                   {rule: "web-tcp-80"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			assert.Equal(t, tc.want, n.ofRule(tc.rule, "kubernetes", tc.tags) != nil)
		})
	}
	assert.True(t, n.List[0].admits("shop"))
	assert.True(t, n.List[0].admits("blog"))
	assert.False(t, n.List[0].admits("other"))
}
