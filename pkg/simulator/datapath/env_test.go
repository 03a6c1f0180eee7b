// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/csccm/csccm/pkg/simulator"
)

// testEnv runs the example world with a backend for each of its workers.
type testEnv struct {
	t     *testing.T
	sim   *simulator.Simulator
	path  *Path
	to    map[string]string
	admin string
}

const (
	patience = 5 * time.Minute    // a limit that is only reached on errors, even on slow machines
	web      = "203.0.113.20:443" // public address in the example world, forwards to 30443
	site     = "203.0.113.20:80"  // HTTP, forwards to 30080
	never    = 24 * time.Hour
)

func newTestEnv(t *testing.T, o Options) *testEnv {
	t.Helper()
	return newTestEnvOf(t, o, simulator.Options{World: simulator.ExampleWorld()})
}

func newTestEnvOf(t *testing.T, o Options, s simulator.Options) *testEnv {
	t.Helper()
	b := &testEnv{t: t, to: map[string]string{}}
	var err error
	b.sim, err = simulator.New(s)
	require.NoError(t, err)
	srv := httptest.NewServer(b.sim.IntegrationHandler())
	t.Cleanup(srv.Close)
	b.admin = srv.URL + "/client/api"
	b.backend("10.1.1.21:30443", "one")
	b.backend("10.1.1.22:30443", "two")
	b.httpBackend("10.1.1.21:30080", "one")
	b.httpBackend("10.1.1.22:30080", "two")
	o.Members, err = ParseMembers(b.to)
	require.NoError(t, err)
	if o.Mode == "" {
		o.Mode = Loopback
	}

	// Tests run the checks themselves. Checks at other times would connect to the scripted members and change which
	// members are up.
	o.CheckInterval = never
	b.path, err = Start(t.Context(), b.sim, o)
	require.NoError(t, err)
	t.Cleanup(b.path.Close)
	return b
}

// script runs a member that calls serve for every connection.
func (b *testEnv) script(member string, serve func(c net.Conn)) {
	b.t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(b.t, err)
	b.t.Cleanup(func() { _ = l.Close() })
	b.to[member] = l.Addr().String()
	if b.path != nil {
		require.NoError(b.t, b.path.o.Members.Set(b.to))
	}

	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer func() { _ = c.Close() }()
				serve(c)
			}()
		}
	}()
}

// httpBackend runs a member that answers with its name in the field X-Member and the body of the request. It sets the
// cookie that the query parameter set contains.
func (b *testEnv) httpBackend(member, name string) {
	b.t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Member", name)
		w.Header().Set("X-Cookie", r.Header.Get("Cookie"))
		if set := r.URL.Query().Get("set"); set != "" {
			w.Header().Add("Set-Cookie", set)
		}
		_, _ = io.Copy(w, r.Body)
	}))
	b.t.Cleanup(s.Close)
	b.to[member] = s.Listener.Addr().String()
}

// backend runs a member that sends its name as a greeting and then echoes.
func (b *testEnv) backend(member, name string) {
	b.t.Helper()
	b.script(member, func(c net.Conn) {
		_, _ = fmt.Fprintln(c, name)
		_, _ = io.Copy(c, c)
	})
}

// at returns the status of the rule with a public address.
func (b *testEnv) at(public string) RuleStatus {
	b.t.Helper()
	rules := b.path.Status().Rules
	i := slices.IndexFunc(rules, func(r RuleStatus) bool { return r.Public == public })
	require.GreaterOrEqual(b.t, i, 0, public)
	return rules[i]
}

// inForce waits until ok returns true for the configuration of a rule.
func (b *testEnv) inForce(id string, ok func(Listener) bool) {
	b.t.Helper()
	b.eventually("the change is in force", func() bool {
		b.path.mu.Lock()
		defer b.path.mu.Unlock()
		r := b.path.rules[id]
		return r != nil && ok(r.config())
	})
}

// remove deletes a rule and waits until its listener is closed. It does not try to connect, because the rule of another
// test may already listen on the same address, and would count the connection.
func (b *testEnv) remove(id string) {
	b.t.Helper()
	b.path.mu.Lock()
	listener, ok := b.path.rules[id].listener.(*net.TCPListener)
	b.path.mu.Unlock()
	require.True(b.t, ok)
	b.api(true, "deleteLoadBalancerRule", "id", id)
	b.eventually("the listener is closed",
		func() bool { return errors.Is(listener.SetDeadline(time.Time{}), net.ErrClosed) })
}

// refusing returns an address that refuses connections. A connection uses the address, so that no other listener can
// get it.
func (b *testEnv) refusing() string {
	b.t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(b.t, err)
	b.t.Cleanup(func() { _ = l.Close() })
	c, err := net.Dial("tcp", l.Addr().String())
	require.NoError(b.t, err)
	b.t.Cleanup(func() { _ = c.Close() })
	return c.LocalAddr().String()
}

// api runs a command and waits for its job. The job must succeed if done is set, and fail otherwise.
func (b *testEnv) api(done bool, command string, pairs ...string) map[string]any {
	b.t.Helper()
	ans := b.call(command, pairs...)
	job, ok := ans["jobid"].(string)
	if !ok {
		return ans
	}
	var res map[string]any
	b.eventually(command+" ends", func() bool {
		res = b.call("queryAsyncJobResult", "jobid", job)
		return fmt.Sprint(res["jobstatus"]) != "0"
	})
	require.Equal(b.t, map[bool]string{true: "1", false: "2"}[done], fmt.Sprint(res["jobstatus"]), "%s: %v", command,
		res)
	return ans
}

func (b *testEnv) call(command string, pairs ...string) map[string]any {
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

// id returns the id of the first object of a list.
func (b *testEnv) id(kind, command string, pairs ...string) string {
	b.t.Helper()
	list, _ := b.call(command, append(pairs, "listall", "true")...)[kind].([]any)
	require.NotEmpty(b.t, list, "%s %v", command, pairs)
	return list[0].(map[string]any)["id"].(string)
}

func (b *testEnv) rule(port string) string {
	return b.id("loadbalancerrule", "listLoadBalancerRules", "keyword", "-"+port)
}

func (b *testEnv) vm(name string) string {
	return b.id("virtualmachine", "listVirtualMachines", "name", name)
}

// session is a connection of a client.
type session struct {
	net.Conn
	t  *testing.T
	in *bufio.Reader
}

func (s *session) write(text string) {
	s.t.Helper()
	_, err := io.WriteString(s, text)
	require.NoError(s.t, err)
}

func (s *session) line() (string, error) {
	_ = s.SetDeadline(time.Now().Add(patience))
	line, err := s.in.ReadString('\n')
	return strings.TrimSpace(line), err
}

// open connects from a loopback address.
func (b *testEnv) open(public, from string) (*session, error) {
	at, ok := b.path.Listen(public)
	if !ok {
		return nil, fmt.Errorf("no rule at %s", public)
	}
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}, Timeout: patience}
	c, err := d.DialContext(b.t.Context(), "tcp", at)
	if err != nil {
		return nil, err
	}
	return &session{c, b.t, bufio.NewReader(c)}, nil
}

// connect opens a connection until the end of the test.
func (b *testEnv) connect(public, from string) *session {
	b.t.Helper()
	s, err := b.open(public, from)
	require.NoError(b.t, err)
	b.t.Cleanup(func() { _ = s.Close() })
	return s
}

// visit connects and returns the greeting, or the error of a refused connection.
func (b *testEnv) visit(public, from string) (string, error) {
	s, err := b.open(public, from)
	if err != nil {
		return "", err
	}
	defer func() { _ = s.Close() }()
	return s.line()
}

func (b *testEnv) eventually(what string, ok func() bool) {
	b.t.Helper()
	require.Eventually(b.t, ok, patience, 2*time.Millisecond, what)
}

const me = "127.0.0.1"

// arm arms a fault for one call.
func (b *testEnv) arm(fault string) {
	b.t.Helper()
	f, err := simulator.ParseFault(fault + ":count=1")
	require.NoError(b.t, err)
	b.sim.Inject(f)
}

func firewall(b *testEnv, port int) string {
	for _, r := range b.call("listFirewallRules", "listall", "true")["firewallrule"].([]any) {
		if r := r.(map[string]any); r["startport"] == float64(port) {
			return r["id"].(string)
		}
	}
	b.t.Fatalf("no firewall rule for %d", port)
	return ""
}
