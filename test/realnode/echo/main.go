// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Command echo runs in the Pods behind the Services of the scenarios: it answers with
// its Pod, with the client address that it sees, and with that which a proxy reports. After SIGTERM it keeps serving and
// stays ready for a while, as a program behind a load balancer should
// (docs/loadbalancers.md).
//
//	:8080  HTTP
//	:8081  HTTP behind the PROXY protocol
//	:8082  HTTP for test/traffic, which keeps connections open
//	:8083  UDP: it answers each datagram as it answers HTTP requests
//	:8084  TCP echo
//	:8053  DNS over UDP: TXT records are the name of the node
//	:8443  HTTP/3 over UDP, HTTP/2 over TCP
//
// With the arguments of Traefik or ingress-nginx it replaces their images and listens
// on their ports.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/csccm/csccm/test/internal/must"
	"github.com/csccm/csccm/test/traffic"
)

// lameDuck is how long it keeps serving after SIGTERM.
const lameDuck = 20 * time.Second

func main() {
	if err := run(); err != nil {
		_, _ = fmt.Fprintln(os.Stderr, "echo:", err)
		os.Exit(1)
	}
}

func run() (err error) {
	defer must.Return(&err)
	mux := http.NewServeMux()
	mux.HandleFunc("/readyz", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		client, _, _ := net.SplitHostPort(r.RemoteAddr)
		a := seen(client)
		a["forwarded"] = r.Header.Get("X-Forwarded-For")
		_ = json.NewEncoder(w).Encode(a)
	})
	// A client inside the cluster: it gets the URL and returns the body.
	mux.Handle("/fetch", &httputil.ReverseProxy{
		Transport: &http.Transport{DisableKeepAlives: true, ResponseHeaderTimeout: 5 * time.Second},
		Rewrite: func(r *httputil.ProxyRequest) {
			r.Out.URL, _ = url.Parse(r.In.URL.Query().Get("url"))
			r.Out.Host = ""
		},
	})
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	endpoints := must.Get(endpointsFor(os.Args[1:]))
	failed := make(chan error, 1)
	for _, d := range endpoints {
		l := must.Get((&net.ListenConfig{}).Listen(context.Background(), "tcp", d.address))
		go func() { failed <- server.Serve(proxyListener{l, d.trusted}) }()
	}
	if len(os.Args) == 1 {
		must.OK(startDatagrams(context.Background(), mux, failed))
	}
	steady := must.Get(traffic.StartBackend(context.Background(), os.Getenv("POD_NAME"), ":8082"))
	defer steady.Stop()
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM, syscall.SIGINT)
	select {
	case err := <-failed:
		return err
	case <-stop:
	}
	wait := lameDuck
	if len(os.Args) > 1 {
		wait = 0 // no scenario sends requests to an ingress controller while it ends
	}
	select {
	case err := <-failed:
		return err
	case <-time.After(wait):
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	return server.Shutdown(ctx)
}

// seen is the answer to a client.
func seen(client string) map[string]string {
	return map[string]string{"pod": os.Getenv("POD_NAME"), "node": os.Getenv("NODE_NAME"), "client": client}
}
