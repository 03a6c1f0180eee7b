// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"fmt"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	testclock "k8s.io/utils/clock/testing"

	"github.com/csccm/csccm/pkg/simulator"
)

func TestForwardFor(t *testing.T) {
	t.Parallel()
	lower := forward(func(f *simulator.RouterForward) { f.Sources, f.ByACL = cidrs("0.0.0.0/1"), true })
	upper := forward(func(f *simulator.RouterForward) {
		f.Sources, f.ByACL, f.Guest = cidrs("128.0.0.0/1"), true, netip.MustParseAddr("10.1.1.22")
	})
	ranged := forward(func(f *simulator.RouterForward) { f.Port, f.EndPort, f.PrivatePort = 50, 60, 50 })
	filtered := func(f simulator.RouterForward, from, to int) simulator.RouterForward {
		f.Filtered, f.Filter = true, []simulator.RouterFilter{
			{Allow: true, Sources: cidrs("10.0.0.0/8"), From: from, To: to},
		}
		return f
	}

	for name, c := range map[string]struct {
		forwards []simulator.RouterForward
		client   string
		want     string
		verdict  verdict
	}{
		"no forward": {nil, "10.9.9.9", "", bySourceRange},
		"the lower half of the sources": {[]simulator.RouterForward{lower, upper}, "10.9.9.9", "10.1.1.21:30053",
			admitted},
		"the upper half": {[]simulator.RouterForward{lower, upper}, "192.0.2.1", "10.1.1.22:30053",
			admitted},
		"neither": {[]simulator.RouterForward{lower}, "192.0.2.1", "", bySourceRange},
		"a range": {[]simulator.RouterForward{ranged}, "10.9.9.9", "10.1.1.21:53",
			admitted},
		"a firewall, allowed": {[]simulator.RouterForward{filtered(forward(nil), 53, 53)}, "10.9.9.9",
			"10.1.1.21:30053", admitted},
		"a firewall, another source": {[]simulator.RouterForward{filtered(forward(nil), 53, 53)}, "192.0.2.1",
			"", byFirewall},
		"a firewall of another port": {[]simulator.RouterForward{filtered(forward(nil), 54, 99)}, "10.9.9.9",
			"", byFirewall},
		"an ACL has the private port": {[]simulator.RouterForward{filtered(lower, 30053, 30053)}, "10.9.9.9",
			"10.1.1.21:30053", admitted},
		"an ACL of the public port": {[]simulator.RouterForward{filtered(lower, 53, 53)}, "10.9.9.9", "",
			byFirewall},
		"the first decides, also if it drops": {[]simulator.RouterForward{filtered(forward(nil), 1, 1), forward(nil)},
			"10.9.9.9", "", byFirewall},
	} {
		to, _, v := forwardFor(c.forwards, netip.MustParseAddr(c.client), 53)
		require.Equal(t, c.verdict, v, name)
		if v == admitted {
			require.Equal(t, c.want, to.String(), name)
		}
	}
}

// udpBackend answers datagrams with its name and the datagram.
func (b *testEnv) udpBackend(member, name string) {
	b.t.Helper()
	c, err := net.ListenPacket("udp4", "127.0.0.1:0")
	require.NoError(b.t, err)
	b.t.Cleanup(func() { _ = c.Close() })
	b.to[member] = c.LocalAddr().String()
	require.NoError(b.t, b.path.o.Members.Set(b.to))
	go func() {
		buffer := make([]byte, maxDatagram)
		for {
			n, from, err := c.ReadFrom(buffer)
			if err != nil {
				return
			}
			_, _ = c.WriteTo(fmt.Appendf(nil, "%s %s", name, buffer[:n]), from)
		}
	}()
}

// udpClient returns a client of a relayed port.
func (b *testEnv) udpClient(public string) func(string) string {
	b.t.Helper()
	at, ok := b.path.Listen(public)
	require.True(b.t, ok, public)
	c, err := net.Dial("udp4", at)
	require.NoError(b.t, err)
	b.t.Cleanup(func() { _ = c.Close() })
	return func(text string) string {
		_, err := c.Write([]byte(text))
		require.NoError(b.t, err)
		require.NoError(b.t, c.SetReadDeadline(time.Now().Add(patience)))
		buffer := make([]byte, maxDatagram)
		n, err := c.Read(buffer)
		require.NoError(b.t, err)
		return string(buffer[:n])
	}
}

func (b *testEnv) forwardOf(id string) ForwardStatus {
	for _, f := range b.path.Status().Forwards {
		if f.ID == id {
			return f
		}
	}
	return ForwardStatus{}
}

// TestRelay: UDP and TCP reach the VM. If the rule changes, a tracked flow keeps its VM until it pauses.
func TestRelay(t *testing.T) {
	t.Parallel()
	clock := testclock.NewFakeClock(time.Now())
	b := newTestEnv(t, Options{Clock: clock})
	b.udpBackend("10.1.1.21:30053", "one")
	b.udpBackend("10.1.1.22:30053", "two")
	b.backend("10.1.1.21:30054", "one")
	ip := b.id("publicipaddress", "listPublicIpAddresses", "ipaddress", "203.0.113.20")
	create := func(protocol string, private string) string {
		return b.api(true, "createPortForwardingRule", "ipaddressid", ip, "protocol", protocol, "publicport", "53",
			"privateport", private,
			"virtualmachineid", b.vm("demo-worker-1"), "openfirewall", "false")["id"].(string)
	}
	udp, tcp := create("udp", "30053"), create("tcp", "30054")
	b.eventually("both relays are open",
		func() bool { return b.forwardOf(udp).Listen != "" && b.forwardOf(tcp).Listen != "" })
	_, err := b.visit("203.0.113.20:53/tcp", me)
	require.Error(t, err, "the firewall is closed")
	// If TCP passes, UDP does, too. A refused datagram would be lost without an error.
	for _, protocol := range []string{"udp", "tcp"} {
		b.api(true, "createFirewallRule", "ipaddressid", ip, "protocol", protocol, "startport", "53", "cidrlist",
			"127.0.0.0/8")
	}
	b.eventually("the firewall is open", func() bool {
		got, _ := b.visit("203.0.113.20:53/tcp", me)
		return got == "one"
	})
	require.Positive(t, b.forwardOf(tcp).RefusedByFirewall)

	old := b.udpClient("203.0.113.20:53/udp")
	require.Equal(t, "one a", old("a"))
	b.api(true, "updatePortForwardingRule", "id", udp, "virtualmachineid", b.vm("demo-worker-2"))
	b.eventually("the change is in force", func() bool { return b.forwardOf(udp).VM == "demo-worker-2" })
	require.Equal(t, "one b", old("b"))
	require.Equal(t, "two c", b.udpClient("203.0.113.20:53/udp")("c"))
	clock.Step(replied)
	require.Equal(t, "two d", old("d"))
	require.EqualValues(t, 3, b.forwardOf(udp).Flows)

	b.api(true, "deletePortForwardingRule", "id", udp)
	b.eventually("the relay is closed", func() bool {
		_, open := b.path.Listen("203.0.113.20:53/udp")
		return !open
	})
}
