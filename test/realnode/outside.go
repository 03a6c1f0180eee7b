// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package realnode

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/csccm/csccm/test/internal/must"
)

const (
	outsideName = "outside"
	outsideFile = "/run/netns/" + outsideName // where ip keeps namespaces
	outsideLink = "csccm-out"
	outsideHere = "192.0.2.1" // the router
	outsidePeer = "192.0.2.2"
)

// Outside is a network namespace beyond the router, whose clients reach public addresses as clients on the Internet do:
// their packets come to the router and are forwarded. It exists until the sandbox ends.
type Outside struct {
	ns    *os.File
	mu    sync.Mutex
	known map[netip.Addr]bool
}

// NewOutside returns the namespace beyond the router of the sandbox; public are the addresses that its clients reach.
func NewOutside(ctx context.Context, public netip.Prefix) (_ *Outside, err error) {
	defer must.Return(&err)
	if _, err := os.Stat(outsideFile); err != nil {
		must.OK(ip(ctx,
			[]string{"netns", "add", outsideName},
			[]string{"link", "add", outsideLink, "type", "veth", "peer", "name", "eth0", "netns", outsideName},
			[]string{"address", "add", outsideHere + "/30", "dev", outsideLink},
			[]string{"link", "set", outsideLink, "up"},
			[]string{"-n", outsideName, "link", "set", "lo", "up"},
			[]string{"-n", outsideName, "address", "add", outsidePeer + "/30", "dev", "eth0"},
			[]string{"-n", outsideName, "link", "set", "eth0", "up"},
			[]string{"-n", outsideName, "route", "add", public.Masked().String(), "via", outsideHere},
		))
	}
	ns, err := os.Open(outsideFile)
	return &Outside{ns: ns, known: map[netip.Addr]bool{}}, err
}

// Add gives addresses to clients.
func (o *Outside) Add(ctx context.Context, clients ...netip.Addr) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	var here, there strings.Builder
	for _, a := range clients {
		if !o.known[a] {
			fmt.Fprintf(&here, "route replace %s via %s\n", a, outsidePeer)
			fmt.Fprintf(&there, "route replace local %s dev lo\n", a)
		}
	}
	for _, batch := range []struct {
		args  []string
		lines string
	}{{[]string{"-batch", "-"}, here.String()}, {[]string{"-n", outsideName, "-batch", "-"}, there.String()}} {
		cmd := exec.CommandContext(ctx, ipProgram, batch.args...) // #nosec G204 -- ours
		cmd.Stdin = strings.NewReader(batch.lines)
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("ip %s: %w: %s", strings.Join(batch.args, " "), err, out)
		}
	}
	for _, a := range clients {
		o.known[a] = true
	}
	return nil
}

// Do runs a function in the namespace: sockets that it opens on its own goroutine belong to it for good.
func (o *Outside) Do(f func() error) error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread()
		err := o.do(f)
		done <- err
	}()
	return <-done
}

// do must run on a locked thread. It is unlocked only where it is back in its own namespace; else it ends with its
// goroutine.
func (o *Outside) do(f func() error) (err error) {
	defer must.Return(&err)
	home := must.Get(os.Open("/proc/thread-self/ns/net"))
	defer func() { _ = home.Close() }()
	if err := unix.Setns(int(o.ns.Fd()), unix.CLONE_NEWNET); err != nil { // #nosec G115 -- a file descriptor
		return fmt.Errorf("enter the namespace of clients: %w", err)
	}
	err = f()
	if unix.Setns(int(home.Fd()), unix.CLONE_NEWNET) == nil { // #nosec G115 -- a file descriptor
		runtime.UnlockOSThread()
	}
	return err
}

// Close leaves the namespace to the sandbox.
func (o *Outside) Close() { _ = o.ns.Close() }
