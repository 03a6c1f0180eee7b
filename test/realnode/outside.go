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
	"os/exec"
	"runtime"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/csccm/csccm/test/internal/must"
)

// Outside is a network namespace beyond the router. Its clients reach public addresses like clients on the Internet:
// the router forwards their packets. It exists until the sandbox ends.
type Outside struct {
	// work is done one by one on a thread in the namespace, which lives as long as this process.
	work  chan func()
	mu    sync.Mutex
	known map[netip.Addr]bool
}

// inOutside is the beginning of a command of ip(8) that runs in the namespace.
const inOutside = "netns exec outside " + ipProgram + " "

// NewOutside returns the namespace beyond the router of the sandbox. Its clients reach public addresses and nodes.
func NewOutside(ctx context.Context) *Outside {
	ip(ctx, "netns add outside", "link add csccm-out type veth peer name eth0 netns outside",
		"address add 192.0.2.1/30 dev csccm-out", "link set csccm-out up",
		inOutside+"link set lo up", inOutside+"address add 192.0.2.2/30 dev eth0", inOutside+"link set eth0 up",
		inOutside+"route add default via 192.0.2.1")
	o, entered := &Outside{work: make(chan func()), known: map[netip.Addr]bool{}}, make(chan error)
	go func() {
		runtime.LockOSThread()
		ns, err := os.Open("/run/netns/outside")
		entered <- errors.Join(err, unix.Setns(int(ns.Fd()), unix.CLONE_NEWNET)) // #nosec G115 -- a file descriptor
		for work := range o.work {
			work()
		}
	}()
	must.OK(<-entered)
	return o
}

// Command returns a command that runs a program in the namespace.
func (o *Outside) Command(ctx context.Context, program string, args ...string) *exec.Cmd {
	// #nosec G204 -- ours
	return exec.CommandContext(ctx, ipProgram, append([]string{"netns", "exec", "outside", program}, args...)...)
}

// Do runs a function in the namespace, where a client has its address. Sockets that it opens stay in the namespace.
func (o *Outside) Do(ctx context.Context, client netip.Addr, f func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.known[client] {
		ip(ctx, fmt.Sprintf("route replace %s via 192.0.2.2", client),
			inOutside+fmt.Sprintf("route replace local %s dev lo", client))
		o.known[client] = true
	}
	done := make(chan error)
	o.work <- func() { done <- must.Catch(f) }
	must.OK(<-done)
}
