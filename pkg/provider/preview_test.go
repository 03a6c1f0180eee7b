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
	"github.com/csccm/csccm/pkg/provider/event"
)

func TestPreview(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.service([]int{80, 81})
	o := DefaultOptions()
	o.ClusterID = "test"
	preview := func() loadbalancer.Preview {
		t.Helper()
		b.reset()
		annotations, dump := b.get().Annotations, b.dump()
		p, err := NewPreviewer(t.Context(), &cloudstack.Config{SecretKey: testSecret}, o, b.client(testAPIKey, testSecret), b.kube)
		require.NoError(t, err)
		out, err := p.Service(t.Context(), b.get(), nodesNamed("w1", "w2"))
		require.NoError(t, err)
		for _, c := range b.calls() {
			assert.True(t, strings.HasPrefix(c, "list"), c)
		}
		assert.Equal(t, annotations, b.get().Annotations)
		assert.Equal(t, dump, b.dump())
		text, err := json.Marshal(out)
		require.NoError(t, err)
		var back loadbalancer.Preview
		require.NoError(t, json.Unmarshal(text, &back))
		assert.Equal(t, out, back)
		return out
	}
	out := preview()
	assert.Equal(t, "default/web", out.Service)
	assert.Len(t, out.Actions, 1+2*2+1+1)
	b.mustSync("w1", "w2")
	assert.Empty(t, preview().Actions)
	b.change(annotate(annotation.ProxyProtocol, "true"))
	assert.Len(t, preview().Actions, 2)
	b.change(annotate(annotation.ProxyProtocol, "perhaps"))
	require.NotNil(t, preview().Refusal)
	assert.Equal(t, loadbalancer.ReasonInvalidAnnotation, preview().Refusal.Reason)
	b.change(annotate(annotation.ProxyProtocol, "false", annotation.Address, "203.0.113.33"))
	assert.Len(t, preview().Actions, 1+2*2+1+1+1, "that the address is another's only its acquisition tells")
}

// Under the policies dry-run and no-delete nothing is done, or nothing taken away.
func TestPolicies(t *testing.T) {
	t.Parallel()
	b := newBed(t, func(b *bed, _ *string) {
		b.options = func(d *loadBalancerDeps) { d.Policy = loadbalancer.PolicyDryRun }
	})
	before := b.dump()
	b.service([]int{80, 81})
	b.mustSync("w1")
	assert.Equal(t, before, b.dump())
	assert.Contains(t, b.event(event.DryRun), "acquire an address")
	require.NoError(t, b.remove(), "nothing is there")

	b.options = func(d *loadBalancerDeps) { d.Policy = loadbalancer.PolicyNoDelete }
	b.restart()
	b.mustSync("w1", "w2")
	full := b.dump()
	b.change(annotate(annotation.SourceCIDRs, "10.0.0.0/8"))
	b.mustSync("w1")
	assert.Subset(t, b.dump(), grep(full, "firewall"))
	assert.Contains(t, strings.Join(b.dump(), "\n"), "[w1 w2]")
	require.Error(t, b.remove())
}
