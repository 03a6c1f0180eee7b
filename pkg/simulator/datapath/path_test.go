// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/csccm/csccm/pkg/simulator"
)

func TestForward(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t, Options{})
	got := map[string]int{}
	for range 6 {
		name, err := b.visit(web, me)
		require.NoError(t, err)
		got[name]++
	}
	require.Equal(t, map[string]int{"one": 3, "two": 3}, got)
	b.eventually("the connections end", func() bool { return b.at(web).Active == 0 })
	s := b.at(web)
	require.Equal(t, web, s.Public)
	// port 443, or a free port if that needs root
	require.True(t, strings.HasPrefix(s.Listen, "127.64.113.20:"), s.Listen)
	require.EqualValues(t, 6, s.Connections)
	require.EqualValues(t, 6*4, s.BytesOut)
	require.EqualValues(t, 3, s.Members[0].Connections)
	require.Equal(t, b.to["10.1.1.21:30443"], s.Members[0].Dial)

	one := b.connect(web, me)
	one.write("hello\n")
	require.NoError(t, one.Conn.(*net.TCPConn).CloseWrite(), "one direction may be closed before the other")
	all, err := io.ReadAll(one.in)
	require.NoError(t, err)
	require.Contains(t, string(all), "hello\n")
}

func TestFirewallAndSourceRanges(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t, Options{})
	ip := b.id("publicipaddress", "listPublicIpAddresses", "ipaddress", "203.0.113.20")
	b.api(true, "deleteFirewallRule", "id", firewall(b, 443))
	b.eventually("all clients are refused", func() bool { _, err := b.visit(web, me); return err != nil })
	b.api(true, "createFirewallRule", "ipaddressid", ip, "protocol", "tcp", "startport", "440", "endport", "450",
		"cidrlist", "127.0.0.2/31")
	b.eventually("clients in the range are accepted",
		func() bool { _, err := b.visit(web, "127.0.0.2"); return err == nil })
	_, err := b.visit(web, me)
	require.Error(t, err)

	b.api(true, "updateLoadBalancerRule", "id", b.rule("443"), "algorithm", "roundrobin", "protocol", "tcp", "cidrlist",
		"127.0.0.3/32")
	b.eventually("the CIDR list of the rule applies",
		func() bool { _, err := b.visit(web, "127.0.0.2"); return err != nil })
	_, err = b.visit(web, "127.0.0.3")
	require.NoError(t, err)
	s := b.at(web)
	require.Positive(t, s.RefusedByFirewall)
	require.EqualValues(t, 1, s.RefusedBySourceRanges)
}

func TestProxyHeader(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t, Options{})
	first := make(chan string, 1)
	for _, member := range []string{"10.1.1.21:30443", "10.1.1.22:30443"} {
		b.script(member, func(c net.Conn) {
			line, _ := bufio.NewReader(c).ReadString('\n')
			first <- line
		})
	}
	b.api(true, "updateLoadBalancerRule", "id", b.rule("443"), "algorithm", "roundrobin", "protocol", "tcp-proxy")
	b.inForce(b.rule("443"), func(l Listener) bool { return l.ProxyHeader })
	c := b.connect(web, "127.0.0.9")
	require.Equal(t, fmt.Sprintf("PROXY TCP4 127.0.0.9 203.0.113.20 %d 443\r\n", c.LocalAddr().(*net.TCPAddr).Port),
		<-first)
}

// TestRuleChangesKeepConnections changes and deletes a rule that has a connection.
func TestRuleChangesKeepConnections(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t, Options{})
	s := b.connect(web, me)
	name, err := s.line()
	require.NoError(t, err)
	alive := func(after string) {
		t.Helper()
		s.write(after + "\n")
		got, err := s.line()
		require.NoError(t, err, after)
		require.Equal(t, after, got)
	}

	id, worker := b.rule("443"), map[string]string{"one": "demo-worker-1", "two": "demo-worker-2"}[name]
	socket := func() net.Listener {
		b.path.mu.Lock()
		defer b.path.mu.Unlock()
		return b.path.rules[id].listener
	}

	at := socket()
	b.api(true, "updateLoadBalancerRule", "id", id, "name", "renamed", "algorithm", "leastconn", "protocol", "tcp")
	b.eventually("renamed", func() bool { return b.at(web).Name == "renamed" })
	alive("a new name and algorithm")
	b.api(true, "removeFromLoadBalancerRule", "id", id, "virtualmachineids", b.vm(worker))
	b.eventually("one member", func() bool { return len(b.at(web).Members) == 1 })
	alive("its member has gone")
	for range 4 {
		other, err := b.visit(web, me)
		require.NoError(t, err)
		require.NotEqual(t, name, other)
	}

	require.Same(t, at, socket(), "clients lose no connection that is not accepted yet")
	b.remove(id)
	alive("the rule has gone")
}

// TestPendingAndFailedJobsChangeNothing checks that routers keep their configuration while a job is pending and after
// it fails.
func TestPendingAndFailedJobsChangeNothing(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t, Options{})
	calls := map[string][]string{
		"deleteLoadBalancerRule": {"id", b.rule("443")},
		"removeFromLoadBalancerRule": {"id", b.rule("443"), "virtualmachineids",
			b.vm("demo-worker-1") + "," + b.vm("demo-worker-2")},
		"updateLoadBalancerRule": {"id", b.rule("443"), "algorithm", "roundrobin", "protocol", "tcp", "cidrlist",
			"192.0.2.0/24"},
		"deleteFirewallRule": {"id", firewall(b, 443)},
		"disassociateIpAddress": {"id",
			b.id("publicipaddress", "listPublicIpAddresses", "ipaddress", "203.0.113.20")},
	}

	for _, kind := range []string{"job-fails", "router-refuses", "job-never-ends"} {
		for command, args := range calls {
			b.arm(command + ":" + kind)
			job := b.call(command, args...)["jobid"].(string)
			b.call("queryAsyncJobResult", "jobid", job)
			b.path.apply(b.sim.Router())
			_, err := b.visit(web, me)
			require.NoError(t, err, "%s %s", command, kind)
		}
	}

	// A pending member is not in the configuration before its job ends.
	b.arm("assignToLoadBalancerRule:job-never-ends")
	b.call("assignToLoadBalancerRule", "id", b.rule("80"), "virtualmachineids", b.vm("demo-cp-1"))
	b.path.apply(b.sim.Router())
	for _, r := range b.path.Status().Rules {
		require.Len(t, r.Members, 2)
	}
}

// TestCompletedJobsTakeEffect checks that a completed job takes effect on the router without another call.
func TestCompletedJobsTakeEffect(t *testing.T) {
	t.Parallel()
	now := clocktesting.NewFakeClock(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	profile, err := simulator.Profile("instant")
	require.NoError(t, err)
	profile.Job = time.Second
	b := newTestEnvOf(t, Options{Clock: now},
		simulator.Options{World: simulator.ExampleWorld(), Clock: now, Latency: profile})
	require.Len(t, b.path.Status().Rules, 2)
	b.call("deleteLoadBalancerRule", "id", b.rule("443"))
	require.Len(t, b.path.Status().Rules, 2, "the job is still running")
	b.eventually("the job takes effect", func() bool {
		now.Step(300 * time.Millisecond)
		return len(b.path.Status().Rules) == 1
	})
}

func TestDeadMember(t *testing.T) {
	t.Parallel()
	now := clocktesting.NewFakeClock(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	b := newTestEnv(t, Options{Clock: now})
	member := func(i int) MemberStatus { return b.at(web).Members[i] }
	up := func(i int) bool { return member(i).Up }
	require.True(t, up(0) && member(0).Check == "", "a new member is up until its first check")
	b.path.check()
	require.True(t, up(0) && member(0).Check == "ok")

	gone := b.to["10.1.1.21:30443"]
	b.to["10.1.1.21:30443"] = b.refusing()
	require.NoError(t, b.path.o.Members.Set(b.to))
	for range 4 { // after some time, a client that is sent to the dead member is sent to another one
		result := make(chan string, 1)
		go func() { name, _ := b.visit(web, me); result <- name }()
		b.eventually("an answer", func() bool {
			select {
			case name := <-result:
				require.Equal(t, "two", name)
				return true
			default:
				if now.Waiters() > 1 { // in addition to the ticker of the checks: the client's pause between attempts
					now.Step(turnAround)
				}
				return false
			}
		})
	}
	b.eventually("the checks mark the member as down", func() bool { now.Step(never); return !up(0) })
	failed := b.at(web).Members[0].Failed
	require.Positive(t, failed)
	for range 4 {
		name, err := b.visit(web, me)
		require.NoError(t, err)
		require.Equal(t, "two", name)
	}
	require.Equal(t, failed, b.at(web).Members[0].Failed, "no client is sent to the member")
	b.to["10.1.1.21:30443"] = gone
	require.NoError(t, b.path.o.Members.Set(b.to))
	b.eventually("the checks mark the member as up", func() bool { now.Step(never); return up(0) })
}

// TestStoppedVM checks that the connections of a stopped VM are closed and that it gets no new ones.
func TestStoppedVM(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t, Options{})
	var s *session
	for name := ""; name != "one"; {
		s = b.connect(web, me)
		var err error
		name, err = s.line()
		require.NoError(t, err)
	}

	b.api(true, "stopVirtualMachine", "id", b.vm("demo-worker-1"))
	_, err := s.line()
	require.Error(t, err)
	b.path.check()
	require.False(t, b.at(web).Members[0].Up)
	name, err := b.visit(web, me)
	require.NoError(t, err)
	require.Equal(t, "two", name)
	b.api(true, "stopVirtualMachine", "id", b.vm("demo-worker-2"))
	b.eventually("no member answers", func() bool {
		b.path.check()
		_, err := b.visit(web, me)
		return err != nil && b.at(web).NoMember > 0
	})
}

func TestParseMembers(t *testing.T) {
	t.Parallel()
	for from, at := range map[string]string{"10.1.1.1": "host", "10.1.1.1:80": "127.0.0.1", "x": "127.0.0.1"} {
		_, err := ParseMembers(map[string]string{from: at})
		require.ErrorContains(t, err, "give two addresses")
	}
	m, err := ParseMembers(map[string]string{"10.1.1.1": "127.0.1.1"})
	require.NoError(t, err)
	require.Equal(t, "127.0.1.1:30080", m.dialAddress(addr(1)))
	require.Equal(t, addr(2).String(), m.dialAddress(addr(2)))
}

// TestAliases checks that an address always has the same alias and that aliases are unique.
func TestAliases(t *testing.T) {
	t.Parallel()
	p, err := newLocalAddresses(Loopback, "")
	require.NoError(t, err)
	seen := map[string]bool{}
	for _, a := range []string{"203.0.113.20", "198.0.113.20", "203.64.113.20", "203.128.113.20"} {
		at := p.localAddress(netip.MustParseAddr(a))
		require.Equal(t, at, p.localAddress(netip.MustParseAddr(a)))
		require.True(t, at.IsLoopback())
		seen[at.String()] = true
	}
	require.Len(t, seen, 4)
	require.True(t, seen["127.64.113.20"])
}
