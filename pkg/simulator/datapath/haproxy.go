// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
)

// FindHAProxy returns the path of HAProxy, or an empty string. Debian installs it in a directory that is only in
// root's PATH.
func FindHAProxy() string {
	for _, name := range []string{"haproxy", "/usr/sbin/haproxy"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	return ""
}

// cookieFlags are the parameters that count as true if they are present: CloudStack ignores their values.
var cookieFlags = []string{"indirect", "nocache", "postonly"}

// cookieLine returns the directive that CloudStack writes for a policy LbCookie. HAProxy validates it.
func cookieLine(params map[string]string, public netip.AddrPort) string {
	name, mode, rest := fmt.Sprintf("lbcooki_%d_%d", javaHash(public.Addr().String()), public.Port()), "insert",
		[]string(nil)
	for k, v := range params {
		switch k = strings.ToLower(k); {
		case k == "cookie-name":
			name = v
		case k == "mode":
			mode = v
		case k == "domain":
			rest = append(rest, "domain "+v)
		case slices.Contains(cookieFlags, k):
			rest = append(rest, k)
		}
	}
	slices.Sort(rest)
	return strings.Join(strings.Fields("cookie "+name+" "+mode+" "+strings.Join(rest, " ")), " ")
}

// javaHash returns Java's hash of a string, from which CloudStack derives the default cookie name.
func javaHash(s string) int32 {
	var h int32
	for _, c := range []byte(s) { // the string is an address, which is ASCII
		h = 31*h + int32(c)
	}
	return h
}

// backend is a member in HAProxy's configuration.
type backend struct {
	Member
	dial string // where this machine reaches it
	up   bool
}

// haproxyConfig returns the configuration of HAProxy for a rule, as CloudStack writes it, with three exceptions:
// clients arrive on file descriptor 3 with a PROXY header; TLS is already terminated; and the data path checks the
// members, not HAProxy.
func haproxyConfig(l *Listener, members []backend) string {
	var b strings.Builder
	line := func(format string, a ...any) { _, _ = fmt.Fprintf(&b, format+"\n", a...) }
	line("defaults\n mode http\n option forwardfor\n option httpclose\n option redispatch\n retries 3")
	line(" timeout connect 5s\n timeout client 50s\n timeout server 50s")
	line("listen rule\n bind fd@3 accept-proxy\n balance %s", l.Algorithm)
	if l.TLS != nil {
		line(" http-request set-header X-Forwarded-Proto https")
	}

	if l.Sticky > 0 {
		line(" stick-table type ip size %d expire %ds\n stick on src", l.StickySize, int(l.Sticky.Seconds()))
	}

	if l.Cookie != "" {
		line(" %s", l.Cookie)
	}

	for _, m := range members {
		name := fmt.Sprintf("%s-%d", strings.ReplaceAll(m.Address.Addr().String(), ".", "_"), m.Address.Port())
		words := []string{"server", name, m.dial}
		if l.Cookie != "" {
			words = append(words, "cookie", name)
		}
		if l.ProxyHeader {
			words = append(words, "send-proxy")
		}
		if !m.Running || !m.up {
			words = append(words, "disabled")
		}
		line(" %s", strings.Join(words, " "))
	}

	return b.String()
}

// haproxy is an HAProxy process with one configuration of a rule in mode http. After a change, a new process takes new
// clients, and this one exits after its last client.
type haproxy struct {
	config, dir string
	program     *exec.Cmd
	ended       atomic.Bool

	mu    sync.Mutex
	users int  // connections of clients
	last  bool // no new clients
}

// startHAProxy starts HAProxy. It returns an error if HAProxy refuses the configuration.
func (p *Path) startHAProxy(config string) (*haproxy, error) {
	dir, err := os.MkdirTemp("", "csccm-haproxy-")
	if err != nil {
		return nil, err
	}
	h := &haproxy{config: config, dir: dir}
	if err := h.start(p); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	return h, nil
}

func (h *haproxy) start(p *Path) error {
	file := filepath.Join(h.dir, "haproxy.cfg")
	if err := os.WriteFile(file, []byte(h.config), 0o600); err != nil {
		return err
	}

	socket, err := net.ListenUnix("unix", &net.UnixAddr{Name: h.address(), Net: "unix"})
	if err != nil {
		return err
	}

	socket.SetUnlinkOnClose(false) // HAProxy keeps using the socket
	defer func() { _ = socket.Close() }()
	clients, err := socket.File()
	if err != nil {
		return err
	}
	defer func() { _ = clients.Close() }()
	command := func(args ...string) *exec.Cmd {
		c := exec.CommandContext(p.ctx, p.o.HAProxy, append(args, "-f", file)...) // #nosec G204 -- no shell
		c.ExtraFiles = []*os.File{clients}
		return c
	}

	if out, err := command("-c").CombinedOutput(); err != nil {
		return refusal(string(out), err)
	}

	h.program = command("-db", "-q")
	endWithParent(h.program)
	started := make(chan error)
	p.conns.Go(func() {
		runtime.LockOSThread() // the kernel ends HAProxy with the thread that started it (Pdeathsig)
		defer runtime.UnlockOSThread()
		err := h.program.Start()
		started <- err
		if err == nil {
			_ = h.program.Wait()
			h.ended.Store(true)
			_ = os.RemoveAll(h.dir)
		}
	})

	return <-started
}

func (h *haproxy) address() string { return filepath.Join(h.dir, "clients") }

// add changes the number of clients. With last set, HAProxy is killed when no client is left.
func (h *haproxy) add(users int, last bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.users, h.last = h.users+users, h.last || last
	if h.last && h.users == 0 {
		_ = h.program.Process.Kill()
	}
}

// refusal returns HAProxy's error without process id and file name, so that the text is the same each time.
func refusal(output string, err error) error {
	for line := range strings.Lines(output) {
		if _, reason, ok := strings.Cut(line, "] : "); ok && strings.HasPrefix(line, "[ALERT]") {
			return fmt.Errorf("HAProxy: %s", strings.TrimSpace(reason))
		}
	}
	return fmt.Errorf("HAProxy: %w: %s", err, output)
}

// viaHAProxy reports whether HAProxy serves a rule's clients. Without HAProxy, HTTP is forwarded as TCP.
func (r *rule) viaHAProxy(conf *Listener) bool { return conf.HTTP && r.p.o.HAProxy != "" }

// applyHAProxy makes sure that HAProxy runs with the current configuration of the rule and its members. After an
// error, the previous process keeps serving.
func (r *rule) applyHAProxy(conf *Listener) error {
	if !r.viaHAProxy(conf) {
		r.useHAProxy(nil)
		return nil
	}

	members := make([]backend, len(conf.Members))
	for i, m := range conf.Members {
		members[i] = backend{m, r.p.o.Members.dialAddress(m.Address), r.isUp(m.Address)}
	}

	config := haproxyConfig(conf, members)
	r.mu.Lock()
	now := r.haproxy
	r.mu.Unlock()
	if now != nil && now.config == config && !now.ended.Load() {
		return nil
	}

	next, err := r.p.startHAProxy(config)
	if err == nil {
		r.useHAProxy(next)
	}

	return err
}

// useHAProxy sends new clients to next, or to no HAProxy if next is nil.
func (r *rule) useHAProxy(next *haproxy) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.haproxy != nil {
		r.haproxy.add(0, true)
	}
	r.haproxy = next
}

// serveHTTP passes a client's connection to HAProxy.
func (r *rule) serveHTTP(client net.Conn, from netip.AddrPort) {
	conf := r.config()
	if r.closed() {
		reset(client)
		return
	}

	if err := r.applyHAProxy(&conf); err != nil { // a member's health or address may have changed
		r.p.o.Logger.Warn("haproxy", "rule", conf.Name, "error", err)
	}

	r.mu.Lock()
	h := r.haproxy
	if h != nil {
		h.add(1, false)
	}
	r.mu.Unlock()

	if h == nil {
		reset(client)
		return
	}
	defer h.add(-1, false)
	back, err := (&net.Dialer{}).DialContext(r.p.ctx, "unix", h.address())
	if err != nil {
		reset(client)
		return
	}

	if !r.p.track(back) {
		_ = back.Close()
	}
	defer r.p.removeConn(back)
	defer func() { _ = back.Close() }()
	_, _ = io.WriteString(back, proxyHeader(from, conf.Public)) // an error shows up in the next read
	r.relay(client, back, &member{})
}
