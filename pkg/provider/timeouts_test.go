// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/csccm/csccm/pkg/annotation"
	"github.com/csccm/csccm/pkg/loadbalancer/plan"
)

// Today's servers ignore the parameters, so that the Service is refused before anything is made.
func TestTimeoutsAreRefusedWhereTheServerHasNone(t *testing.T) {
	t.Parallel()
	for _, pair := range [][]string{{annotation.IdleTimeout, "30m"}, {annotation.KeepAlive, "true"}} {
		env := newEnv(t)
		env.create("web", []int{80}, annotate(pair...))
		require.Error(t, env.sync("web"))
		assert.Contains(t, env.event(plan.ReasonUnsupportedSetting), "14131")
		assert.Equal(t, env.before, env.dump())
		env.edit("web", unset(pair[0]))
		env.mustSync("web")
	}
}

func TestTimeoutsOfAServerThatHasThem(t *testing.T) {
	t.Parallel()
	proposed := withWorld(func(w string) string { return w + "\nproposals: [rule-timeouts]\n" })
	env := served(t, []int{80, 443}, proposed, as(annotate(annotation.IdleTimeout, "30m", annotation.KeepAlive, "true")))
	has := func(idle int64, keep ...bool) {
		t.Helper()
		for _, r := range env.rulesAt(env.ip("web")) {
			assert.Equal(t, idle, r.IdleTimeout, r.PublicPort)
			if r.PublicPort == 80 {
				require.NotNil(t, r.KeepAlive)
				assert.Equal(t, keep[0], *r.KeepAlive)
			} else {
				assert.Nil(t, r.KeepAlive)
			}
		}
	}
	has(30*60*1000, true)

	env.reset()
	env.changed(annotate(annotation.IdleTimeout, "1h", annotation.KeepAlive, "no"))
	has(60*60*1000, false)
	assert.Equal(t, 2, count(env.calls(), "updateLoadBalancerRule"), "in place")
	assert.Zero(t, count(env.calls(), "createLoadBalancerRule"))

	env.reset()
	env.changed(unset(annotation.IdleTimeout, annotation.KeepAlive))
	has(60*60*1000, false)
	assert.Zero(t, count(env.calls(), "updateLoadBalancerRule"), "the last values stay")
}
