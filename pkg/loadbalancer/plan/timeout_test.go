// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/csccm/csccm/pkg/annotation"
)

func TestTimeoutsOfRules(t *testing.T) {
	t.Parallel()
	off := false
	spec := annotation.Spec{SourceRanges: []string{annotation.Anyone}, Algorithm: annotation.RoundRobin, IdleTimeout: time.Minute, KeepAlive: &off}
	facts := func(change func(*Facts)) Facts {
		f := Facts{
			Service: aService(Port{Protocol: "TCP", Port: 80, NodePort: 30080}, Port{Protocol: "TCP", Port: 5432, NodePort: 30432}), Spec: spec,
			Network: &Network{ID: "n", LoadBalancer: true, Public: true, Firewall: true, Forwards: true, Providers: []string{virtualRouter}},
		}
		if change != nil {
			change(&f)
		}
		return f
	}
	d, refusal := Desire(facts(nil))
	require.Nil(t, refusal)
	require.Len(t, d.Rules, 2)
	for _, r := range d.Rules {
		assert.EqualValues(t, 60000, r.IdleTimeout)
	}
	assert.Equal(t, &off, d.Rules[0].KeepAlive)
	assert.Nil(t, d.Rules[1].KeepAlive, "port 5432 is not read as HTTP")

	for name, c := range map[string]struct {
		change func(*Facts)
		reason Reason
		says   string
	}{
		"server without":   {func(f *Facts) { f.NoTimeouts = "createLoadBalancerRule has no parameter idletimeout" }, ReasonUnsupportedSetting, "no parameter idletimeout"},
		"internal":         {func(f *Facts) { f.Spec.Internal = true }, ReasonUnsupportedSetting, "internal"},
		"another provider": {func(f *Facts) { f.Network.Providers = []string{"Netscaler"} }, ReasonUnsupportedSetting, "Netscaler"},
		"mode direct":      {func(f *Facts) { f.Spec.Mode = annotation.Direct }, ReasonUnsupportedMode, "no time-outs"},
	} {
		_, refusal := Desire(facts(c.change))
		require.NotNil(t, refusal, name)
		assert.Equal(t, c.reason, refusal.Reason, name)
		assert.Contains(t, refusal.Error(), c.says, name)
		assert.Contains(t, refusal.Remedy, annotation.IdleTimeout, name)
	}

	want := Rule{IdleTimeout: 60000, KeepAlive: &off}
	on := true
	assert.False(t, timeoutsDiffer(want, want))
	assert.True(t, timeoutsDiffer(want, Rule{KeepAlive: &off}))
	assert.True(t, timeoutsDiffer(want, Rule{IdleTimeout: 60000}))
	assert.True(t, timeoutsDiffer(want, Rule{IdleTimeout: 60000, KeepAlive: &on}))
	assert.False(t, timeoutsDiffer(Rule{}, want), "what the Service does not ask for is left")
}
