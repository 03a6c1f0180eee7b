// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// client returns an HTTP client that tries to reuse connections, like a browser.
func (b *testEnv) client(public string) *http.Client {
	t := &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) { return b.open(public, me) }, ExpectContinueTimeout: patience}
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
	s, err := b.open(public, me)
	require.NoError(b.t, err)
	defer func() { _ = s.Close() }()
	_, err = io.WriteString(s, text)
	require.NoError(b.t, err)
	require.NoError(b.t, s.SetDeadline(time.Now().Add(patience)))
	all, err := io.ReadAll(s.in)
	require.NoError(b.t, err)
	return string(all)
}

// members replaces both members of the site by scripted ones.
func (b *testEnv) members(serve func(c net.Conn)) {
	b.script("10.1.1.21:30080", serve)
	b.script("10.1.1.22:30080", serve)
}

// head reads the lines up to the empty line.
func head(in *bufio.Reader) (lines []string, err error) {
	for {
		line, err := in.ReadString('\n')
		if line == "\r\n" || err != nil {
			return lines, err
		}
		lines = append(lines, strings.TrimSuffix(line, "\r\n"))
	}
}

func TestOneRequestPerConnection(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t, Options{})
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
}

func TestRequestHead(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t, Options{})
	seen := make(chan []string, 1)
	b.members(func(c net.Conn) {
		lines, _ := head(bufio.NewReader(c))
		seen <- lines
		_, _ = io.WriteString(c, "HTTP/1.0 200 Fine\r\nX-Own: 1\r\n\r\nuntil the end")
	})
	answer := b.say(site, "\r\nGET /a?b=%2f HTTP/1.1\r\nHost: X.example\r\nX-Forwarded-For: 192.0.2.7\r\nConnection: keep-alive, TE\r\nAccept: */*\r\n\r\n")
	require.Equal(t, []string{
		"GET /a?b=%2f HTTP/1.1", "accept: */*", "connection: close", "host: X.example", "x-forwarded-for: 192.0.2.7", "x-forwarded-for: 127.0.0.1",
	}, <-seen)
	require.Equal(t, "HTTP/1.0 200 Fine\r\nconnection: close\r\nx-own: 1\r\n\r\nuntil the end", answer)
}

func TestProxyHeaderBeforeHTTP(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t, Options{})
	seen := make(chan []string, 1)
	b.members(func(c net.Conn) {
		lines, err := head(bufio.NewReader(c))
		if err != nil {
			return // a health check
		}
		seen <- lines
		_, _ = io.WriteString(c, "HTTP/1.1 204 No Content\r\n\r\n")
	})
	b.api(true, "updateLoadBalancerRule", "id", b.rule("80"), "algorithm", "roundrobin", "protocol", "tcp-proxy")
	b.inForce(b.rule("80"), func(l Listener) bool { return l.ProxyHeader })
	require.Contains(t, b.say(site, "GET / HTTP/1.1\r\nHost: x\r\n\r\n"), "204 No Content")
	lines := <-seen
	require.Regexp(t, `^PROXY TCP4 127.0.0.1 203.0.113.20 \d+ 80$`, lines[0])
	require.Equal(t, "GET / HTTP/1.1", lines[1])
}

func TestBadRequests(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t, Options{})
	rest := "Host: x\r\n\r\n"
	for name, text := range map[string]string{
		"no HTTP":                     "hello\n\n",
		"another version":             "GET / HTTP/2.0\r\n" + rest,
		"a blank in a name":           "GET / HTTP/1.1\r\nX Y: 1\r\n" + rest,
		"a head that is too long":     "GET / HTTP/1.1\r\nX: " + strings.Repeat("x", headLimit) + "\r\n" + rest,
		"fields that are too many":    "GET / HTTP/1.1\r\n" + strings.Repeat("X: 1\r\n", fieldLimit+1) + rest,
		"two lengths":                 "POST / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n" + rest,
		"a chunk without a length":    "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n" + rest + "zz\r\n",
		"a long line without any end": strings.Repeat("x", 2*bufferSize),
	} {
		before := b.at(site).BadRequests
		answer := b.say(site, text)
		require.True(t, strings.HasPrefix(answer, "HTTP/1.1 400 Bad Request\r\n"), "%s: %s", name, answer)
		require.Contains(t, answer, "\r\nconnection: close\r\n", name)
		require.Equal(t, before+1, b.at(site).BadRequests, name)
	}
	require.True(t, strings.HasPrefix(b.say(site, "GET / HTTP/1.1\r\n"+strings.Repeat("X: 1\r\n", fieldLimit-1)+rest), "HTTP/1.1 200"), "just within the limit")
	s, err := b.open(site, me)
	require.NoError(t, err)
	require.NoError(t, s.Conn.(*net.TCPConn).CloseWrite())
	_, err = s.line()
	require.ErrorIs(t, err, io.EOF, "without a request there is no answer")
}

func TestInvalidAnswers(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t, Options{})
	ask := "GET / HTTP/1.1\r\nHost: x\r\n\r\n"
	for name, says := range map[string]string{
		"nothing":                 "",
		"no HTTP":                 "SSH-2.0-OpenSSH\r\n\r\n",
		"a head that is too long": "HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", headLimit) + "\r\n\r\n",
		"half a head":             "HTTP/1.1 200 OK\r\nX: 1\r\n",
	} {
		b.members(func(c net.Conn) {
			_, _ = head(bufio.NewReader(c))
			_, _ = io.WriteString(c, says)
		})
		answer := b.say(site, ask)
		require.True(t, strings.HasPrefix(answer, "HTTP/1.1 502 Bad Gateway\r\n"), "%s: %s", name, answer)
	}
	b.members(func(c net.Conn) {
		_, _ = head(bufio.NewReader(c))
		_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n")
	})
	half := b.say(site, ask)
	require.Contains(t, half, "abc")
	require.NotContains(t, half, "\r\n0\r\n", "an incomplete answer is not terminated")

	for _, vm := range []string{"demo-worker-1", "demo-worker-2"} {
		b.api(true, "stopVirtualMachine", "id", b.vm(vm))
	}
	b.eventually("no member is up", func() bool {
		b.path.check()
		return strings.HasPrefix(b.say(site, ask), "HTTP/1.1 503 Service Unavailable\r\n")
	})
	require.Positive(t, b.at(site).NoMember)
}

// TestBodiesAreStreamed checks that bodies are forwarded before they are complete, in both directions.
func TestBodiesAreStreamed(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t, Options{})
	b.members(func(c net.Conn) {
		req, err := http.ReadRequest(bufio.NewReader(c))
		if err != nil {
			return
		}
		_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n")
		lines, n := bufio.NewScanner(req.Body), 0
		for ; lines.Scan(); n++ {
			line := lines.Text() + "\n"
			_, _ = fmt.Fprintf(c, "%x\r\n%s\r\n", len(line), line)
		}
		_, _ = fmt.Fprintf(c, "0\r\nX-Sum: %d of %s\r\n\r\n", n, req.Trailer.Get("X-Mine"))
	})
	r, w := io.Pipe()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://web.example.com/", r)
	require.NoError(t, err)
	req.Trailer = http.Header{"X-Mine": {"three"}}
	got := make(chan *http.Response, 1)
	go func() {
		resp, err := b.client(site).Do(req)
		if err == nil {
			got <- resp
		}
		close(got)
	}()
	_, err = io.WriteString(w, "a\n")
	require.NoError(t, err)
	resp := <-got
	require.NotNil(t, resp, "the head of the answer arrives before the end of the request")
	lines := bufio.NewReader(resp.Body)
	for i, text := range []string{"a\n", "b\n", "c\n"} {
		if i > 0 {
			_, err = io.WriteString(w, text)
			require.NoError(t, err)
		}
		line, err := lines.ReadString('\n')
		require.NoError(t, err)
		require.Equal(t, text, line)
	}
	require.NoError(t, w.Close())
	_, err = io.ReadAll(lines)
	require.NoError(t, err)
	require.Equal(t, "3 of three", resp.Trailer.Get("X-Sum"))
	require.NoError(t, resp.Body.Close())

	big := bytes.Repeat([]byte("0123456789abcdef"), 1<<17) // with a known length
	plain := newTestEnv(t, Options{})
	resp, err = plain.client(site).Post("http://web.example.com/", "application/octet-stream", bytes.NewReader(big))
	require.NoError(t, err)
	back, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.True(t, bytes.Equal(big, back))
	require.Greater(t, plain.at(site).BytesIn, int64(len(big)))
}

func TestInterimAnswers(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t, Options{})
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://web.example.com/", strings.NewReader("body"))
	require.NoError(t, err)
	req.Header.Set("Expect", "100-continue")
	resp, err := b.client(site).Do(req)
	require.NoError(t, err)
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.Equal(t, "body", string(body))
	require.NoError(t, resp.Body.Close())

	b.members(func(c net.Conn) {
		_, _ = head(bufio.NewReader(c))
		_, _ = io.WriteString(c, "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n")
	})
	require.Equal(t, "HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\nHTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 4\r\n\r\n",
		b.say(site, "HEAD / HTTP/1.1\r\nHost: x\r\n\r\n"), "an answer to HEAD has no body")
}

// TestEarlyAnswer checks that the answer of a member that does not read the whole body is forwarded.
func TestEarlyAnswer(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t, Options{})
	b.members(func(c net.Conn) {
		_, _ = head(bufio.NewReader(c))
		_, _ = io.WriteString(c, "HTTP/1.1 413 Content Too Large\r\nContent-Length: 0\r\n\r\n")
	})
	require.Contains(t, b.say(site, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1048576\r\n\r\n"+strings.Repeat("x", 1<<19)), "HTTP/1.1 413 Content Too Large\r\n")
}

// TestUpgrade checks that data is relayed in both directions after status 101, and that a change of rules does not
// close the connection.
func TestUpgrade(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t, Options{})
	b.members(func(c net.Conn) {
		in := bufio.NewReader(c)
		req, err := http.ReadRequest(in)
		if err != nil || req.Header.Get("Connection") != "upgrade" || req.Header.Get("Upgrade") != "websocket" {
			return
		}
		_, _ = io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
		_, _ = io.Copy(c, in)
	})
	s, err := b.open(site, me)
	require.NoError(t, err)
	defer func() { _ = s.Close() }()
	_, err = io.WriteString(s, "GET /chat HTTP/1.1\r\nHost: x\r\nConnection: keep-alive, Upgrade\r\nUpgrade: websocket\r\n\r\nfirst\n") // the request and the first data of the new protocol
	require.NoError(t, err)
	lines, err := head(s.in)
	require.NoError(t, err)
	require.Equal(t, []string{"HTTP/1.1 101 Switching Protocols", "connection: upgrade", "upgrade: websocket"}, lines)
	echo := func(text string) {
		t.Helper()
		if text != "first" {
			_, err := fmt.Fprintln(s, text)
			require.NoError(t, err)
		}
		got, err := s.line()
		require.NoError(t, err)
		require.Equal(t, text, got)
	}
	echo("first")
	echo("second")
	b.remove(b.rule("80"))
	echo("the rule has gone")
	require.NoError(t, s.Conn.(*net.TCPConn).CloseWrite())
	_, err = s.line()
	require.ErrorIs(t, err, io.EOF)
}

// TestAnswersOutliveTheirRule checks that an answer continues after its rule is deleted, and that Close ends exchanges without an
// answer.
func TestAnswersOutliveTheirRule(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t, Options{})
	goOn := make(chan string)
	b.members(func(c net.Conn) {
		if _, err := head(bufio.NewReader(c)); err != nil {
			return
		}
		_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\n\r\nbegin\n")
		_, _ = io.WriteString(c, <-goOn)
	})
	s, err := b.open(site, me)
	require.NoError(t, err)
	defer func() { _ = s.Close() }()
	_, err = io.WriteString(s, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
	require.NoError(t, err)
	_, err = head(s.in)
	require.NoError(t, err)
	line, err := s.line()
	require.NoError(t, err)
	require.Equal(t, "begin", line)
	b.remove(b.rule("80"))
	goOn <- "end\n"
	line, err = s.line()
	require.NoError(t, err)
	require.Equal(t, "end", line)

	silent := newTestEnv(t, Options{})
	asked := make(chan struct{}, 1)
	silent.members(func(c net.Conn) {
		in := bufio.NewReader(c)
		if _, err := head(in); err != nil {
			return
		}
		asked <- struct{}{}
		_, _ = io.Copy(io.Discard, in)
	})
	w, err := silent.open(site, me)
	require.NoError(t, err)
	defer func() { _ = w.Close() }()
	_, err = io.WriteString(w, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
	require.NoError(t, err)
	<-asked
	silent.path.Close()
	_, err = w.line()
	require.Error(t, err)
	require.NotErrorIs(t, err, os.ErrDeadlineExceeded, "Close closes the connection")
}
