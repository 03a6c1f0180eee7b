// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"sync"
	"time"
)

// outcome is the result of a call.
type outcome struct {
	body   any
	err    *apiError
	caller string
	cut    bool // close the connection without an answer
}

// serve answers one HTTP request.
func (s *Simulator) serve(w http.ResponseWriter, r *http.Request, integration bool) {
	if s.away() {
		panic(http.ErrAbortHandler) // simulates a server that is down
	}
	if s.closed.Load() {
		http.Error(w, errClosed.Error(), http.StatusServiceUnavailable)
		return
	}
	switch path := r.URL.Path; {
	case path == "/client/api" || strings.HasPrefix(path, "/client/api/"): // the servlet serves all paths below /client/api
	case path == "/client" || path == "/client/":
		page := "<!DOCTYPE html><html><head><title>cloudstack-sim</title></head><body>The API is at /client/api</body></html>\n"
		w.Header().Set("Content-Type", "text/html")
		_, _ = w.Write([]byte(page))
		return
	default:
		notFoundPage(w, r)
		return
	}
	if r.Method != http.MethodGet && r.Method != http.MethodPost && r.Method != http.MethodHead {
		htmlError(w, http.StatusMethodNotAllowed, "HTTP method "+r.Method+" is not supported by this URL")
		return
	}
	req, perr := parseRequest(r)
	if perr != nil {
		htmlError(w, perr.status, perr.text)
		return
	}
	o := s.handle(w, r, req, integration)
	s.record(r.Context(), req, &o)
	if o.cut {
		panic(http.ErrAbortHandler) // close the connection without an answer
	}
	s.answer(w, r, req, o)
}

// handle runs the checks in CloudStack's order, and then the command.
func (s *Simulator) handle(w http.ResponseWriter, r *http.Request, req *request, integration bool) outcome {
	faults := s.faults.match(req.command, s.cat.byName[req.command], func() string { return s.sender(r, req, integration) })
	if f := pick(faults, FaultDelay); f != nil {
		if err := sleep(r.Context(), s.clock, f.Delay); err != nil {
			return outcome{cut: true}
		}
	}
	if pick(faults, FaultCutBefore) != nil {
		return outcome{cut: true}
	}
	if err := refusal(faults); err != nil {
		return outcome{err: err, caller: s.sender(r, req, integration)}
	}
	s.runDue()
	o := s.dispatch(r.Context(), w, r, req, integration, faults)
	if pick(faults, FaultLostAnswer) != nil {
		o.cut = true
	}
	if f := pick(faults, FaultRestart); f != nil {
		s.Restart(f.Delay)
	}
	return o
}

// runDue ends the jobs that are due.
func (s *Simulator) runDue() {
	next := s.nextDue.Load()
	if next == 0 || s.clock.Now().UnixNano() < next {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.runDueLocked()
}

func (s *Simulator) runDueLocked() {
	s.st.runDue(s.clock.Now())
	s.nextDue.Store(s.st.nextDue())
	s.watch.wake()
}

func (s *Simulator) dispatch(ctx context.Context, w http.ResponseWriter, r *http.Request, req *request, integration bool, faults []*Fault) outcome {
	now := s.clock.Now()
	if req.command == "login" && !integration {
		body, err := s.login(w, req, now)
		return outcome{body: body, err: err, caller: req.values["username"]}
	}
	api := s.cat.byName[req.command]
	c := &call{server: &s.server, now: now, req: req, api: api, cmd: s.cmds[req.command], faults: faults}
	s.mu.RLock()
	c.st = s.st
	err := s.identify(c, r, integration)
	s.mu.RUnlock()
	if err != nil {
		return outcome{err: err, caller: c.callerName()}
	}
	o := outcome{caller: c.callerName()}
	if req.command == "logout" {
		if c.session != nil {
			s.sessions.end(c.session.id)
			s.recordUser(c.caller.user, "USER.LOGOUT", "user has logged out", now)
		}
		o.body = map[string]string{"description": "success"}
		return o
	}
	if !req.json {
		o.err = errf(codeInternal, csGeneric, "the simulator answers JSON only: send response=json")
		return o
	}
	if c.cmd == nil {
		o.err = errf(codeInternal, csGeneric, "the simulator does not implement the command %s", api.Name)
		return o
	}
	if pick(faults, FaultRouterRefuses) != nil && !api.Async {
		o.err = unreachable()
		return o
	}
	if err := sleep(ctx, s.clock, s.latency.call(api.Name)); err != nil {
		o.cut = true
		return o
	}
	o.body, o.err = s.execute(ctx, c)
	o.cut = errors.Is(ctx.Err(), context.Canceled) && o.body == nil && o.err == nil
	return o
}

func (c *call) callerName() string {
	if c.caller.user == nil {
		return ""
	}
	return c.caller.user.username
}

// execute processes the parameters and runs the command.
func (s *Simulator) execute(ctx context.Context, c *call) (any, *apiError) {
	cmd := c.cmd
	c.args = make(map[string]string, len(c.req.values))
	for k, v := range c.req.values {
		c.args[k] = v
	}
	for _, name := range c.api.absent {
		delete(c.args, name)
	}
	if cmd.run != nil && !cmd.write {
		s.mu.RLock()
		defer s.mu.RUnlock()
		if err := c.processParams(); err != nil {
			return nil, err
		}
		return result(cmd.run(c))
	}
	if cmd.lock != nil {
		// The create phase holds the lock of an address's or account's row.
		s.mu.RLock()
		err := c.processParams()
		key := ""
		if err == nil {
			key = cmd.lock(c)
		}
		s.mu.RUnlock()
		if err != nil {
			return nil, err
		}
		if key != "" {
			release, err := s.locks.acquire(ctx, key)
			if err != nil {
				return nil, nil
			}
			defer release()
			if s.latency.LockRetry > 0 {
				if err := sleep(ctx, s.clock, createTime); err != nil {
					return nil, nil
				}
			}
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	defer s.watch.wake()
	c.now = s.clock.Now()
	s.runDueLocked()
	if err := c.processParams(); err != nil {
		return nil, err
	}
	if cmd.run != nil {
		body, err := any(nil), c.checkCustomID()
		if err == nil {
			body, err = cmd.run(c)
		}
		c.recordSync(body, err)
		return result(body, err)
	}
	spec, err := cmd.submit(c)
	if err != nil {
		c.recordRefused()
		return nil, asAPIError(err)
	}
	body, err := c.submit(spec)
	s.nextDue.Store(s.st.nextDue())
	return result(body, err)
}

// createTime is how long a create phase holds the lock of its row in profiles with latency.
const createTime = 20 * time.Millisecond

func result(body any, err error) (any, *apiError) {
	if err != nil {
		return nil, asAPIError(err)
	}
	return body, nil
}

// bufs reuses the buffers of answers.
var bufs = sync.Pool{New: func() any { return new(bytes.Buffer) }}

// answer writes the outcome to the client.
func (s *Simulator) answer(w http.ResponseWriter, r *http.Request, req *request, o outcome) {
	if o.err != nil && o.err.plain {
		w.Header().Set("Content-Type", "application/json;charset=utf-8") // the body is plain text despite this type
		w.WriteHeader(o.err.status)
		_, _ = w.Write([]byte(o.err.text))
		return
	}
	h := w.Header()
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-XSS-Protection", "1;mode=block")
	h.Set("Content-Security-Policy", "default-src 'self' 'unsafe-inline'; frame-ancestors 'self'")
	status, key, body := http.StatusOK, s.envelopeKey(req, o.err), o.body
	if o.err != nil {
		status, body = o.err.status, o.err.body()
		if o.err.cs != 0 || o.err.csZero { // authentication errors do not have this header
			h.Set("X-Description", headerText(o.err.text))
		}
	}
	if !req.json {
		h.Set("Content-Type", "text/xml; charset=UTF-8")
		w.WriteHeader(status)
		if o.err != nil {
			_, _ = w.Write(errorXML(key, o.err))
		}
		return
	}
	buf, ok := bufs.Get().(*bytes.Buffer)
	if !ok {
		buf = new(bytes.Buffer)
	}
	defer bufs.Put(buf)
	buf.Reset()
	buf.WriteString(`{"` + key + `":`)
	if err := encode(buf, body); err != nil {
		htmlError(w, http.StatusInternalServerError, err.Error())
		return
	}
	buf.WriteByte('}')
	if err := s.cat.older(buf); err != nil {
		htmlError(w, http.StatusInternalServerError, err.Error())
		return
	}
	h.Set("Content-Type", "application/json;charset=utf-8")
	write(w, r, status, buf.Bytes())
}

// gzipFrom is Jetty's minimum size, in bytes, of answers to compress.
const gzipFrom = 32

// zips reuses compressors, which are large.
var zips = sync.Pool{New: func() any {
	gz, err := gzip.NewWriterLevel(nil, gzip.BestSpeed)
	if err != nil {
		return nil // cannot happen: the level is valid
	}
	return gz
}}

// wantsGzip reports whether the client accepts gzip.
func wantsGzip(r *http.Request) bool {
	for _, part := range strings.Split(r.Header.Get("Accept-Encoding"), ",") {
		name, weight, _ := strings.Cut(part, ";")
		if strings.EqualFold(strings.TrimSpace(name), "gzip") {
			q := strings.TrimSpace(weight)
			return q != "q=0" && q != "q=0.0" && q != "q=0.00" && q != "q=0.000"
		}
	}
	return false
}

func write(w http.ResponseWriter, r *http.Request, status int, body []byte) {
	gz, ok := (*gzip.Writer)(nil), false
	if len(body) >= gzipFrom && wantsGzip(r) {
		gz, ok = zips.Get().(*gzip.Writer)
	}
	if !ok {
		w.WriteHeader(status)
		_, _ = w.Write(body)
		return
	}
	defer zips.Put(gz)
	w.Header().Set("Content-Encoding", "gzip")
	w.Header().Set("Vary", "Accept-Encoding")
	w.WriteHeader(status)
	gz.Reset(w)
	_, _ = gz.Write(body)
	_ = gz.Close()
}

// envelopeKey returns the only key of the answer's outer object.
func (s *Simulator) envelopeKey(req *request, err *apiError) string {
	switch {
	case err != nil && err.key != "":
		return err.key
	case req.command == "":
		return "null"
	}
	api := s.cat.byName[req.command]
	if api == nil {
		return "errorresponse"
	}
	if cmd := s.cmds[req.command]; cmd != nil && cmd.wrapper != "" {
		return cmd.wrapper
	}
	return api.lower + "response"
}

// encode writes JSON like CloudStack, without HTML escapes.
func encode(buf *bytes.Buffer, v any) error {
	if l, ok := v.(listAnswer); ok {
		return l.encode(buf) // not a json.Marshaler, because the encoder would scan the answer a second time
	}
	enc := json.NewEncoder(buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return err
	}
	buf.Truncate(buf.Len() - 1) // Encode ends with a newline
	return nil
}

func marshal(v any) ([]byte, error) {
	var buf bytes.Buffer
	if err := encode(&buf, v); err != nil {
		return nil, err
	}
	return buf.Bytes(), nil
}

// headerText replaces the characters of an error text that are invalid in a header.
func headerText(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return ' '
		}
		return r
	}, s)
}
