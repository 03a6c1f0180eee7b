// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/csccm/csccm/pkg/annotation"
)

func udp(port int) Port { return Port{Protocol: "UDP", Port: port, NodePort: 31000 + port} }

// forwarding is an isolated network whose router forwards ports; aTier a tier with an ACL list of its own.
func forwarding() *Network {
	n := isolated()
	n.Forwards = true
	return n
}

func aTier() *Network {
	n := forwarding()
	n.VPCID, n.Firewall, n.Providers, n.ACLID, n.ACLName = "vpc", false, []string{vpcVirtualRouter}, "acl", "mine"
	return n
}

func TestModes(t *testing.T) {
	t.Parallel()
	with := func(n *Network, change func(*Network)) *Network { change(n); return n }
	elsewhere := with(forwarding(), func(n *Network) { n.Providers = []string{"Netscaler"} })
	restricted := func(s *annotation.Spec) { s.SourceRanges = []string{"10.0.0.0/8"} }
	three := []Port{tcp(80), tcp(443), udp(443)}
	for name, tc := range map[string]struct {
		mode     string
		ports    []Port
		network  *Network
		spec     func(*annotation.Spec)
		without  string   // a command that the role does not allow
		forwards []string // the others are rules
		reason   Reason
		says     string
	}{
		"auto: TCP":                       {annotation.Auto, []Port{tcp(80)}, forwarding(), nil, "", nil, "", ""},
		"auto: HTTP/3":                    {annotation.Auto, three, forwarding(), nil, "", []string{"443/tcp", "443/udp"}, "", ""},
		"auto, unset":                     {"", three, aTier(), nil, "", []string{"443/tcp", "443/udp"}, "", ""},
		"auto: a provider that takes UDP": {annotation.Auto, []Port{tcp(80), udp(53)}, elsewhere, nil, "", nil, "", ""},
		"auto: the same, TCP and UDP on one port":  {annotation.Auto, three, elsewhere, nil, "", nil, ReasonMixedProtocols, "TCP and UDP"},
		"auto: no forwarding in the network":       {annotation.Auto, []Port{udp(53)}, isolated(), nil, "", nil, ReasonUnsupportedProto, "does not forward ports"},
		"auto: a role without":                     {annotation.Auto, []Port{udp(53)}, forwarding(), nil, "createX", nil, ReasonUnsupportedProto, "(createX)"},
		"auto: a role without, TCP only":           {annotation.Auto, []Port{tcp(80)}, forwarding(), nil, "createX", nil, "", ""},
		"auto: internal":                           {annotation.Auto, []Port{udp(53)}, aTier(), func(s *annotation.Spec) { s.Internal = true }, "", nil, ReasonUnsupportedProto, "internal load balancer"},
		"auto: PROXY protocol where there is none": {annotation.Auto, three, forwarding(), func(s *annotation.Spec) { s.ProxyProtocol.All = true }, "", nil, ReasonUnsupportedMode, "port 443 is TCP and UDP"},
		"auto: PROXY protocol beside":              {annotation.Auto, three, forwarding(), func(s *annotation.Spec) { s.ProxyProtocol.Numbers = []int{80} }, "", []string{"443/tcp", "443/udp"}, "", ""},
		"proxy: UDP":                               {annotation.Proxy, []Port{udp(53)}, forwarding(), nil, "", nil, ReasonUnsupportedProto, "set the annotation " + annotation.Mode},
		"proxy: TCP and UDP on one port":           {annotation.Proxy, three, forwarding(), nil, "", nil, ReasonMixedProtocols, "set the annotation " + annotation.Mode},
		"direct":                                   {annotation.Direct, three, forwarding(), nil, "", []string{"80/tcp", "443/tcp", "443/udp"}, "", ""},
		"direct: the router's statistics":          {annotation.Direct, []Port{tcp(8081)}, forwarding(), nil, "", []string{"8081/tcp"}, "", ""},
		"direct: no load balancing":                {annotation.Direct, []Port{tcp(80)}, with(forwarding(), func(n *Network) { n.LoadBalancer, n.Providers = false, nil }), nil, "", []string{"80/tcp"}, "", ""},
		"direct: SCTP":                             {annotation.Direct, []Port{{Protocol: "SCTP", Port: 53, NodePort: 30053}}, forwarding(), nil, "", nil, ReasonUnsupportedProto, "SCTP"},
		"direct: no forwarding in the network":     {annotation.Direct, []Port{tcp(80)}, isolated(), nil, "", nil, ReasonUnsupportedNetwork, "service PortForwarding"},
		"direct: a role without":                   {annotation.Direct, []Port{tcp(80)}, forwarding(), nil, "createX", nil, ReasonUnsupportedMode, "(createX)"},
		"direct: PROXY protocol":                   {annotation.Direct, []Port{tcp(80)}, forwarding(), func(s *annotation.Spec) { s.ProxyProtocol.All = true }, "", nil, ReasonUnsupportedMode, "PROXY"},
		"direct: TLS":                              {annotation.Direct, []Port{tcp(80)}, forwarding(), func(s *annotation.Spec) { s.SSLPorts.All = true }, "", nil, ReasonUnsupportedMode, "TLS"},
		"direct: stickiness":                       {annotation.Direct, []Port{tcp(80)}, forwarding(), func(s *annotation.Spec) { s.Stickiness = &annotation.Stickiness{} }, "", nil, ReasonUnsupportedMode, "stickiness"},
		"direct: algorithm":                        {annotation.Direct, []Port{tcp(80)}, forwarding(), func(s *annotation.Spec) { s.AlgorithmSet = true }, "", nil, ReasonUnsupportedMode, "algorithm"},
		"direct: sessionAffinity":                  {annotation.Direct, []Port{tcp(80)}, forwarding(), func(s *annotation.Spec) { s.Algorithm = annotation.Source }, "", []string{"80/tcp"}, "", ""},
		"direct: internal":                         {annotation.Direct, []Port{tcp(80)}, aTier(), func(s *annotation.Spec) { s.Internal = true }, "", nil, ReasonUnsupportedMode, "internal"},
		"direct: ranges without a firewall":        {annotation.Direct, []Port{tcp(80)}, with(forwarding(), func(n *Network) { n.Firewall = false }), restricted, "", nil, ReasonSourceRanges, "no firewall"},
		"direct: ranges on a tier":                 {annotation.Direct, []Port{tcp(80)}, aTier(), restricted, "", []string{"80/tcp"}, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			spec := openSpec()
			spec.Mode = tc.mode
			if tc.spec != nil {
				tc.spec(&spec)
			}
			d, refusal := Desire(Facts{Service: aService(tc.ports...), Spec: spec, Network: tc.network, Members: []Member{member("a", "vm1")}, NoForwards: tc.without})
			if tc.reason != "" {
				require.NotNil(t, refusal)
				assert.Equal(t, tc.reason, refusal.Reason)
				assert.Contains(t, refusal.Error(), tc.says)
				assert.NotEmpty(t, refusal.Remedy)
				return
			}
			require.Nil(t, refusal)
			var got []string
			for _, f := range d.Forwards {
				got = append(got, portText(f.Protocol, f.PublicPort))
			}
			assert.Equal(t, tc.forwards, got)
			assert.Len(t, d.Rules, len(tc.ports)-len(got))
			assert.Equal(t, len(got) > 0, len(d.Serving) > 0)
			assert.Equal(t, len(got) > 0 && tc.network.VPCID != "", d.Buckets == annotation.DefaultSpread)
		})
	}
}

// Ports are led to fit nodes, and stay where they are when there is none. Members of rules are not concerned.
func TestUnfitNodes(t *testing.T) {
	t.Parallel()
	members := []Member{member("a", "vm1"), member("b", "vm2")}
	desire := func(unfit map[string]string) Desired {
		d, refusal := Desire(Facts{Service: aService(tcp(80), udp(53)), Spec: openSpec(), Network: forwarding(), Members: members, Unfit: unfit})
		require.Nil(t, refusal)
		assert.Equal(t, []string{"vm1", "vm2"}, d.Members)
		return d
	}
	state := built(desire(map[string]string{"b": "not ready"}))
	at := func() string { return state.Addresses[0].OwnForwards()[0].Member }
	require.Equal(t, "vm1", at())

	unfit := map[string]string{"a": "not ready"}
	steps := planOf(desire(unfit), state, Limits{})
	require.Equal(t, []string{"update-forward 53"}, lines(steps))
	state = run(state, steps)
	assert.Equal(t, "vm2", at())
	moves := Moves([]UpdateForward{steps[0].Action.(UpdateForward)}, &Subject{Members: members, Unfit: unfit, Desired: desire(unfit)})
	require.Len(t, moves, 1)
	assert.Equal(t, "moved port 53/udp from node a to b: not ready", moves[0].Message)

	none := map[string]string{"a": "not ready", "b": "no ready endpoint"}
	assert.Empty(t, planOf(desire(none), state, Limits{}))
	assert.Contains(t, NobodyFit(desire(none), members, none).Message, "a (not ready), b (no ready endpoint)")
	assert.Nil(t, NobodyFit(desire(unfit), members, unfit))
	assert.Empty(t, planOf(desire(nil), state, Limits{}), "the node that returns gets nothing back")

	members = nil
	d, _ := Desire(Facts{Service: aService(udp(53)), Spec: openSpec(), Network: forwarding()})
	assert.Contains(t, fmt.Sprint(lines(planOf(d, state, Limits{}))), "delete-forward 53", "with no node left it leads nowhere")
}
