// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"io"
	"net"
	"net/url"
	"sync"
	"testing"
)

// link is a wire between a controller and the API server that a test can cut: what is sent afterwards
// arrives nowhere, and nobody is told.
type link struct {
	listener net.Listener
	to       string
	dead     chan struct{}
	once     sync.Once
}

// newLink leads to the server of a URL.
func newLink(t *testing.T, server string) *link {
	t.Helper()
	u, err := url.Parse(server)
	if err != nil {
		t.Fatal(err)
	}
	l := &link{to: u.Host, dead: make(chan struct{})}
	l.listener, err = (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done, end := context.WithCancel(context.Background())
	t.Cleanup(func() { end(); _ = l.listener.Close() })
	go func() {
		for {
			near, err := l.listener.Accept()
			if err != nil {
				return
			}
			go l.carry(done, near)
		}
	}()
	return l
}

func (l *link) url() string { return "https://" + l.listener.Addr().String() }

// cut ends the wire for good.
func (l *link) cut() { l.once.Do(func() { close(l.dead) }) }

func (l *link) carry(done context.Context, near net.Conn) {
	defer func() { _ = near.Close() }()
	far, err := (&net.Dialer{}).DialContext(done, "tcp", l.to)
	if err != nil {
		return
	}
	defer func() { _ = far.Close() }()
	ended := make(chan struct{}, 2)
	go func() { l.pump(far, near); ended <- struct{}{} }()
	go func() { l.pump(near, far); ended <- struct{}{} }()
	select {
	case <-ended:
	case <-l.dead:
		<-done.Done() // the connections stay open, and silent
	case <-done.Done():
	}
}

// pump copies until the wire is cut.
func (l *link) pump(to io.Writer, from io.Reader) {
	b := make([]byte, 64<<10)
	for {
		n, err := from.Read(b)
		select {
		case <-l.dead:
			return
		default:
		}
		if n > 0 {
			if _, err := to.Write(b[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}
