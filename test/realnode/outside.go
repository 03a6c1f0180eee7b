// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package realnode

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"runtime"
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
		must.OK(ip(ctx, "", "netns add "+outsideName))
		must.OK(ip(ctx, "",
			"link add "+outsideLink+" type veth peer name eth0 netns "+outsideName,
			"address add "+outsideHere+"/30 dev "+outsideLink,
			"link set "+outsideLink+" up"))
		must.OK(ip(ctx, outsideName,
			"link set lo up",
			"address add "+outsidePeer+"/30 dev eth0",
			"link set eth0 up",
			"route add "+public.Masked().String()+" via "+outsideHere))
	}
	ns, err := os.Open(outsideFile)
	return &Outside{ns: ns, known: map[netip.Addr]bool{}}, err
}

// Add gives addresses to clients.
func (o *Outside) Add(ctx context.Context, clients ...netip.Addr) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	var here, there []string
	for _, a := range clients {
		if !o.known[a] {
			here = append(here, fmt.Sprintf("route replace %s via %s", a, outsidePeer))
			there = append(there, fmt.Sprintf("route replace local %s dev lo", a))
		}
	}
	if len(here) == 0 {
		return nil
	}
	err := errors.Join(ip(ctx, "", here...), ip(ctx, outsideName, there...))
	for _, a := range clients {
		o.known[a] = err == nil
	}
	return err
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
