// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Command echo is the Pod behind the Services of the scenarios: it says which Pod it is
// and whom it takes its client for. Told to end, it says that it is not ready and
// serves on for a while, as a program behind a load balancer should.
//
//	:8080  HTTP
//	:8081  HTTP behind the PROXY protocol
//	:8082  the lines of test/traffic
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/csccm/csccm/test/traffic"
)

// lameDuck is how long it serves on after it is told to end.
const lameDuck = 20 * time.Second

func main() {
	if err := run(); err != nil {
		_, _ = fmt.Fprintln(os.Stderr, "echo:", err)
		os.Exit(1)
	}
}

func run() error {
	var ending atomic.Bool
	mux := http.NewServeMux()
	mux.HandleFunc("/readyz", func(w http.ResponseWriter, _ *http.Request) {
		if ending.Load() {
			http.Error(w, "ending", http.StatusServiceUnavailable)
		}
	})
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		client, _, _ := net.SplitHostPort(r.RemoteAddr)
		_ = json.NewEncoder(w).Encode(map[string]string{
			"pod": os.Getenv("POD_NAME"), "node": os.Getenv("NODE_NAME"), "client": client, "forwarded": r.Header.Get("X-Forwarded-For")})
	})
	// A client inside the cluster: what a GET of this URL answers.
	mux.HandleFunc("/fetch", func(w http.ResponseWriter, r *http.Request) {
		client := &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
		req, err := http.NewRequestWithContext(r.Context(), http.MethodGet, r.URL.Query().Get("url"), nil)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		resp, err := client.Do(req)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		defer func() { _ = resp.Body.Close() }()
		_, _ = io.Copy(w, resp.Body)
	})
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	failed := make(chan error, 2)
	for port, wrap := range map[string]func(net.Listener) net.Listener{
		":8080": func(l net.Listener) net.Listener { return l },
		":8081": func(l net.Listener) net.Listener { return proxyListener{l} },
	} {
		l, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", port)
		if err != nil {
			return err
		}
		go func() { failed <- server.Serve(wrap(l)) }()
	}
	lines, err := traffic.StartBackend(context.Background(), os.Getenv("POD_NAME"), ":8082")
	if err != nil {
		return err
	}
	defer lines.Stop()
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM, syscall.SIGINT)
	select {
	case err := <-failed:
		return err
	case <-stop:
	}
	ending.Store(true)
	select {
	case err := <-failed:
		return err
	case <-time.After(lameDuck):
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	return server.Shutdown(ctx)
}

// proxyListener takes the PROXY protocol's first line (version 1) off its connections.
type proxyListener struct{ net.Listener }

func (l proxyListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &proxied{Conn: c, r: bufio.NewReader(c)}, nil
}

// proxied reads the line when the connection is first read, which is not in Accept:
// a client that sends nothing must not hold up the others.
type proxied struct {
	net.Conn
	r      *bufio.Reader
	read   bool
	source net.Addr
}

func (c *proxied) Read(b []byte) (int, error) {
	if err := c.header(); err != nil {
		return 0, err
	}
	return c.r.Read(b)
}

// RemoteAddr is asked before the first request is read.
func (c *proxied) RemoteAddr() net.Addr {
	if c.header() == nil && c.source != nil {
		return c.source
	}
	return c.Conn.RemoteAddr()
}

func (c *proxied) header() error {
	if c.read {
		return nil
	}
	line, err := c.r.ReadString('\n')
	if err != nil {
		return err
	}
	c.read = true
	source, err := parse(line)
	if err != nil {
		_ = c.Close()
		return err
	}
	c.source = source
	return nil
}

// parse reads "PROXY TCP4 source destination port port".
func parse(line string) (net.Addr, error) {
	fields := strings.Fields(line)
	if len(fields) != 6 || fields[0] != "PROXY" || !strings.HasSuffix(line, "\r\n") {
		return nil, errors.New("no PROXY protocol header")
	}
	return net.ResolveTCPAddr("tcp", net.JoinHostPort(fields[2], fields[4]))
}
