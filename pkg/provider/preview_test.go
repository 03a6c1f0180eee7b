// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/csccm/csccm/pkg/annotation"
	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/loadbalancer"
	"github.com/csccm/csccm/pkg/loadbalancer/plan"
	"github.com/csccm/csccm/pkg/provider/event"
)

func TestPreview(t *testing.T) {
	t.Parallel()
	env := newEnv(t)
	env.create("web", []int{80, 81})
	o := DefaultOptions()
	o.ClusterID = "test"
	preview := func() loadbalancer.Preview {
		t.Helper()
		env.reset()
		annotations, dump := env.get("web").Annotations, env.dump()
		p, err := NewPreviewer(t.Context(), &cloudstack.Config{SecretKey: testSecret}, o, env.client(testAPIKey, testSecret), env.kube)
		require.NoError(t, err)
		out, err := p.Service(t.Context(), env.get("web"), nodesNamed("w1", "w2"))
		require.NoError(t, err)
		for _, c := range env.calls() {
			assert.True(t, strings.HasPrefix(c, "list"), c)
		}
		assert.Equal(t, annotations, env.get("web").Annotations)
		assert.Equal(t, dump, env.dump())
		text, err := json.Marshal(out)
		require.NoError(t, err)
		var back struct {
			Actions []struct{ Kind, Label string }
		}
		require.NoError(t, json.Unmarshal(text, &back))
		require.Len(t, back.Actions, len(out.Actions))
		for i, a := range out.Actions {
			assert.Equal(t, []string{a.Kind(), a.Label()}, []string{back.Actions[i].Kind, back.Actions[i].Label})
		}
		return out
	}
	out := preview()
	assert.Equal(t, "default/web", out.Service)
	assert.Len(t, out.Actions, 1+2*2+1+1)
	env.mustSync("web")
	assert.Empty(t, preview().Actions)
	env.edit("web", annotate(annotation.ProxyProtocol, "true"))
	assert.Len(t, preview().Actions, 2)
	env.edit("web", annotate(annotation.ProxyProtocol, "perhaps"))
	require.NotNil(t, preview().Refusal)
	assert.Equal(t, plan.ReasonInvalidAnnotation, preview().Refusal.Reason)
	env.edit("web", annotate(annotation.ProxyProtocol, "false", annotation.Address, "203.0.113.33"))
	assert.Len(t, preview().Actions, 1+2*2+1+1+1, "only the acquisition shows that the address belongs to another account")
}

// Under the policies dry-run and no-delete nothing is done, or nothing taken away.
func TestPolicies(t *testing.T) {
	t.Parallel()
	env := newEnv(t, withDeps(func(d *loadBalancerDeps) { d.Policy = plan.PolicyDryRun }))
	before := env.dump()
	env.create("web", []int{80, 81})
	env.mustSync("web", "w1")
	assert.Equal(t, before, env.dump())
	assert.Contains(t, env.event(event.DryRun), "acquire an address")
	require.NoError(t, env.remove("web"), "nothing is there")

	env.deps = func(d *loadBalancerDeps) { d.Policy = plan.PolicyNoDelete }
	env.restart()
	env.mustSync("web")
	full := env.dump()
	env.edit("web", annotate(annotation.SourceCIDRs, "10.0.0.0/8"))
	env.mustSync("web", "w1")
	assert.Subset(t, env.dump(), grep(full, "firewall"))
	assert.Contains(t, strings.Join(env.dump(), "\n"), "[w1 w2]")
	require.Error(t, env.remove("web"))
}
