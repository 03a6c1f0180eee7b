// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Command echo runs in the Pods behind the Services of the scenarios: it answers with
// its Pod, and with the client address that it sees. After SIGTERM it keeps serving and
// stays ready for a while, as a program behind a load balancer should
// (docs/loadbalancers.md).
//
//	:8080  HTTP; below /steady/ for test/traffic
//	:8081  HTTP behind the PROXY protocol
//	:8082  HTTP behind a gateway, whose header X-Forwarded-For names the client
//	:8083  UDP: it answers each datagram as it answers HTTP requests
//	:8443  HTTP/3 over UDP, HTTP/2 over TCP
//
// With the arguments of Traefik or ingress-nginx it replaces their images and listens
// on their ports.
package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"net/http/httputil"
	"net/netip"
	"net/url"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/quic-go/quic-go/http3"

	"github.com/csccm/csccm/test/internal/must"
	"github.com/csccm/csccm/test/traffic"
)

// behindGateway is the port for a gateway. Elsewhere X-Forwarded-For is ignored: a virtual router sets it for port 80.
const behindGateway = 8082

// lameDuck is the time for which it keeps serving after SIGTERM.
const lameDuck = 20 * time.Second

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	if err := must.Catch(func() { run(ctx, os.Args[1:]) }); err != nil {
		_, _ = fmt.Fprintln(os.Stderr, "echo:", err)
		os.Exit(1) //nolint:gocritic // stop has nothing to stop
	}
}

// endpoint is an address to listen on, the clients from which a PROXY protocol header is read, and whether it is HTTP/3
// and 2.
type endpoint struct {
	address string
	trusted []netip.Prefix
	web     bool
}

// endpointsFor returns echo's own endpoints, or those of the program whose arguments it gets.
func endpointsFor(args []string) []*endpoint {
	if len(args) == 0 {
		return []*endpoint{
			{address: ":8080"},
			{address: fmt.Sprintf(":%d", behindGateway)},
			{address: ":8081", trusted: traffic.EveryClient},
			{address: ":8443", web: true},
		}
	}

	if args[0] == "/nginx-ingress-controller" {
		every := traffic.EveryClient
		return []*endpoint{{address: ":80", trusted: every}, {address: ":443", trusted: every}, {address: ":10254"}}
	}

	endpoints := []*endpoint{{address: ":8080"}} // for Traefik's ping
	at := map[string]*endpoint{}
	for _, a := range args {
		flag, value, _ := strings.Cut(a, "=")
		name, what, ok := strings.Cut(strings.TrimPrefix(flag, "--entrypoints."), ".")
		if !ok || name == flag {
			continue
		}
		if at[name] == nil {
			at[name] = &endpoint{}
			endpoints = append(endpoints, at[name])
		}
		switch what {
		case "address":
			at[name].address = value
		case "proxyprotocol.trustedips":
			at[name].trusted = append(at[name].trusted, must.Get(netip.ParsePrefix(value)))
		case "http3":
			at[name].web = true
		}
	}

	must.Be(len(at) > 0, "%q are neither arguments of Traefik nor of ingress-nginx", args)
	return endpoints
}

func run(ctx context.Context, args []string) {
	mux := http.NewServeMux()
	mux.HandleFunc("/readyz", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		client, _, _ := net.SplitHostPort(r.RemoteAddr)
		if local, ok := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr); ok && local.Port == behindGateway {
			client = r.Header.Get("X-Forwarded-For")
		}
		_, _ = w.Write(seen(client))
	})

	mux.Handle("/steady/", traffic.Handler(os.Getenv("POD_NAME")))

	// A client inside the cluster: it gets the URL and returns the body.
	mux.Handle("/fetch", &httputil.ReverseProxy{
		Transport: &http.Transport{DisableKeepAlives: true, ResponseHeaderTimeout: 5 * time.Second},
		Rewrite: func(r *httputil.ProxyRequest) {
			r.Out.URL, _ = url.Parse(r.In.URL.Query().Get("url"))
			r.Out.Host = ""
		},
	})

	config := &tls.Config{Certificates: []tls.Certificate{selfSigned()}, MinVersion: tls.VersionTLS13}
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	failed := make(chan error, 1)
	for _, e := range endpointsFor(args) {
		l := must.Get((&net.ListenConfig{}).Listen(ctx, "tcp", e.address))
		if !e.web {
			go func() { failed <- server.Serve(traffic.Proxied{Listener: l, Trusted: e.trusted}) }()
			continue
		}
		// A server of its own: an http.Server that has served without TLS does not serve HTTP/2.
		two := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second, TLSConfig: config}
		go func() { failed <- two.ServeTLS(l, "", "") }()
		three := &http3.Server{Addr: e.address, Handler: mux, TLSConfig: http3.ConfigureTLSConfig(config)}
		go func() { failed <- three.ListenAndServe() }()
	}

	wait := time.Duration(0) // no scenario sends requests to an ingress controller while it ends
	if len(args) == 0 {
		wait = lameDuck
		go func() { failed <- must.Catch(func() { serveUDP(ctx) }) }()
	}

	select {
	case err := <-failed:
		must.OK(err)
	case <-ctx.Done():
		time.Sleep(wait)
	}

	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	must.OK(server.Shutdown(ctx))
}

func serveUDP(ctx context.Context) {
	c := must.Get((&net.ListenConfig{}).ListenPacket(ctx, "udp", ":8083"))
	buffer := make([]byte, 1<<16)
	for {
		_, from := must.Get2(c.ReadFrom(buffer))
		client, _, _ := net.SplitHostPort(from.String())
		_, _ = c.WriteTo(seen(client), from)
	}
}

// seen returns the answer to a client.
func seen(client string) []byte {
	a := map[string]string{"pod": os.Getenv("POD_NAME"), "node": os.Getenv("NODE_NAME"), "client": client}
	b, _ := json.Marshal(a) // cannot fail: all fields are strings
	return b
}

// selfSigned returns a certificate that clients cannot verify.
func selfSigned() tls.Certificate {
	key := must.Get(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1),
		DNSNames:     []string{"echo"},
		NotAfter:     time.Now().AddDate(1, 0, 0),
	}
	der := must.Get(x509.CreateCertificate(rand.Reader, template, template, key.Public(), key))
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}
