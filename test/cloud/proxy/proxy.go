// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package proxy stands between the product and CloudStack. Every call of a run goes through it, also the suite's own: the
// guard judges it, it is counted, it may be made to fail, and the shape of its answer is compared with what is known.
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
	// CAFile are PEM certificates that sign the server's; empty means the system's.
	CAFile string
	Guard  *Guard
	// Contract is what answers are compared with; nil compares nothing.
	Contract *shape.Contract
	// Recorder takes answers with unknown shapes; may be nil.
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

// Who makes calls.
const (
	Suite   = "suite"
	Product = "product"
)

// Call is a call that was made.
type Call struct {
	Who     string
	Command string
	Fault   Fault

	params url.Values // they hold keys, and are not kept
	after  func()     // runs once CloudStack has answered, before the caller learns of it
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
		must.Be(pool.AppendCertsFromPEM(must.Get(os.ReadFile(o.CAFile))), "CLOUD_CA_FILE %s holds no PEM certificate", o.CAFile)
		transport.TLSClientConfig = &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
	}
	p := &Proxy{o: o}
	p.upstream = &httputil.ReverseProxy{
		Transport: transport, ModifyResponse: p.answered, ErrorLog: log.New(io.Discard, "", 0),
		Rewrite: func(r *httputil.ProxyRequest) {
			query := r.Out.URL.RawQuery
			*r.Out.URL = *u
			r.Out.URL.RawQuery, r.Out.Host = query, ""
			r.Out.Header.Del("Accept-Encoding") // the transport asks for what it can read
		},
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) { cut() }, // as the product would have seen it
	}
	return p, nil
}

// Listen serves calls of one kind of caller on a free port of loopback and returns the URL of the API there.
func (p *Proxy) Listen(ctx context.Context, who string) (_ string, err error) {
	defer must.Return(&err)
	l := must.Get((&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0"))
	s := &http.Server{ReadHeaderTimeout: headerLimit, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { p.serve(who, w, r) })}
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

// serve passes one call on.
func (p *Proxy) serve(who string, w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	r.Body = io.NopCloser(bytes.NewReader(body))
	err = errors.Join(err, r.ParseForm())
	for name, values := range r.Form {
		if len(values) > 1 { // the guard and CloudStack would perhaps not read the same one
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
	// What CloudStack has done is to be learnt, also when the caller does not wait for it.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), upstreamLimit)
	defer cancel()
	p.upstream.ServeHTTP(w, r.WithContext(context.WithValue(ctx, callKey{}, call)))
}

// callKey is the key of a request's call in its context.
type callKey struct{}

// answered takes CloudStack's answer to a call before the caller gets it. An error means that the answer is lost.
func (p *Proxy) answered(resp *http.Response) error {
	call, _ := resp.Request.Context().Value(callKey{}).(*Call)
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	resp.Body = io.NopCloser(bytes.NewReader(body))
	// Cookies for https alone would not come back over this proxy's http.
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

// learn tells guard and contract of an answer.
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
			p.o.Recorder.Write(call.Command, call.Who, call.params, resp.StatusCode, resp.Header.Get("Content-Type"), content))
	}
}

// refuse answers as CloudStack refuses a call.
func refuse(w http.ResponseWriter, code int, text string) {
	w.Header().Set("Content-Type", "application/json;charset=utf-8")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(map[string]any{"errorresponse": map[string]any{"uuidList": []any{}, "errorcode": code, "cserrorcode": 9999, "errortext": text}})
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

// Mark returns the point that has been reached.
func (p *Proxy) Mark() Mark {
	p.mu.Lock()
	defer p.mu.Unlock()
	return Mark(len(p.calls))
}

// Since returns the product's calls since a point.
func (p *Proxy) Since(m Mark) Calls {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(p.calls[m:]), func(c Call) bool { return c.Who != Product })
}

// Unknown returns the shapes that no recording has, in the order in which they came.
func (p *Proxy) Unknown() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.unknown)
}

// Calls are calls in their order.
type Calls []Call

// WithoutPolls leaves out questions about jobs.
func (c Calls) WithoutPolls() Calls {
	return slices.DeleteFunc(slices.Clone(c), func(c Call) bool { return c.Command == "queryAsyncJobResult" || c.Command == "listAsyncJobs" })
}

// String is the counts by command, the highest first.
func (c Calls) String() string {
	counts := map[string]int{}
	for i := range c {
		counts[c[i].Command]++
	}
	var parts []string
	for _, name := range slices.SortedFunc(maps.Keys(counts), func(a, b string) int { return cmp.Or(counts[b]-counts[a], cmp.Compare(a, b)) }) {
		parts = append(parts, fmt.Sprintf("%d %s", counts[name], name))
	}
	return strings.Join(parts, ", ")
}

// Fault is what happens to a call.
type Fault int

// The faults.
const (
	None Fault = iota
	// FailBefore answers 530 in place of CloudStack.
	FailBefore
	// CutBefore ends the connection, and CloudStack does not see the call.
	CutBefore
	// LoseAnswer ends the connection after CloudStack has done its work.
	LoseAnswer
)

// SetFault asks f about each call of the product, one at a time, until the function that it returns is called.
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

// Random lets shares of the calls fail, and of the answers be lost. The sequence is the same for the same seed.
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

// CrashAt loses the answer of the k-th call (from 1), or of the k-th that changes something unless every is set, and calls crash
// with its command before the caller learns that its connection has ended. Calls after it are not passed on: whoever crashed makes none.
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
