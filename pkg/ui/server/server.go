// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package server shows a model.Snapshot in the user's own browser. It listens on 127.0.0.1 only, accepts clients that
// have its one-time token, and refuses requests of other pages in the same browser.
package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"k8s.io/utils/clock"

	"github.com/csccm/csccm/pkg/ui/model"
)

// Source provides the content of the page.
type Source interface {
	// Snapshot returns the current state. Neither the caller nor the source changes it afterwards. If it fails, the
	// page shows the error together with the last snapshot.
	Snapshot(ctx context.Context) (model.Snapshot, error)
	// Changed returns a channel that receives when a new snapshot should be read; nil if the source is only read every
	// Options.Interval. The server is its only reader; a source sends without blocking (capacity 1).
	Changed() <-chan struct{}
}

// Actions are what a page can change.
type Actions interface {
	// SetFault switches a fault on or off; ErrUnknown if there is none of this name. If command is not empty, the
	// fault affects that command only.
	SetFault(ctx context.Context, name, command string, enabled bool) error
	// Do runs one of an object's deeds; ErrUnknown if the object has none of this name.
	Do(ctx context.Context, object, deed string) error
	// SetSpeed makes time run at a multiple of real time; speed is more than 0. ErrUnknown if time cannot be changed.
	SetSpeed(ctx context.Context, speed float64) error
}

// ErrUnknown means that the fault or object does not exist. It is answered with 404, every other error with 400.
var ErrUnknown = errors.New("not found")

// Options are what a Server needs.
type Options struct {
	Source Source
	// Actions is nil for a read-only page.
	Actions Actions
	// Files are what the browser loads, with index.html at the root: page.Files().
	Files fs.FS
	// Interval is how often the source is read even without a change; 0 for never.
	Interval time.Duration
	// Clock defaults to the real clock.
	Clock clock.WithTicker
}

const (
	keepAlive = 15 * time.Second // of connections for events
	// writeTime is how long a browser may take to receive an answer, or one event.
	writeTime  = 30 * time.Second
	readTime   = 10 * time.Second
	maxStreams = 32
)

// Server is a page on a port of its own.
type Server struct {
	o        Options
	listener net.Listener
	door     *door
	state    *state
	streams  atomic.Int32 // of events
}

// Listen opens a random port on 127.0.0.1. Serve answers on it.
func Listen(ctx context.Context, o Options) (*Server, error) {
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp4", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("open a port on 127.0.0.1: %w", err)
	}
	_, port, err := net.SplitHostPort(listener.Addr().String())
	if err != nil {
		return nil, errors.Join(err, listener.Close())
	}
	return &Server{o: o, listener: listener, door: newDoor(port), state: newState()}, nil
}

// URL is the page's address with the token, which is valid for one visit. Anyone who has it can open the page: print
// it on the user's terminal, never in a log.
func (s *Server) URL() string { return s.door.url() }

// Close closes the port of a server whose Serve was not called.
func (s *Server) Close() error { return s.listener.Close() }

// Serve serves until ctx ends, and then returns nil. Otherwise it returns the error that stopped it.
func (s *Server) Serve(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	read := make(chan struct{})
	go func() {
		defer close(read)
		s.read(ctx)
	}()

	web := &http.Server{
		Handler:           s.door.guard(s.routes()),
		ReadHeaderTimeout: readTime, // a ReadTimeout would end event streams
		WriteTimeout:      writeTime,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    32 << 10,
		BaseContext:       func(net.Listener) context.Context { return ctx }, // ends the streams of events
		ErrorLog:          log.New(io.Discard, "", 0),                        // it may hold addresses with the token
	}

	stopped := context.AfterFunc(ctx, func() { _ = web.Close() })
	defer stopped()
	err := web.Serve(s.listener)
	ended := ctx.Err() != nil
	cancel()
	<-read
	if ended || errors.Is(err, http.ErrServerClosed) {
		return nil
	}

	return err
}

// read reads the source whenever it changes, at each interval and after actions, until ctx ends.
func (s *Server) read(ctx context.Context) {
	var tick <-chan time.Time
	if s.o.Interval > 0 {
		ticker := s.o.Clock.NewTicker(s.o.Interval)
		defer ticker.Stop()
		tick = ticker.C()
	}

	for {
		snapshot, err := s.o.Source.Snapshot(ctx)
		if ctx.Err() != nil {
			return
		}
		s.state.set(snapshot, err, s.o.Clock.Now())
		select {
		case <-ctx.Done():
			return
		case <-tick:
		case <-s.o.Source.Changed():
		case <-s.state.again: // after an action
		}
	}
}

// unread returns the last snapshot, with the reason why there is no newer one.
func unread(last model.Snapshot, err error) model.Snapshot {
	last.SchemaVersion = cmp.Or(last.SchemaVersion, model.SchemaVersion)
	missing := model.Missing{Part: "objects", Reason: err.Error()}
	var remedied interface{ Remedy() string }
	if errors.As(err, &remedied) {
		missing.Remedy = remedied.Remedy()
	}
	last.Missing = append([]model.Missing{missing}, last.Missing...)
	return last
}
