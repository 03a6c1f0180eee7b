// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package proxy stands between the product and CloudStack. Every call of a run goes through it, also the suite's own: the
// guard judges it, it is counted, it may be made to fail, and the shape of its answer is compared with what is known.
package proxy

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/csccm/csccm/test/cloud/guard"
	"github.com/csccm/csccm/test/cloud/shape"
	"github.com/csccm/csccm/test/internal/must"
)

// Options of a proxy.
type Options struct {
	// Upstream is the URL of the CloudStack API.
	Upstream string
	// CAFile are PEM certificates that sign the server's; empty means the system's.
	CAFile string
	Guard  *guard.Guard
	// Contract is what answers are compared with; nil compares nothing.
	Contract *shape.Contract
	// Learned takes the shape of answers that the contract does not have; may be nil.
	Learned *shape.Contract
	// Recorder takes answers with unknown shapes; may be nil.
	Recorder *shape.Recorder
}

// Proxy serves the API on loopback.
type Proxy struct {
	o        Options
	upstream *url.URL
	client   *http.Client
	servers  []*http.Server

	mu      sync.Mutex
	calls   []Call
	fault   func(*Call) Fault
	unknown map[string]shape.Unknown
	order   []string // of unknown
	failed  error    // the first recording that could not be written
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
	Params  url.Values // holds keys: never printed
	At      time.Time
	Took    time.Duration
	Status  int // of the answer; 0 where there was none
	Fault   Fault

	after func() // runs once CloudStack has answered, before the caller learns of it
}

// Changes reports whether the call changes something.
func (c *Call) Changes() bool { return !guard.Reads(c.Command) }

// Polls reports whether the call asks about jobs.
func (c *Call) Polls() bool {
	return c.Command == "queryAsyncJobResult" || c.Command == "listAsyncJobs"
}

const (
	upstreamLimit = 3 * time.Minute
	headerLimit   = 10 * time.Second
	idlePerHost   = 32
)

// New returns a proxy that does not listen yet.
func New(o Options) (*Proxy, error) {
	u, err := url.Parse(o.Upstream)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, fmt.Errorf("CLOUD_URL %q is not an http or https URL; it usually ends in /client/api", o.Upstream)
	}
	transport := &http.Transport{MaxIdleConnsPerHost: idlePerHost, Proxy: http.ProxyFromEnvironment}
	if o.CAFile != "" {
		text, err := os.ReadFile(o.CAFile)
		if err != nil {
			return nil, fmt.Errorf("CLOUD_CA_FILE: %w", err)
		}
		pool := x509.NewCertPool()
		if !pool.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("CLOUD_CA_FILE %s holds no PEM certificate", o.CAFile)
		}
		transport.TLSClientConfig = &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
	}
	return &Proxy{o: o, upstream: u, client: &http.Client{Transport: transport, Timeout: upstreamLimit}, unknown: map[string]shape.Unknown{}}, nil
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

// Stop ends the proxy.
func (p *Proxy) Stop() {
	for _, s := range p.servers {
		_ = s.Close()
	}
	p.client.CloseIdleConnections()
}

// serve passes one call on.
func (p *Proxy) serve(who string, w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		http.Error(w, "the request's body ended early", http.StatusBadRequest)
		return
	}
	params := r.URL.Query()
	if strings.HasPrefix(r.Header.Get("Content-Type"), "application/x-www-form-urlencoded") {
		form, err := url.ParseQuery(string(body))
		if err != nil {
			http.Error(w, "the request's body is no form", http.StatusBadRequest)
			return
		}
		for k, v := range form {
			params[k] = append(params[k], v...)
		}
	}
	call := &Call{Who: who, Command: params.Get("command"), Params: params, At: time.Now()}
	if err := p.o.Guard.Judge(call.Command, params); err != nil {
		refuse(w, http.StatusForbidden, "the guard of this test run refuses the call: "+err.Error())
		p.note(call)
		return
	}
	call.Fault = p.verdict(call)
	switch call.Fault {
	case FailBefore:
		refuse(w, errorInternal, "Internal error executing command, please contact your system administrator")
		p.note(call)
		return
	case CutBefore:
		p.note(call)
		cut(w)
		return
	case None, LoseAnswer: // CloudStack does its work
	}
	// What CloudStack has done is to be learnt, also when the caller does not wait for it.
	answer, err := p.forward(context.WithoutCancel(r.Context()), r, body)
	call.Took = time.Since(call.At)
	if err != nil {
		p.note(call)
		cut(w) // as the product would have seen it
		return
	}
	call.Status = answer.status
	p.learn(call, answer)
	p.note(call)
	if call.after != nil {
		call.after()
	}
	if call.Fault == LoseAnswer {
		cut(w)
		return
	}
	for k, v := range answer.header {
		if k != "Content-Length" && k != "Transfer-Encoding" && k != "Connection" {
			w.Header()[k] = v
		}
	}
	w.WriteHeader(answer.status)
	_, _ = w.Write(answer.body)
}

// answer is what CloudStack said.
type answer struct {
	status int
	header http.Header
	body   []byte
}

func (p *Proxy) forward(ctx context.Context, r *http.Request, body []byte) (_ *answer, err error) {
	defer must.Return(&err)
	u := *p.upstream
	u.RawQuery = r.URL.RawQuery
	req := must.Get(http.NewRequestWithContext(ctx, r.Method, u.String(), bytes.NewReader(body)))
	for _, k := range []string{"Content-Type", "Cookie", "User-Agent", "Accept"} {
		if v := r.Header.Values(k); len(v) > 0 {
			req.Header[k] = v
		}
	}
	resp, err := p.client.Do(req)
	if err != nil {
		return nil, errors.New("CloudStack does not answer")
	}
	defer func() { _ = resp.Body.Close() }()
	a := &answer{status: resp.StatusCode, header: resp.Header.Clone()}
	a.body = must.Get(io.ReadAll(resp.Body))
	// Cookies for https alone would not come back over this proxy's http.
	for i, c := range a.header["Set-Cookie"] {
		a.header["Set-Cookie"][i] = strings.NewReplacer("; Secure", "", ";Secure", "", "; secure", "").Replace(c)
	}
	return a, nil
}

// learn tells guard and contract of an answer.
func (p *Proxy) learn(call *Call, a *answer) {
	var v any
	if json.Unmarshal(a.body, &v) != nil {
		return
	}
	if a.status == http.StatusOK {
		p.o.Guard.Learn(call.Command, call.Params, v)
	}
	if p.o.Contract == nil {
		return
	}
	isNew := false
	p.mu.Lock()
	differences := p.o.Contract.Compare(call.Command, v)
	for _, u := range differences {
		if _, seen := p.unknown[u.String()]; !seen {
			p.unknown[u.String()], isNew = u, true
			p.order = append(p.order, u.String())
		}
	}
	if len(differences) > 0 && p.o.Learned != nil {
		p.o.Learned.Learn(call.Command, v)
	}
	p.mu.Unlock()
	if !isNew || p.o.Recorder == nil {
		return
	}
	if err := p.o.Recorder.Write(call.Command, call.Who, call.Params, a.status, a.header.Get("Content-Type"), v); err != nil {
		p.mu.Lock()
		p.failed = errors.Join(p.failed, err)
		p.mu.Unlock()
	}
}

// errorInternal is what CloudStack answers when something in it went wrong.
const errorInternal = 530

// refuse answers as CloudStack refuses a call.
func refuse(w http.ResponseWriter, code int, text string) {
	w.Header().Set("Content-Type", "application/json;charset=utf-8")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(map[string]any{"errorresponse": map[string]any{"uuidList": []any{}, "errorcode": code, "cserrorcode": 9999, "errortext": text}})
}

// cut ends the connection without an answer.
func cut(w http.ResponseWriter) {
	if h, ok := w.(http.Hijacker); ok {
		if c, _, err := h.Hijack(); err == nil {
			_ = c.Close()
			return
		}
	}
	panic(http.ErrAbortHandler)
}
