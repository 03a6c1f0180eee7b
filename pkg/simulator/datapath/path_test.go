// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/csccm/csccm/pkg/simulator"
)

// bed is the example world with a backend for each of its workers.
type bed struct {
	t     *testing.T
	sim   *simulator.Simulator
	path  *Path
	to    map[string]string
	admin string
}

const (
	patience = 10 * time.Second
	web      = "203.0.113.20:80" // of the example world, forwards to 30080
)

func newBed(t *testing.T, o Options) *bed {
	t.Helper()
	b := &bed{t: t, to: map[string]string{}}
	var err error
	b.sim, err = simulator.New(simulator.Options{World: simulator.ExampleWorld()})
	require.NoError(t, err)
	srv := httptest.NewServer(b.sim.IntegrationHandler())
	t.Cleanup(srv.Close)
	b.admin = srv.URL + "/client/api"
	b.backend("10.1.1.21:30080", "one")
	b.backend("10.1.1.22:30080", "two")
	o.Members, err = ParseMembers(b.to)
	require.NoError(t, err)
	if o.Mode == "" {
		o.Mode = Loopback
	}
	b.path, err = Start(t.Context(), b.sim, o)
	require.NoError(t, err)
	t.Cleanup(b.path.Close)
	return b
}

// backend greets with its name and then sends lines back. It plays a member.
func (b *bed) backend(member, name string) net.Listener {
	b.t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(b.t, err)
	b.t.Cleanup(func() { _ = l.Close() })
	b.to[member] = l.Addr().String()
	go greet(l, name)
	return l
}

func greet(l net.Listener, name string) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
			defer func() { _ = c.Close() }()
			_, _ = fmt.Fprintln(c, name)
			_, _ = io.Copy(c, c)
		}()
	}
}

// api runs a command and its job, which is to end as done says.
func (b *bed) api(done bool, command string, pairs ...string) map[string]any {
	b.t.Helper()
	ans := b.call(command, pairs...)
	job, ok := ans["jobid"].(string)
	if !ok {
		return ans
	}
	res := b.call("queryAsyncJobResult", "jobid", job)
	require.Equal(b.t, map[bool]string{true: "1", false: "2"}[done], fmt.Sprint(res["jobstatus"]), "%s: %v", command, res)
	return ans
}

func (b *bed) call(command string, pairs ...string) map[string]any {
	b.t.Helper()
	q := url.Values{"command": {command}, "response": {"json"}}
	for i := 0; i < len(pairs); i += 2 {
		q.Set(pairs[i], pairs[i+1])
	}
	resp, err := http.Get(b.admin + "?" + q.Encode())
	require.NoError(b.t, err)
	defer func() { _ = resp.Body.Close() }()
	var outer map[string]map[string]any
	require.NoError(b.t, json.NewDecoder(resp.Body).Decode(&outer))
	for _, v := range outer {
		require.NotContains(b.t, v, "errortext", command)
		return v
	}
	b.t.Fatalf("%s: an empty answer", command)
	return nil
}

// id is the id of the first object of a list.
func (b *bed) id(kind, command string, pairs ...string) string {
	b.t.Helper()
	list, _ := b.call(command, append(pairs, "listall", "true")...)[kind].([]any)
	require.NotEmpty(b.t, list, "%s %v", command, pairs)
	return list[0].(map[string]any)["id"].(string)
}

func (b *bed) rule(port string) string {
	return b.id("loadbalancerrule", "listLoadBalancerRules", "keyword", "-"+port)
}

func (b *bed) vm(name string) string {
	return b.id("virtualmachine", "listVirtualMachines", "name", name)
}

// session is a client's connection.
type session struct {
	net.Conn
	in *bufio.Reader
}

func (s *session) line() (string, error) {
	_ = s.SetDeadline(time.Now().Add(patience))
	line, err := s.in.ReadString('\n')
	return strings.TrimSpace(line), err
}

// open connects from a loopback address.
func (b *bed) open(public, from string) (*session, error) {
	at, ok := b.path.Listen(public)
	if !ok {
		return nil, fmt.Errorf("no rule at %s", public)
	}
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}, Timeout: patience}
	c, err := d.DialContext(b.t.Context(), "tcp", at)
	if err != nil {
		return nil, err
	}
	return &session{c, bufio.NewReader(c)}, nil
}

// visit returns the greeting, or the error of a connection that is not let in.
func (b *bed) visit(public, from string) (string, error) {
	s, err := b.open(public, from)
	if err != nil {
		return "", err
	}
	defer func() { _ = s.Close() }()
	return s.line()
}

func (b *bed) eventually(what string, ok func() bool) {
	b.t.Helper()
	require.Eventually(b.t, ok, patience, 2*time.Millisecond, what)
}

const me = "127.0.0.1"

func TestForward(t *testing.T) {
	t.Parallel()
	b := newBed(t, Options{})
	got := map[string]int{}
	for range 6 {
		name, err := b.visit(web, me)
		require.NoError(t, err)
		got[name]++
	}
	require.Equal(t, map[string]int{"one": 3, "two": 3}, got)
	b.eventually("the connections end", func() bool { return b.path.Status().Rules[0].Active == 0 })
	s := b.path.Status().Rules[0]
	require.Equal(t, web, s.Public)
	require.True(t, strings.HasPrefix(s.Listen, "127.64.113.20:"), s.Listen) // port 80, or any other where that needs root
	require.EqualValues(t, 6, s.Connections)
	require.EqualValues(t, 6*4, s.BytesOut)
	require.EqualValues(t, 3, s.Members[0].Connections)
	require.Equal(t, b.to["10.1.1.21:30080"], s.Members[0].Dial)

	one, err := b.open(web, me)
	require.NoError(t, err)
	_, err = fmt.Fprintln(one, "hello")
	require.NoError(t, err)
	require.NoError(t, one.Conn.(*net.TCPConn).CloseWrite(), "one half may end before the other")
	all, err := io.ReadAll(one.in)
	require.NoError(t, err)
	require.Contains(t, string(all), "hello\n")
}

func TestFirewallAndSourceRanges(t *testing.T) {
	t.Parallel()
	b := newBed(t, Options{})
	ip := b.id("publicipaddress", "listPublicIpAddresses", "ipaddress", "203.0.113.20")
	b.api(true, "deleteFirewallRule", "id", firewall(b, 80))
	b.eventually("nobody gets in", func() bool { _, err := b.visit(web, me); return err != nil })
	b.api(true, "createFirewallRule", "ipaddressid", ip, "protocol", "tcp", "startport", "70", "endport", "90", "cidrlist", "127.0.0.2/31")
	b.eventually("those of the range do", func() bool { _, err := b.visit(web, "127.0.0.2"); return err == nil })
	_, err := b.visit(web, me)
	require.Error(t, err)

	b.api(true, "updateLoadBalancerRule", "id", b.rule("80"), "algorithm", "roundrobin", "protocol", "tcp", "cidrlist", "127.0.0.3/32")
	b.eventually("the rule has a list of its own", func() bool { _, err := b.visit(web, "127.0.0.2"); return err != nil })
	_, err = b.visit(web, "127.0.0.3")
	require.NoError(t, err)
	s := b.path.Status().Rules[0]
	require.Positive(t, s.RefusedByFirewall)
	require.EqualValues(t, 1, s.RefusedBySourceRanges)
}

func firewall(b *bed, port int) string {
	for _, r := range b.call("listFirewallRules", "listall", "true")["firewallrule"].([]any) {
		if r := r.(map[string]any); r["startport"] == float64(port) {
			return r["id"].(string)
		}
	}
	b.t.Fatalf("no firewall rule for %d", port)
	return ""
}

func TestProxyHeader(t *testing.T) {
	t.Parallel()
	b := newBed(t, Options{})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { _ = l.Close() }()
	require.NoError(t, b.path.o.Members.Set(map[string]string{"10.1.1.21:30080": l.Addr().String(), "10.1.1.22:30080": l.Addr().String()}))
	b.api(true, "updateLoadBalancerRule", "id", b.rule("80"), "algorithm", "roundrobin", "protocol", "tcp-proxy")
	b.eventually("the change is in force", func() bool {
		b.path.mu.Lock()
		defer b.path.mu.Unlock()
		return b.path.rules[b.rule("80")].now().ProxyHeader
	})
	c, err := b.open(web, "127.0.0.9")
	require.NoError(t, err)
	defer func() { _ = c.Close() }()
	back, err := l.Accept()
	require.NoError(t, err)
	defer func() { _ = back.Close() }()
	line, err := bufio.NewReader(back).ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, fmt.Sprintf("PROXY TCP4 127.0.0.9 203.0.113.20 %d 80\r\n", c.LocalAddr().(*net.TCPAddr).Port), line)
}

// TestNothingIsCut changes and deletes a rule under a connection.
func TestNothingIsCut(t *testing.T) {
	t.Parallel()
	b := newBed(t, Options{})
	s, err := b.open(web, me)
	require.NoError(t, err)
	defer func() { _ = s.Close() }()
	name, err := s.line()
	require.NoError(t, err)
	alive := func(after string) {
		t.Helper()
		_, err := fmt.Fprintln(s, after)
		require.NoError(t, err)
		got, err := s.line()
		require.NoError(t, err, after)
		require.Equal(t, after, got)
	}
	id, worker := b.rule("80"), map[string]string{"one": "demo-worker-1", "two": "demo-worker-2"}[name]
	at, _ := b.path.Listen(web)
	b.api(true, "updateLoadBalancerRule", "id", id, "name", "renamed", "algorithm", "leastconn", "protocol", "tcp")
	b.eventually("renamed", func() bool { return b.path.Status().Rules[0].Name == "renamed" })
	alive("a new name and algorithm")
	b.api(true, "removeFromLoadBalancerRule", "id", id, "virtualmachineids", b.vm(worker))
	b.eventually("one member", func() bool { return len(b.path.Status().Rules[0].Members) == 1 })
	alive("its member has gone")
	for range 4 {
		other, err := b.visit(web, me)
		require.NoError(t, err)
		require.NotEqual(t, name, other)
	}
	now, _ := b.path.Listen(web)
	require.Equal(t, at, now, "the same socket all the time")
	b.api(true, "deleteLoadBalancerRule", "id", id)
	b.eventually("the listener is closed", func() bool { _, err := net.Dial("tcp", at); return err != nil })
	alive("the rule has gone")
}

// TestJobsThatDoNotEndWell: routers keep what they had while a job is pending and after one that fails.
func TestJobsThatDoNotEndWell(t *testing.T) {
	t.Parallel()
	b := newBed(t, Options{})
	calls := map[string][]string{
		"deleteLoadBalancerRule":     {"id", b.rule("80")},
		"removeFromLoadBalancerRule": {"id", b.rule("80"), "virtualmachineids", b.vm("demo-worker-1") + "," + b.vm("demo-worker-2")},
		"updateLoadBalancerRule":     {"id", b.rule("80"), "algorithm", "roundrobin", "protocol", "tcp", "cidrlist", "192.0.2.0/24"},
		"deleteFirewallRule":         {"id", firewall(b, 80)},
		"disassociateIpAddress":      {"id", b.id("publicipaddress", "listPublicIpAddresses", "ipaddress", "203.0.113.20")},
	}
	other, member := b.rule("443"), b.vm("demo-cp-1")
	for _, kind := range []string{"job-fails", "router-refuses", "job-never-ends"} {
		for command, args := range calls {
			fault, err := simulator.ParseFault(command + ":" + kind + ":count=1")
			require.NoError(t, err)
			b.sim.Inject(fault)
			job := b.call(command, args...)["jobid"].(string)
			b.call("queryAsyncJobResult", "jobid", job)
			b.path.apply(b.sim.Router())
			_, err = b.visit(web, me)
			require.NoError(t, err, "%s %s", command, kind)
		}
	}
	// What is not there before its job ends: a pending member.
	fault, err := simulator.ParseFault("assignToLoadBalancerRule:job-never-ends:count=1")
	require.NoError(t, err)
	b.sim.Inject(fault)
	b.call("assignToLoadBalancerRule", "id", other, "virtualmachineids", member)
	b.path.apply(b.sim.Router())
	for _, r := range b.path.Status().Rules {
		require.Len(t, r.Members, 2)
	}
}

// TestJobsEndByThemselves: no call is needed for a job to reach the router.
func TestJobsEndByThemselves(t *testing.T) {
	t.Parallel()
	now := clocktesting.NewFakeClock(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	profile, err := simulator.Profile("instant")
	require.NoError(t, err)
	profile.Job = time.Second
	sim, err := simulator.New(simulator.Options{World: simulator.ExampleWorld(), Clock: now, Latency: profile})
	require.NoError(t, err)
	srv := httptest.NewServer(sim.IntegrationHandler())
	t.Cleanup(srv.Close)
	b := &bed{t: t, sim: sim, admin: srv.URL + "/client/api"}
	b.path, err = Start(t.Context(), sim, Options{Mode: Loopback, Clock: now})
	require.NoError(t, err)
	t.Cleanup(b.path.Close)
	require.Len(t, b.path.Status().Rules, 2)
	b.call("deleteLoadBalancerRule", "id", b.rule("443"))
	require.Len(t, b.path.Status().Rules, 2, "the job runs")
	b.eventually("its end is waited for", func() bool {
		now.Step(300 * time.Millisecond)
		return len(b.path.Status().Rules) == 1
	})
}

func TestDeadMember(t *testing.T) {
	t.Parallel()
	now := clocktesting.NewFakeClock(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	b := newBed(t, Options{Clock: now})
	member := func(i int) MemberStatus { return b.path.Status().Rules[0].Members[i] }
	up := func(i int) bool { return member(i).Up }
	require.True(t, up(0) && member(0).Check == "", "a new member is up until its first check")
	b.path.check()
	require.True(t, up(0) && member(0).Check == "ok")

	gone := b.to["10.1.1.21:30080"]
	dead, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, dead.Close())
	b.to["10.1.1.21:30080"] = dead.Addr().String()
	require.NoError(t, b.path.o.Members.Set(b.to))
	for range 4 { // a client that meets the dead member is tried elsewhere after a while
		result := make(chan string, 1)
		go func() { name, _ := b.visit(web, me); result <- name }()
		b.eventually("an answer", func() bool {
			select {
			case name := <-result:
				require.Equal(t, "two", name)
				return true
			default:
				now.Step(turnAround)
				return false
			}
		})
	}
	b.eventually("the checks take it out", func() bool { now.Step(checkInterval); return !up(0) })
	failed := b.path.Status().Rules[0].Members[0].Failed
	require.Positive(t, failed)
	for range 4 {
		name, err := b.visit(web, me)
		require.NoError(t, err)
		require.Equal(t, "two", name)
	}
	require.Equal(t, failed, b.path.Status().Rules[0].Members[0].Failed, "nobody is sent there")
	b.to["10.1.1.21:30080"] = gone
	require.NoError(t, b.path.o.Members.Set(b.to))
	b.eventually("and back in", func() bool { now.Step(checkInterval); return up(0) })
}

// TestStoppedVM: its connections break, and nobody gets to it.
func TestStoppedVM(t *testing.T) {
	t.Parallel()
	b := newBed(t, Options{})
	var s *session
	for name := ""; name != "one"; {
		var err error
		s, err = b.open(web, me)
		require.NoError(t, err)
		defer func() { _ = s.Close() }()
		name, err = s.line()
		require.NoError(t, err)
	}
	b.api(true, "stopVirtualMachine", "id", b.vm("demo-worker-1"))
	_, err := s.line()
	require.Error(t, err)
	b.path.check()
	require.False(t, b.path.Status().Rules[0].Members[0].Up)
	name, err := b.visit(web, me)
	require.NoError(t, err)
	require.Equal(t, "two", name)
	b.api(true, "stopVirtualMachine", "id", b.vm("demo-worker-2"))
	b.eventually("nobody is left", func() bool {
		b.path.check()
		_, err := b.visit(web, me)
		return err != nil && b.path.Status().Rules[0].NoMember > 0
	})
}

func TestWrongOptions(t *testing.T) {
	t.Parallel()
	sim, err := simulator.New(simulator.Options{})
	require.NoError(t, err)
	_, err = Start(t.Context(), sim, Options{Mode: "bridge"})
	require.EqualError(t, err, `data path "bridge" is not known; use direct or loopback`)
	_, err = Start(t.Context(), sim, Options{Mode: Loopback, Link: "br0"})
	require.EqualError(t, err, `the link br0 is for the data path direct only`)
	for from, at := range map[string]string{"10.1.1.1": "host", "10.1.1.1:80": "127.0.0.1", "x": "127.0.0.1"} {
		_, err = ParseMembers(map[string]string{from: at})
		require.ErrorContains(t, err, "give two addresses")
	}
	m, err := ParseMembers(map[string]string{"10.1.1.1": "127.0.1.1"})
	require.NoError(t, err)
	require.Equal(t, "127.0.1.1:30080", m.at(addr(1)))
	require.Equal(t, addr(2).String(), m.at(addr(2)))
}

// TestAliases: the same address always has the same alias, two never share one.
func TestAliases(t *testing.T) {
	t.Parallel()
	p, err := newPlaces(Loopback, "")
	require.NoError(t, err)
	seen := map[string]bool{}
	for _, a := range []string{"203.0.113.20", "198.0.113.20", "203.64.113.20", "203.128.113.20"} {
		at := p.at(netip.MustParseAddr(a))
		require.Equal(t, at, p.at(netip.MustParseAddr(a)))
		require.True(t, at.IsLoopback())
		seen[at.String()] = true
	}
	require.Len(t, seen, 4)
	require.True(t, seen["127.64.113.20"])
}
