// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package proxy is a proxy between the product and CloudStack. All calls of a run, including the suite's own, go
// through it: the guard checks each call, the proxy counts it and may inject a fault, and it compares the shape of the
// answer with the known ones.
package proxy

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/csccm/csccm/test/cloud/shape"
	"github.com/csccm/csccm/test/internal/must"
)

// Options of a proxy.
type Options struct {
	// Upstream is the URL of the CloudStack API.
	Upstream string
	// CAFile is a PEM file of CA certificates that sign the server's certificate; empty means the system's CAs.
	CAFile string
	Guard  *Guard
	// Contract is what answers are compared with; nil compares nothing.
	Contract *shape.Contract
	// Recorder records answers with unknown shapes; may be nil.
	Recorder *shape.Recorder
}

// Proxy serves the API on loopback.
type Proxy struct {
	o        Options
	upstream *httputil.ReverseProxy
	servers  []*http.Server
	fault    atomic.Pointer[func(*Call) Fault]

	mu      sync.Mutex
	calls   Calls
	unknown []string
	failed  error // the first recording that could not be written
}

// Who is the kind of caller.
const (
	Suite   = "suite"
	Product = "product"
)

// Call is one call to CloudStack.
type Call struct {
	Who     string
	Command string
	Fault   Fault

	params url.Values // not kept in the sequence of calls, because they contain keys
	after  func()     // runs after CloudStack has answered, before the caller gets the answer
}

// Changes reports whether the call changes something.
func (c *Call) Changes() bool { return !reads(c.Command) }

const (
	upstreamLimit = 3 * time.Minute
	headerLimit   = 10 * time.Second
	idlePerHost   = 32
)

// New returns a proxy that does not listen yet.
func New(o Options) (_ *Proxy, err error) {
	defer must.Return(&err)
	u, err := url.Parse(o.Upstream)
	must.Be(err == nil && u.Host != "" && (u.Scheme == "http" || u.Scheme == "https"),
		"CLOUD_URL %q is not an http or https URL; it usually ends in /client/api", o.Upstream)
	transport := &http.Transport{MaxIdleConnsPerHost: idlePerHost, Proxy: http.ProxyFromEnvironment}
	if o.CAFile != "" {
		pool := x509.NewCertPool()
		must.Be(pool.AppendCertsFromPEM(must.Get(os.ReadFile(o.CAFile))), "CLOUD_CA_FILE %s contains no PEM "+
			"certificate",
			o.CAFile)
		transport.TLSClientConfig = &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
	}

	p := &Proxy{o: o}
	p.upstream = &httputil.ReverseProxy{
		Transport: transport, ModifyResponse: p.answered, ErrorLog: log.New(io.Discard, "", 0),
		Rewrite: func(r *httputil.ProxyRequest) {
			query := r.Out.URL.RawQuery
			*r.Out.URL = *u
			r.Out.URL.RawQuery, r.Out.Host = query, ""
			r.Out.Header.Del("Accept-Encoding") // the transport requests an encoding that it can decode
		},
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) { cut() }, // as without the proxy
	}

	return p, nil
}

// Listen serves calls of one kind of caller on a free port of loopback and returns the URL of the API there.
func (p *Proxy) Listen(ctx context.Context, who string) (_ string, err error) {
	defer must.Return(&err)
	l := must.Get((&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0"))
	s := &http.Server{
		ReadHeaderTimeout: headerLimit,
		Handler:           http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { p.serve(who, w, r) }),
	}
	p.servers = append(p.servers, s)
	go func() { _ = s.Serve(l) }()
	return "http://" + l.Addr().String() + "/client/api", nil
}

// Stop ends the proxy and returns why recordings could not be written.
func (p *Proxy) Stop() error {
	for _, s := range p.servers {
		_ = s.Close()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.failed
}

// serve forwards one call.
func (p *Proxy) serve(who string, w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	r.Body = io.NopCloser(bytes.NewReader(body))
	err = errors.Join(err, r.ParseForm())
	for name, values := range r.Form {
		if len(values) > 1 { // the guard and CloudStack might read different ones
			err = errors.New(name + " is there twice")
		}
	}

	if err != nil {
		http.Error(w, "the request cannot be read", http.StatusBadRequest)
		return
	}

	r.Body = io.NopCloser(bytes.NewReader(body))
	call := &Call{Who: who, Command: r.Form.Get("command"), params: r.Form}
	if err := p.o.Guard.Judge(call.Command, call.params); err != nil {
		p.note(call)
		refuse(w, http.StatusForbidden, "the guard of this test run refuses the call: "+err.Error())
		return
	}

	if f := p.fault.Load(); f != nil && who == Product {
		call.Fault = (*f)(call)
	}

	p.note(call)
	switch call.Fault {
	case FailBefore:
		refuse(w, 530, "Internal error executing command, please contact your system administrator")
		return
	case CutBefore:
		cut()
	case None, LoseAnswer: // CloudStack does its work
	}

	// Learn what CloudStack has done even if the caller stops waiting for the answer.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), upstreamLimit)
	defer cancel()
	p.upstream.ServeHTTP(w, r.WithContext(context.WithValue(ctx, callKey{}, call)))
}

// callKey is the key of a request's call in its context.
type callKey struct{}

// answered processes CloudStack's answer before the caller gets it. After an error, the caller gets no answer.
func (p *Proxy) answered(resp *http.Response) error {
	call, _ := resp.Request.Context().Value(callKey{}).(*Call)
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}

	resp.Body = io.NopCloser(bytes.NewReader(body))

	// The proxy serves http, over which clients do not send cookies with the attribute Secure.
	for i, c := range resp.Header["Set-Cookie"] {
		resp.Header["Set-Cookie"][i] = strings.NewReplacer("; Secure", "", ";Secure", "", "; secure", "").Replace(c)
	}

	var content any
	if json.Unmarshal(body, &content) == nil {
		p.learn(call, resp, content)
	}

	if call.after != nil {
		call.after()
	}

	if call.Fault == LoseAnswer {
		return errors.New("the answer is lost")
	}

	return nil
}

// learn passes an answer to the guard and the contract.
func (p *Proxy) learn(call *Call, resp *http.Response, content any) {
	if resp.StatusCode == http.StatusOK {
		p.o.Guard.Learn(call.Command, content)
	}
	if p.o.Contract == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	unknown := p.o.Contract.Check(call.Command, content)
	p.unknown = append(p.unknown, unknown...)
	if len(unknown) > 0 && p.o.Recorder != nil {
		p.failed = errors.Join(p.failed,
			p.o.Recorder.Write(call.Command, call.Who, call.params, resp.StatusCode, resp.Header.Get("Content-Type"),
				content))
	}
}

// refuse answers as CloudStack refuses a call.
func refuse(w http.ResponseWriter, code int, text string) {
	w.Header().Set("Content-Type", "application/json;charset=utf-8")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(map[string]any{
		"errorresponse": map[string]any{"uuidList": []any{}, "errorcode": code, "cserrorcode": 9999, "errortext": text},
	})
}

// cut ends the connection without an answer.
func cut() { panic(http.ErrAbortHandler) }

// Mark is a point in the sequence of calls.
type Mark int

// note adds a call to the sequence.
func (p *Proxy) note(c *Call) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.calls = append(p.calls, Call{Who: c.Who, Command: c.Command, Fault: c.Fault})
}

// Mark returns the current point in the sequence.
func (p *Proxy) Mark() Mark {
	p.mu.Lock()
	defer p.mu.Unlock()
	return Mark(len(p.calls))
}

// Since returns the product's calls after a point.
func (p *Proxy) Since(m Mark) Calls {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(p.calls[m:]), func(c Call) bool { return c.Who != Product })
}

// Unknown returns the shapes that are in no recording, in the order in which they were seen.
func (p *Proxy) Unknown() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.unknown)
}

// Calls is a sequence of calls.
type Calls []Call

// WithoutPolls returns the calls without queries of jobs.
func (c Calls) WithoutPolls() Calls {
	return slices.DeleteFunc(slices.Clone(c),
		func(c Call) bool { return c.Command == "queryAsyncJobResult" || c.Command == "listAsyncJobs" })
}

// String returns the counts by command, highest first.
func (c Calls) String() string {
	counts := map[string]int{}
	for _, it := range c {
		counts[it.Command]++
	}
	var parts []string
	for _, name := range slices.SortedFunc(maps.Keys(counts),
		func(a, b string) int { return cmp.Or(counts[b]-counts[a], cmp.Compare(a, b)) }) {
		parts = append(parts, fmt.Sprintf("%d %s", counts[name], name))
	}
	return strings.Join(parts, ", ")
}

// Fault is a fault that the proxy injects into a call.
type Fault int

// The faults.
const (
	None Fault = iota
	// FailBefore answers 530 in place of CloudStack.
	FailBefore
	// CutBefore closes the connection; CloudStack does not get the call.
	CutBefore
	// LoseAnswer closes the connection after CloudStack has answered.
	LoseAnswer
)

// SetFault makes f choose the fault of each call of the product, one call at a time, until the returned function is
// called.
func (p *Proxy) SetFault(f func(*Call) Fault) (undo func()) {
	var one sync.Mutex
	locked := func(c *Call) Fault {
		one.Lock()
		defer one.Unlock()
		return f(c)
	}
	p.fault.Store(&locked)
	return func() { p.fault.Store(nil) }
}

// Random returns a function that fails a share of the calls and loses the answers of another share. The same seed
// gives the same sequence.
func Random(seed uint64, fail, lose float64) func(*Call) Fault {
	r := rand.New(rand.NewPCG(seed, 1)) // #nosec G404 -- the same for the same seed
	return func(*Call) Fault {
		switch x := r.Float64(); {
		case x < fail:
			return FailBefore
		case x < fail+lose:
			return LoseAnswer
		}
		return None
	}
}

// CrashAt loses the answer of the k-th call (from 1), or without every of the k-th call that changes something. It
// calls crash with the command before the caller notices that its connection has closed. Later calls are not
// forwarded, because a crashed process makes none.
func CrashAt(k int, every bool, crash func(at string)) func(*Call) Fault {
	n := 0
	return func(c *Call) Fault {
		switch {
		case n >= k:
			return CutBefore
		case !every && !c.Changes():
			return None
		}
		if n++; n < k {
			return None
		}
		c.after = func() { crash(c.Command) }
		return LoseAnswer
	}
}
