// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"
)

// serveHTTP forwards one request of a client to a member, and the answer back, like HAProxy's mode http with
// httpclose.
func (r *rule) serveHTTP(front net.Conn, conf *Listener, client netip.AddrPort) {
	in := bufio.NewReaderSize(front, bufferSize)
	refused := func(status int) {
		refuse(counting{front, []*atomic.Int64{&r.bytesOut}}, status)
		_ = closeWrite(front)
		_ = front.SetReadDeadline(time.Now().Add(r.p.o.lingering))
		drain(in)
	}
	req, err := readRequest(in)
	switch {
	case err == nil:
	case broken(err):
		return // the client sent no request
	default:
		r.badRequests.Add(1)
		refused(http.StatusBadRequest)
		return
	}
	var asked []string
	if conf.Cookie != nil {
		asked = conf.Cookie.ask(req.Header)
	}
	back := r.reach(conf, client, asked)
	if back == nil {
		refused(http.StatusServiceUnavailable)
		return
	}
	x := &exchange{
		r: r, conf: conf, req: req, front: front, in: in, back: back, answers: bufio.NewReaderSize(back, bufferSize),
		toClient: counting{front, []*atomic.Int64{&r.bytesOut, &back.m.bytesOut}},
		toMember: counting{back, []*atomic.Int64{&r.bytesIn, &back.m.bytesIn}},
	}
	x.run(client)
}

// broken reports whether a connection ended before any data arrived, or failed.
func broken(err error) bool {
	var op net.Error
	return errors.Is(err, io.EOF) || errors.As(err, &op)
}

// exchange is a request with the member that answers it.
type exchange struct {
	r                  *rule
	conf               *Listener
	req                *http.Request
	front              net.Conn
	in                 *bufio.Reader // from the client
	back               *upstream
	answers            *bufio.Reader // from the member
	toClient, toMember counting

	uploaded  atomic.Bool // the body of the request was sent to the member
	malformed atomic.Bool // the body of the request is malformed
}

func (x *exchange) run(client netip.AddrPort) {
	defer x.back.close()
	x.prepareRequest(client)
	var body sync.WaitGroup
	line := fmt.Sprintf("%s %s HTTP/%d.%d", x.req.Method, x.req.RequestURI, x.req.ProtoMajor, x.req.ProtoMinor)
	if err := writeHead(x.toMember, line, x.req.Header); err == nil {
		body.Go(x.upload) // a member that closes early may have answered
	}
	resp, err := x.answer() //nolint:bodyclose // the connection is closed
	switch {
	case err != nil && x.r.p.ctx.Err() != nil:
		return // the path is closing its connections in any order, so the error is not the member's
	case err != nil && x.malformed.Load():
		x.r.badRequests.Add(1)
		refuse(x.toClient, http.StatusBadRequest)
	case err != nil:
		refuse(x.toClient, http.StatusBadGateway)
	case tunnels(x.req, resp):
		body.Wait()
		x.r.relay(buffered{x.front, x.in}, buffered{x.back, x.answers}, x.back.m)
		return
	default:
		chunks := len(resp.TransferEncoding) > 0 && resp.Body != http.NoBody
		if err := copyBody(x.toClient, resp.Body, chunks, &resp.Trailer); err != nil {
			_ = x.front.Close() // the answer is incomplete, and the client must be able to notice it
		}
	}
	_ = x.back.Close() // stops the upload: the member needs no more of the request
	_ = closeWrite(x.front)
	_ = x.front.SetReadDeadline(time.Now().Add(x.r.p.o.lingering))
	body.Wait()
	if !x.uploaded.Load() || x.in.Buffered() > 0 {
		drain(x.in)
	}
}

// prepareRequest sets the header fields of the request for the member.
func (x *exchange) prepareRequest(client netip.AddrPort) {
	h := x.req.Header
	if x.req.Host != "" {
		h["Host"] = []string{x.req.Host}
	}
	restoreFraming(h, x.req.TransferEncoding, x.req.Trailer)
	setConnection(h)
	h.Add("X-Forwarded-For", client.Addr().String())
	if x.conf.TLS != nil {
		h.Add("X-Forwarded-Proto", "https")
	}
}

// upload streams the body of the request to the member.
func (x *exchange) upload() {
	body := &source{Reader: x.req.Body}
	err := copyBody(x.toMember, body, len(x.req.TransferEncoding) > 0, &x.req.Trailer)
	x.uploaded.Store(err == nil)
	if body.failed {
		x.malformed.Store(true)
		_ = x.back.Close() // the answer is not needed any more
	}
}

// answer forwards the head of the answer, and of interim answers (1xx) before it.
func (x *exchange) answer() (*http.Response, error) {
	for {
		resp, err := readAnswer(x.answers, x.req)
		if err != nil {
			return nil, err
		}
		interim := resp.StatusCode < 200 && resp.StatusCode != http.StatusSwitchingProtocols
		if !interim {
			restoreFraming(resp.Header, resp.TransferEncoding, resp.Trailer)
			setConnection(resp.Header)
			if x.conf.Cookie != nil {
				x.conf.Cookie.answer(resp, x.req.Method, x.back.m.address, x.back.direct)
			}
		}
		line := fmt.Sprintf("HTTP/%d.%d %s", resp.ProtoMajor, resp.ProtoMinor, resp.Status)
		if err := writeHead(x.toClient, line, resp.Header); err != nil || !interim {
			return resp, nil //nolint:nilerr // if the client is gone, copying the body fails
		}
	}
}

// tunnels reports whether the connection switches to another protocol after an answer.
func tunnels(req *http.Request, resp *http.Response) bool {
	return resp.StatusCode == http.StatusSwitchingProtocols || req.Method == http.MethodConnect && resp.StatusCode/100 == 2
}

// buffered is a connection from which a reader has already read ahead.
type buffered struct {
	net.Conn
	in *bufio.Reader
}

func (b buffered) Read(p []byte) (int, error) { return b.in.Read(p) }

// CloseWrite closes the sending direction.
func (b buffered) CloseWrite() error { return closeWrite(b.Conn) }

// source records whether a read failed.
type source struct {
	io.Reader
	failed bool
}

func (s *source) Read(p []byte) (int, error) {
	n, err := s.Reader.Read(p)
	s.failed = s.failed || err != nil && !errors.Is(err, io.EOF)
	return n, err
}

// copyBody streams a body. The trailer is complete when the body has been read.
func copyBody(w io.Writer, body io.Reader, chunks bool, trailer *http.Header) error {
	if !chunks {
		_, err := io.Copy(w, body)
		return err
	}
	c := httputil.NewChunkedWriter(w)
	if _, err := io.Copy(c, body); err != nil {
		return err
	}
	return errors.Join(c.Close(), writeTrailer(w, *trailer))
}

// refuse writes an error answer of the load balancer itself.
func refuse(w io.Writer, status int) {
	text := fmt.Sprintf("%d %s", status, http.StatusText(status))
	body := "<html><body><h1>" + text + "</h1></body></html>\n"
	h := http.Header{
		"Content-Length": {fmt.Sprint(len(body))}, "Cache-Control": {"no-cache"}, "Content-Type": {"text/html"}, "Connection": {"close"},
	}
	if err := writeHead(w, "HTTP/1.1 "+text, h); err == nil {
		_, _ = io.WriteString(w, body) // the client may be gone
	}
}

// drain discards what the client still sends, until the read deadline. Closing a connection with unread data would
// make the kernel send a reset, which can destroy the answer before the client has read it.
func drain(in *bufio.Reader) { _, _ = io.Copy(io.Discard, in) }
