// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// client returns an HTTP client that tries to reuse connections, like a browser.
func (b *testEnv) client(public string) *http.Client {
	t := &http.Transport{
		DialContext: func(context.Context, string, string) (net.Conn, error) { return b.open(public, me) },
	}
	b.t.Cleanup(t.CloseIdleConnections)
	return &http.Client{Transport: t, Timeout: patience}
}

// get returns an answer and its body.
func (b *testEnv) get(public, path string) (*http.Response, string) {
	b.t.Helper()
	resp, err := b.client(public).Get("http://web.example.com" + path)
	require.NoError(b.t, err)
	body, err := io.ReadAll(resp.Body)
	require.NoError(b.t, err)
	require.NoError(b.t, resp.Body.Close())
	return resp, string(body)
}

// say sends text on a new connection and returns everything that it receives.
func (b *testEnv) say(public, text string) string {
	b.t.Helper()
	s := b.connect(public, me)
	s.write(text)
	require.NoError(b.t, s.SetDeadline(time.Now().Add(patience)))
	all, err := io.ReadAll(s.in)
	require.NoError(b.t, err)
	return string(all)
}

// members replaces both members of the site by scripted members.
func (b *testEnv) members(serve func(c net.Conn)) {
	b.script("10.1.1.21:30080", serve)
	b.script("10.1.1.22:30080", serve)
}

// head reads until the empty line.
func head(in *bufio.Reader) error {
	for {
		line, err := in.ReadString('\n')
		if line == "\r\n" || err != nil {
			return err
		}
	}
}

// newHTTPEnv is newTestEnv with HAProxy.
func newHTTPEnv(t *testing.T) *testEnv {
	t.Helper()
	path := FindHAProxy()
	if path == "" && os.Getenv("CSCCM_HAPROXY") != "required" {
		t.Skip("there is no haproxy")
	}
	return newTestEnv(t, Options{HAProxy: path})
}

func TestOneRequestPerConnection(t *testing.T) {
	t.Parallel()
	b := newHTTPEnv(t)
	require.Equal(t, "http", b.at(site).Mode)
	require.Equal(t, "tcp", b.at(web).Mode)
	client, got := b.client(site), map[string]int{}
	for range 6 {
		resp, err := client.Get("http://web.example.com/")
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		require.True(t, resp.Close, "the answer has Connection: close")
		got[resp.Header.Get("X-Member")]++
	}
	require.Equal(t, map[string]int{"one": 3, "two": 3}, got, "each request is balanced")
	b.eventually("the connections end", func() bool { return b.at(site).Active == 0 })
	require.EqualValues(t, 6, b.at(site).Connections)

	two := b.say(site, "GET /a HTTP/1.1\r\nHost: x\r\nConnection: keep-alive\r\n\r\nGET /b HTTP/1.1\r\nHost: x\r\n\r\n")
	require.Equal(t, 1, strings.Count(two, "HTTP/1.1 200 OK"), "the second request on a connection is ignored")
	require.Contains(t, two, "\r\nconnection: close\r\n")

	id := b.rule("80")
	b.path.mu.Lock()
	h := b.path.rules[id].haproxy
	b.path.mu.Unlock()
	require.NoError(t, h.program.Process.Kill())
	b.eventually("HAProxy has ended", h.ended.Load)
	resp, _ := b.get(site, "/")
	require.Equal(t, http.StatusOK, resp.StatusCode, "another one takes its place")

	for _, vm := range []string{"demo-worker-1", "demo-worker-2"} {
		b.api(true, "stopVirtualMachine", "id", b.vm(vm))
	}
	b.eventually("no member is up", func() bool {
		b.path.check()
		resp, _ := b.get(site, "/")
		return resp.StatusCode == http.StatusServiceUnavailable
	})
}

// TestAnswersOutliveTheirRule checks that an answer continues after its rule is deleted, and that Close ends exchanges
// without an answer.
func TestAnswersOutliveTheirRule(t *testing.T) {
	t.Parallel()
	b := newHTTPEnv(t)
	goOn := make(chan string)
	b.members(func(c net.Conn) {
		if err := head(bufio.NewReader(c)); err != nil {
			return
		}
		_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\n\r\nbegin\n")
		_, _ = io.WriteString(c, <-goOn)
	})
	s := b.connect(site, me)
	s.write("GET / HTTP/1.1\r\nHost: x\r\n\r\n")
	err := head(s.in)
	require.NoError(t, err)
	line, err := s.line()
	require.NoError(t, err)
	require.Equal(t, "begin", line)
	b.remove(b.rule("80"))
	goOn <- "end\n"
	line, err = s.line()
	require.NoError(t, err)
	require.Equal(t, "end", line)

	silent := newHTTPEnv(t)
	asked := make(chan struct{}, 1)
	silent.members(func(c net.Conn) {
		in := bufio.NewReader(c)
		if err := head(in); err != nil {
			return
		}
		asked <- struct{}{}
		_, _ = io.Copy(io.Discard, in)
	})
	w := silent.connect(site, me)
	w.write("GET / HTTP/1.1\r\nHost: x\r\n\r\n")
	<-asked
	silent.path.Close()
	_, err = w.line()
	require.Error(t, err)
	require.NotErrorIs(t, err, os.ErrDeadlineExceeded, "Close closes the connection")
}

// TestRefusedByHAProxy checks that the previous configuration stays in force if HAProxy refuses a new one.
func TestRefusedByHAProxy(t *testing.T) {
	t.Parallel()
	b := newHTTPEnv(t)
	id := b.rule("80")
	b.api(true, "createLBStickinessPolicy", "lbruleid", id, "name", "p", "methodname", "LbCookie", "param[0].name",
		"mode", "param[0].value", "sticky")
	b.eventually("the rule is refused", func() bool { return len(b.path.Status().Refused) == 1 })
	require.Contains(t, b.path.Status().Refused[0].Reason, "HAProxy: 'cookie' supports 'rewrite'")
	resp, _ := b.get(site, "/")
	require.NotEmpty(t, resp.Header.Get("X-Member"))
	require.Empty(t, resp.Header["Set-Cookie"])
}

// TestWithoutHAProxy checks that HTTP is forwarded as TCP if there is no HAProxy.
func TestWithoutHAProxy(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t, Options{})
	require.Equal(t, "tcp", b.at(site).Mode)
	resp, _ := b.get(site, "/")
	require.NotEmpty(t, resp.Header.Get("X-Member"))
	require.EqualValues(t, 1, b.at(site).Connections)
}

func TestHAProxyConfig(t *testing.T) {
	t.Parallel()
	public := netip.MustParseAddrPort("203.0.113.20:80")
	for params, want := range map[*map[string]string]string{
		{}:                                 "cookie lbcooki_209728400_80 insert",
		{"cookie-name": "SRV", "mode": ""}: "cookie SRV",
		{
			"Cookie-Name": "SRV",
			"Mode":        "prefix",
			"indirect":    "false",
			"domain":      ".example.com",
		}: "cookie SRV prefix domain .example.com indirect",
	} {
		require.Equal(t, want, cookieLine(*params, public))
	}

	member := func(last int, running bool) Member {
		return Member{Address: netip.MustParseAddrPort(fmt.Sprintf("10.1.1.%d:30080", last)), Running: running}
	}
	l := Listener{
		Algorithm:   leastConn,
		ProxyHeader: true,
		Sticky:      time.Hour,
		StickySize:  1024,
		TLS:         &tls.Certificate{},
		Cookie:      "cookie SRV insert",
	}

	config := haproxyConfig(&l,
		[]backend{
			{member(21, true), "127.0.0.1:1", true},
			{member(22, false), "10.1.1.22:30080", true},
			{member(23, true), "10.1.1.23:30080", false},
		})

	require.Equal(t, `defaults
 mode http
 option forwardfor
 option httpclose
 option redispatch
 retries 3
 timeout connect 5s
 timeout client 50s
 timeout server 50s
listen rule
 bind fd@3 accept-proxy
 balance leastconn
 http-request set-header X-Forwarded-Proto https
 stick-table type ip size 1024 expire 3600s
 stick on src
 cookie SRV insert
 server 10_1_1_21-30080 127.0.0.1:1 cookie 10_1_1_21-30080 send-proxy
 server 10_1_1_22-30080 10.1.1.22:30080 cookie 10_1_1_22-30080 send-proxy disabled
 server 10_1_1_23-30080 10.1.1.23:30080 cookie 10_1_1_23-30080 send-proxy disabled
`, config)
}
