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

func isolated() *Network {
	return &Network{
		ID:           "net",
		Name:         "k8s-net",
		Type:         "Isolated",
		LoadBalancer: true,
		Public:       true,
		Firewall:     true,
		DNS:          true,
		Conserve:     true,
		TLS:          true,
		Providers:    []string{virtualRouter}, Protocols: []string{"tcp", "udp", "tcp-proxy", "ssl"},
	}
}

func member(node, vm string) Member {
	return Member{Node: node, VMID: vm, NICs: []NIC{{NetworkID: "net", NetworkName: "k8s-net", IP: "10.1.1.9"}}}
}

func aService(ports ...Port) Service {
	return Service{
		UID:       "01234567-89ab-cdef-0123-456789abcdef",
		Namespace: "default",
		Name:      "web",
		LB:        testLB,
		Ports:     ports,
	}
}

func tcp(port int) Port { return Port{Protocol: "TCP", Port: port, NodePort: 30000 + port} }

func openSpec() annotation.Spec {
	return annotation.Spec{SourceRanges: []string{annotation.Anyone}, Algorithm: annotation.RoundRobin}
}

func TestDesire(t *testing.T) {
	t.Parallel()
	members := []Member{member("b", "vm2"), member("a", "vm1"), member("a2", "vm1")}
	d, refusal := Desire(Facts{
		Service: aService(tcp(443), tcp(80)),
		Spec:    openSpec(),
		Members: members,
		Network: isolated(),
	})
	require.Nil(t, refusal)
	assert.Equal(t, desired([]int{80, 443}), d, "sorted, without repetitions")

	spec := openSpec()
	spec.ProxyProtocol, spec.Algorithm, spec.Address, spec.KeepIP = annotation.Ports{
		All: true,
	}, annotation.Source, "203.0.113.7", true
	d, refusal = Desire(Facts{Service: aService(tcp(80)), Spec: spec, Network: isolated()})
	require.Nil(t, refusal)
	assert.Equal(t, Desired{
		NetworkID:   "net",
		Firewall:    true,
		Address:     "203.0.113.7",
		KeepAddress: true,
		Ranges:      []string{annotation.Anyone},
		Rules: []Rule{
			{
				Name:        testLB + "-tcp-proxy-80",
				Protocol:    "tcp-proxy",
				Algorithm:   "source",
				PublicPort:  80,
				PrivatePort: 30080,
				CIDRs:       []string{annotation.Anyone},
			},
		},
	}, d)

	spec = openSpec()
	spec.SourceRanges = []string{}
	d, refusal = Desire(Facts{Service: aService(tcp(80)), Spec: spec, Network: isolated()})
	require.Nil(t, refusal)
	assert.Empty(t, d.Ranges)
	assert.Nil(t, d.Rules[0].CIDRs, "an empty list on a rule would let everybody in")
}

func TestDesireOnATier(t *testing.T) {
	t.Parallel()
	n, spec := aTier(), openSpec()
	spec.SourceRanges = []string{"10.0.0.0/8"}
	facts := Facts{Service: aService(tcp(80)), Spec: spec, Members: []Member{member("a", "vm1")}, Network: n}
	d, refusal := Desire(facts)
	require.Nil(t, refusal)
	assert.Equal(t, Desired{
		NetworkID: "net", VPCID: "vpc", CIDRsDecide: true, Ranges: []string{"10.0.0.0/8"}, Members: []string{"vm1"},
		Rules: []Rule{
			{
				Name:        testLB + "-tcp-80",
				Protocol:    "tcp",
				Algorithm:   "roundrobin",
				PublicPort:  80,
				PrivatePort: 30080,
				CIDRs:       []string{"10.0.0.0/8"},
			},
		},
	}, d)

	facts.Service.Ports = []Port{{Protocol: "UDP", Port: 53, NodePort: 30053}}
	d, _ = Desire(facts)
	assert.Equal(t, "acl", d.ACLID, "what is forwarded passes the tier's network ACL list")
	facts.LeaveACLs = true
	d, _ = Desire(facts)
	assert.Empty(t, d.ACLID)
	facts.Service = aService(tcp(80))

	facts.Spec.SourceRanges = nil
	d, _ = Desire(facts)
	assert.Empty(t, d.Members, "nobody is let in: there is no firewall that could be closed")
	assert.Nil(t, d.Rules[0].CIDRs)

	n.ACLName = defaultDeny
	assert.Nil(t, DefaultACL(d, n), "nobody is to be let in")
	d.Ranges = []string{"10.0.0.0/8"}
	assert.NotNil(t, DefaultACL(d, n))
	n.ACLName = defaultAllow
	assert.Nil(t, DefaultACL(d, n))
}

func TestServingNetwork(t *testing.T) {
	t.Parallel()
	in := func(node string, networks ...string) Member {
		m := Member{Node: node, VMID: "vm-" + node}
		for _, n := range networks {
			m.NICs = append(m.NICs, NIC{NetworkID: n, NetworkName: "name-" + n})
		}
		return m
	}

	for _, tc := range []struct {
		name            string
		members         []Member
		wanted, current string
		want            string
		reason          Reason
		says            string
	}{
		{"one", []Member{in("a", "n1"), in("b", "n1")}, "", "", "n1", "", ""},
		{"the common one", []Member{in("a", "n1", "n2"), in("b", "n3", "n2")}, "", "", "n2", "", ""},
		{"of several the default", []Member{in("a", "n2", "n1"), in("b", "n2", "n1")}, "", "", "n2", "", ""},
		{"of several the one that serves", []Member{in("a", "n2", "n1"), in("b", "n2", "n1")}, "", "n1", "n1", "", ""},
		{"two NICs of one VM in it", []Member{in("a", "n1", "n1"), in("b", "n1")}, "", "", "n1", "", ""},
		{"none in common", []Member{in("a", "n1"), in("b", "n2")}, "", "", "", ReasonSeveralNetworks,
			"name-n1 (a); name-n2 (b)"},
		{"none in common, one serves", []Member{in("a", "n1"), in("b", "n2"), in("c", "n3")}, "", "n2", "n2", "", ""},
		{"none in common, none serves any more", []Member{in("a", "n1"), in("b", "n2")}, "", "n3", "",
			ReasonSeveralNetworks, "name-n1 (a); name-n2 (b)"},
		{"the common one, not the one that serves some", []Member{in("a", "n1", "n2"), in("b", "n2")}, "", "n1", "n2",
			"", ""},
		{"wanted and not there, though one serves", []Member{in("a", "n1")}, "n9", "n1", "", ReasonNoSuchNetwork,
			"name-n1 (a)"},
		{"wanted by name", []Member{in("a", "n1"), in("b", "n2")}, "Name-n2", "", "n2", "", ""},
		{"wanted by id", []Member{in("a", "n1"), in("b", "n2")}, "n1", "", "n1", "", ""},
		{"wanted and not there", []Member{in("a", "n1")}, "n9", "", "", ReasonNoSuchNetwork, "name-n1 (a)"},
		{"nobody", nil, "", "n1", "", "", ""},
	} {
		id, refusal := ServingNetwork(tc.members, tc.wanted, tc.current)
		if tc.reason != "" {
			require.NotNil(t, refusal, tc.name)
			assert.Equal(t, tc.reason, refusal.Reason, tc.name)
			assert.Contains(t, refusal.Message, tc.says, tc.name)
			continue
		}
		require.Nil(t, refusal, tc.name)
		assert.Equal(t, tc.want, id, tc.name)
	}
}

func TestTagOwner(t *testing.T) {
	t.Parallel()
	svc := aService()
	assert.Equal(t, Owned, TagOwner(Tags("c1", svc), []string{"c1"}, svc))
	assert.Equal(t, OtherCluster, TagOwner(Tags("c2", svc), []string{"c1"}, svc),
		"a copy of the cluster has the same UIDs")
	assert.Equal(t, Owned, TagOwner(Tags("c2", svc), []string{"c1", "c2"}, svc), "the cluster's former id")
	assert.Equal(t, Owned, TagOwner(map[string]string{TagServiceUID: svc.UID}, []string{"c1"}, svc),
		"the exchange of the cluster's id was cut short")
	assert.Equal(t, Foreign, TagOwner(map[string]string{TagCluster: "c1"}, []string{"c1"}, svc), "the UID is missing")
	other := svc
	other.UID = "other"
	assert.Equal(t, Foreign, TagOwner(Tags("c1", other), []string{"c1"}, svc))
	assert.Equal(t, Unknown, TagOwner(map[string]string{"colour": "blue"}, []string{"c1"}, svc))
	assert.Equal(t, Unknown, TagOwner(nil, []string{"c1"}, svc))
}

func udp(port int) Port { return Port{Protocol: "UDP", Port: port, NodePort: 31000 + port} }

// forwarding returns an isolated network whose router forwards ports.
func forwarding() *Network {
	n := isolated()
	n.Forwards = true
	return n
}

// aTier returns a VPC tier with an ACL list of its own.
func aTier() *Network {
	n := forwarding()
	n.VPCID, n.Firewall, n.Providers, n.ACLID, n.ACLName = "vpc", false, []string{vpcVirtualRouter}, "acl", "mine"
	return n
}

func TestModesAndRefusals(t *testing.T) {
	t.Parallel()
	with := func(n *Network, change func(*Network)) *Network { change(n); return n }
	inner := func() *Network {
		return with(aTier(),
			func(n *Network) { n.Public, n.Internal, n.Providers = false, true, []string{"InternalLbVm"} })
	}

	lb := with(forwarding(),
		func(n *Network) { n.Providers, n.Protocols = []string{"Netscaler"}, []string{"tcp", "udp"} })
	internal := func(s *annotation.Spec) { s.Internal = true }
	restricted := func(s *annotation.Spec) { s.SourceRanges = []string{"10.0.0.0/8"} }
	proxied := func(s *annotation.Spec) { s.ProxyProtocol.All = true }
	tls := func(s *annotation.Spec) { s.SSLPorts.All = true }
	many := func(n int) func(*annotation.Spec) {
		return func(s *annotation.Spec) {
			s.SourceRanges = nil
			for i := range n {
				s.SourceRanges = append(s.SourceRanges, fmt.Sprintf("10.%d.0.0/17", i))
			}
		}
	}

	all := func(changes ...func(*annotation.Spec)) func(*annotation.Spec) {
		return func(s *annotation.Spec) {
			for _, c := range changes {
				c(s)
			}
		}
	}

	three := []Port{tcp(80), tcp(443), udp(443)}
	for name, tc := range map[string]struct {
		mode     string
		ports    []Port
		network  *Network
		spec     func(*annotation.Spec)
		without  string   // a command that the role does not allow
		forwards []string // forwarded ports; the other ports have rules
		reason   Reason
		says     string
	}{
		"auto: TCP": {annotation.Auto, []Port{tcp(80)}, forwarding(), nil, "", nil, "", ""},
		"auto: HTTP/3": {annotation.Auto, three, forwarding(), nil, "",
			[]string{"443/tcp", "443/udp"}, "", ""},
		"auto, unset":                     {"", three, aTier(), nil, "", []string{"443/tcp", "443/udp"}, "", ""},
		"auto: a provider that takes UDP": {annotation.Auto, []Port{tcp(80), udp(53)}, lb, nil, "", nil, "", ""},
		"auto: the same, TCP and UDP on one port": {annotation.Auto, three, lb, nil, "", nil,
			ReasonMixedProtocols, "TCP and UDP"},
		"auto: no forwarding in the network": {annotation.Auto, []Port{udp(53)}, isolated(), nil, "", nil,
			ReasonUnsupportedProto, "does not forward ports"},
		"auto: a role without": {annotation.Auto, []Port{udp(53)}, forwarding(), nil,
			"createX", nil, ReasonUnsupportedProto, "(createX)"},
		"auto: a role without, TCP only": {annotation.Auto, []Port{tcp(80)}, forwarding(), nil,
			"createX", nil, "", ""},
		"auto: internal": {annotation.Auto, []Port{udp(53)}, inner(), internal, "",
			nil, ReasonUnsupportedProto, "internal load balancer"},
		"auto: PROXY protocol beside": {annotation.Auto, three, forwarding(),
			func(s *annotation.Spec) { s.ProxyProtocol.Numbers = []int{80} }, "", []string{"443/tcp", "443/udp"}, "",
			""},
		"direct": {annotation.Direct, three, forwarding(), nil, "",
			[]string{"80/tcp", "443/tcp", "443/udp"}, "", ""},
		"direct: the router's statistics": {annotation.Direct, []Port{tcp(8081)}, forwarding(), nil,
			"", []string{"8081/tcp"}, "", ""},
		"direct: no load balancing": {annotation.Direct, []Port{tcp(80)},
			with(forwarding(), func(n *Network) { n.LoadBalancer, n.Providers = false, nil }), nil, "",
			[]string{"80/tcp"}, "", ""},
		"direct: no forwarding in the network": {annotation.Direct, []Port{tcp(80)}, isolated(), nil, "",
			nil, ReasonUnsupportedNetwork, "service PortForwarding"},
		"direct: a role without": {annotation.Direct, []Port{tcp(80)}, forwarding(), nil,
			"createX", nil, ReasonUnsupportedMode, "(createX)"},
		"direct: PROXY protocol": {annotation.Direct, []Port{tcp(80)}, forwarding(), proxied,
			"", nil, ReasonUnsupportedMode, annotation.ProxyProtocol},
		"direct: sessionAffinity": {annotation.Direct, []Port{tcp(80)}, forwarding(),
			func(s *annotation.Spec) { s.Algorithm = annotation.Source }, "", []string{"80/tcp"}, "", ""},
		"direct: internal": {annotation.Direct, []Port{tcp(80)}, aTier(), internal, "",
			nil, ReasonUnsupportedMode, "internal"},
		"direct: ranges without a firewall": {annotation.Direct, []Port{tcp(80)},
			with(forwarding(), func(n *Network) { n.Firewall = false }), restricted, "", nil, ReasonSourceRanges,
			"no firewall"},
		"direct: ranges on a tier": {annotation.Direct, []Port{tcp(80)}, aTier(), restricted,
			"", []string{"80/tcp"}, "", ""},
		"UDP where the provider does not": {"", []Port{udp(53)},
			with(isolated(), func(n *Network) { n.Providers = []string{"Other"}; n.Protocols = []string{"tcp"} }), nil,
			"", nil, ReasonUnsupportedProto, "Other does not balance"},
		"SCTP": {"", []Port{{Protocol: "SCTP", Port: 53, NodePort: 30053}},
			isolated(), nil, "", nil, ReasonUnsupportedProto, "SCTP"},
		"no ports": {"", nil, isolated(), nil, "", nil, ReasonInvalidPort,
			"no ports"},
		"port 0": {"", []Port{{Protocol: "TCP", NodePort: 30000}}, isolated(),
			nil, "", nil, ReasonInvalidPort, "outside 1-65535"},
		"that port on another provider": {"", []Port{tcp(8081)}, lb, nil, "", nil, "", ""},
		"shared network": {"", []Port{tcp(80)},
			with(isolated(), func(n *Network) { n.LoadBalancer, n.Type = false, "Shared" }), nil, "", nil,
			ReasonUnsupportedNetwork, "service Lb"},
		"no firewall: the rules filter": {"", []Port{tcp(80)},
			with(isolated(), func(n *Network) { n.Firewall = false }), restricted, "", nil, "", ""},
		"VPC tier": {"", []Port{tcp(80)}, aTier(), nil, "", nil, "", ""},
		"tier that balances internally only": {"", []Port{tcp(80)}, inner(), nil, "", nil,
			ReasonUnsupportedNetwork, "internally only"},
		"internal": {"", []Port{tcp(80)}, inner(), internal, "", nil, "", ""},
		"internal in a tier without": {"", []Port{tcp(80)}, aTier(), internal, "", nil,
			ReasonUnsupportedNetwork, "InternalLbVm"},
		"internal with PROXY protocol": {"", []Port{tcp(80)}, inner(), all(internal, proxied), "",
			nil, ReasonUnsupportedNetwork, "do not support the PROXY protocol"},
		"internal with source ranges": {"", []Port{tcp(80)}, inner(), all(internal, restricted),
			"", nil, "", ""},
		"internal with source ranges under a default list": {"", []Port{tcp(80)},
			with(inner(), func(n *Network) { n.ACLName = defaultAllow }), all(internal, restricted), "", nil,
			ReasonSourceRanges, "cannot be changed"},
		"as many source ranges as a rule takes": {"", []Port{tcp(80)}, isolated(),
			many(annotation.MaxSourceRanges), "", nil, "", ""},
		"internal with many source ranges": {"", []Port{tcp(80)}, inner(), all(internal, many(200)), "",
			nil, "", ""},
		"direct with many source ranges": {annotation.Direct, []Port{tcp(80)}, forwarding(),
			many(200), "", []string{"80/tcp"}, "", ""},
		"TLS": {"", []Port{tcp(443)}, isolated(), tls, "", nil, "", ""},
		"TLS before 4.22": {"", []Port{tcp(443)},
			with(isolated(), func(n *Network) { n.TLS = false }), tls, "", nil, ReasonUnsupportedNetwork,
			"SslTermination"},
		"PROXY protocol on a provider without": {"", []Port{tcp(443)}, lb, proxied, "", nil,
			ReasonUnsupportedNetwork, "without the PROXY protocol"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			spec := openSpec()
			spec.Mode = tc.mode
			if tc.spec != nil {
				tc.spec(&spec)
			}

			d, refusal := Desire(Facts{
				Service:    aService(tc.ports...),
				Spec:       spec,
				Network:    tc.network,
				Members:    []Member{member("a", "vm1")},
				NoForwards: tc.without,
			})

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

	v6 := aService(tcp(80))
	v6.IPv6Only = true
	require.NotNil(t, CheckService(v6, openSpec()))
}

// Ports are forwarded to eligible nodes. If no node is eligible, port forwardings stay unchanged. Members of rules do
// not change.
func TestIneligibleNodes(t *testing.T) {
	t.Parallel()
	members := []Member{member("a", "vm1"), member("b", "vm2")}
	desire := func(ineligible map[string]Problem) Desired {
		d, refusal := Desire(Facts{
			Service:    aService(tcp(80), udp(53)),
			Spec:       openSpec(),
			Network:    forwarding(),
			Members:    members,
			Ineligible: ineligible,
		})
		require.Nil(t, refusal)
		assert.Equal(t, []string{"vm1", "vm2"}, d.Members)
		return d
	}
	state := built(desire(map[string]Problem{"b": {Text: "not ready"}}))
	at := func() string { return state.Addresses[0].OwnForwards()[0].Member }
	require.Equal(t, "vm1", at())

	ineligible := map[string]Problem{"a": {Text: "not ready"}}
	steps := planOf(desire(ineligible), state, Limits{})
	require.Equal(t, []string{"update-forward 53"}, lines(steps))
	state = run(state, steps)
	assert.Equal(t, "vm2", at())
	moves := Moves(steps, &Subject{Facts: Facts{Members: members, Ineligible: ineligible}, Desired: desire(ineligible)})
	require.Len(t, moves, 1)
	assert.Equal(t, "moved port 53/udp from node a to b: not ready", moves[0].Message)

	none := map[string]Problem{"a": {Text: "not ready"}, "b": {Text: "no ready endpoint"}}
	assert.Empty(t, planOf(desire(none), state, Limits{}))
	assert.Contains(t, NoneEligible(Facts{Members: members, Ineligible: none}, desire(none)).Message,
		"a (not ready), b (no ready endpoint)")
	assert.Nil(t, NoneEligible(Facts{Members: members, Ineligible: ineligible}, desire(ineligible)))
	assert.Empty(t, planOf(desire(nil), state, Limits{}), "the node that returns gets nothing back")

	members = nil
	d, _ := Desire(Facts{Service: aService(udp(53)), Spec: openSpec(), Network: forwarding()})
	assert.Contains(t, fmt.Sprint(lines(planOf(d, state, Limits{}))), "delete-forward 53",
		"with no node left it leads nowhere")
}
