// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/csccm/csccm/pkg/simulator"
)

// One list of an address's rules shows which jobs on them succeeded. Results are read of those that no list shows: of
// the acquisition, the address's tags and the single firewall rule.
func TestResultsOfFewJobsAreRead(t *testing.T) {
	t.Parallel()
	env := newEnv(t)
	env.create("web", someOrTen(10))
	env.reset()
	env.mustSync("web")
	assert.LessOrEqual(t, env.Ledger().Count("queryAsyncJobResult"), 3+2, "polls of a lone job and of the last one are such calls, too")
	assert.Equal(t, 2, count(env.calls(), "listLoadBalancerRules"), "a look for rules before, and the proof")
}

// A job whose effect the list does not show is asked for its result, and so are all if there is no list: nothing is
// taken for done that is not, and CloudStack's own words are passed on.
func TestJobsThatTheListDoesNotProve(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		fault simulator.Fault
		want  string // of the error; empty for none
	}{
		"members are refused":    {simulator.Fault{Command: "assignToLoadBalancerRule", Caller: "ccm", Kind: simulator.FaultJobFails, Count: 1}, "cloudstack assignToLoadBalancerRule: Failed to assign load balancer rule (code 530)"},
		"a rule is refused":      {simulator.Fault{Command: "createLoadBalancerRule", Caller: "ccm", Kind: simulator.FaultJobFails, Count: 1}, "cloudstack createLoadBalancerRule: "},
		"the list is refused":    {simulator.Fault{Command: "listLoadBalancerRules", Caller: "ccm", Kind: simulator.FaultErrorBefore, HTTPStatus: 431}, ""},
		"members, and no list":   {simulator.Fault{Command: "listLoadBalancerRules", Caller: "ccm", Kind: simulator.FaultErrorBefore, HTTPStatus: 431}, "cloudstack assignToLoadBalancerRule: Failed to assign load balancer rule (code 530)"},
		"tags of rules are late": {simulator.Fault{Command: "createTags", Caller: "ccm", Kind: simulator.FaultJobFails, Count: 1}, ""},
	} {
		parallel(t, name, func(t *testing.T) {
			env := newEnv(t)
			env.create("web", []int{80, 81, 82})
			var once sync.Once
			var stop []func()
			env.watch(func(command string) {
				if command == "createTags" { // of the address: what comes before it has an effect of its own
					once.Do(func() {
						stop = append(stop, env.Inject(tc.fault))
						if name == "members, and no list" {
							stop = append(stop, env.Inject(simulator.Fault{Command: "assignToLoadBalancerRule", Caller: "ccm", Kind: simulator.FaultJobFails, Count: 1}))
						}
					})
				}
			})
			err := env.sync("web")
			if tc.want != "" {
				require.ErrorContains(t, err, tc.want)
			} else {
				require.NoError(t, err)
			}
			for _, f := range stop {
				f()
			}
			env.mustSync("web")
			env.round(0)
			rules := grep(env.dump(), webLB)
			assert.Len(t, rules, 3)
			for _, rule := range rules {
				assert.Contains(t, rule, "[w1 w2]")
			}
			require.NoError(t, env.remove("web"))
			assert.Equal(t, env.before, env.dump())
		})
	}
}
