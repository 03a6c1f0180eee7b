// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/csccm/csccm/pkg/simulator/internal/events"
	"github.com/csccm/csccm/pkg/simulator/internal/fault"
	"github.com/csccm/csccm/pkg/simulator/internal/jobs"
	"github.com/csccm/csccm/pkg/simulator/internal/wire"
)

// outcome is the result of a call.
type outcome struct {
	body   any
	err    *wire.Error
	caller string
	cut    bool // close the connection without an answer
	reuse  reuse
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
	// The servlet serves all paths below /client/api.
	case path == "/client/api" || strings.HasPrefix(path, "/client/api/"):
	case path == "/client" || path == "/client/":
		page := "<!DOCTYPE html><html><head><title>cloudstack-sim</title></head><body>The API is at " +
			"/client/api</body></html>\n"
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

	req, perr := wire.ParseRequest(r)
	if perr != nil {
		htmlError(w, perr.Status, perr.Text)
		return
	}

	began := s.server.Clock.Now()
	o := s.handle(w, r, req, integration)
	s.record(r.Context(), req, &o, began)
	if o.cut {
		panic(http.ErrAbortHandler) // close the connection without an answer
	}

	s.answer(w, r, req, o)
}

// handle runs the checks in CloudStack's order and then the command.
func (s *Simulator) handle(w http.ResponseWriter, r *http.Request, req *wire.Request, integration bool) outcome {
	faults := s.faults.Match(req.Command, s.server.Cat.ByName[req.Command],
		func() string { return s.sender(r, req, integration) })
	if f := fault.Pick(faults, FaultDelay); f != nil {
		if err := wire.Sleep(r.Context(), s.server.Clock, f.Delay); err != nil {
			return outcome{cut: true}
		}
	}

	if fault.Pick(faults, FaultCutBefore) != nil {
		return outcome{cut: true}
	}

	if err := wire.Refusal(faults); err != nil {
		return outcome{err: err, caller: s.sender(r, req, integration)}
	}

	s.runDue()
	o := s.dispatch(r.Context(), w, r, req, integration, faults)
	if fault.Pick(faults, FaultLostAnswer) != nil {
		o.cut = true
	}

	if f := fault.Pick(faults, FaultRestart); f != nil {
		s.Restart(f.Delay)
	}

	return o
}

// runDue runs the steps and ends of jobs that are due.
func (s *Simulator) runDue() {
	next := s.nextDue.Load()
	if next == 0 || s.server.Clock.Now().UnixNano() < next {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.runDueLocked()
}

func (s *Simulator) runDueLocked() {
	jobs.RunDue(s.st, s.server.Clock.Now())
	s.scheduled()
	s.watch.wake()
}

// scheduled starts the work that jobs do without the lock, and stores when the next job is due.
func (s *Simulator) scheduled() {
	for _, o := range jobs.TakeOutside(s.st) {
		go func() {
			effect := o.Run(s.ctx)
			s.mu.Lock()
			defer s.mu.Unlock()
			s.runDueLocked() // the step may have taken too long
			o.Resume(s.st, s.server.Clock.Now(), effect)
			s.runDueLocked()
		}()
	}
	s.nextDue.Store(s.st.NextDue())
}

func (s *Simulator) dispatch(
	ctx context.Context, w http.ResponseWriter, r *http.Request, req *wire.Request, integration bool, faults []*Fault,
) outcome {
	now := s.server.Clock.Now()
	if req.Command == "login" && !integration {
		body, err := s.login(w, req, now)
		return outcome{body: body, err: err, caller: req.Values["username"]}
	}

	api := s.server.Cat.ByName[req.Command]
	c := &wire.Call{Server: &s.server, Now: now, Req: req, API: api, Cmd: s.cmds[req.Command], Faults: faults}
	s.mu.RLock()
	c.St = s.st
	err := s.identify(c, r, integration)
	s.mu.RUnlock()
	if err != nil {
		return outcome{err: err, caller: callerName(c)}
	}

	o := outcome{caller: callerName(c)}
	if req.Command == "logout" {
		if c.Session != nil {
			s.server.Sessions.End(c.Session.ID)
			s.mu.Lock()
			recordUser(s.st, c.Caller.User, "USER.LOGOUT", "user has logged out", now)
			s.mu.Unlock()
		}
		o.body = map[string]string{"description": "success"}
		return o
	}

	if !req.JSON {
		o.err = wire.Errf(wire.CodeInternal, wire.CSGeneric, "the simulator answers JSON only: send response=json")
		return o
	}

	if c.Cmd == nil {
		o.err = wire.Errf(wire.CodeInternal, wire.CSGeneric, "the simulator does not implement the command %s",
			api.Name)
		return o
	}

	if fault.Pick(faults, FaultRouterRefuses) != nil && !api.Async {
		o.err = wire.Unreachable()
		return o
	}

	if err := wire.Sleep(ctx, s.server.Clock, s.server.Profile().CallTime(api.Name)); err != nil {
		o.cut = true
		return o
	}

	o.body, o.err = s.execute(ctx, c, &o.reuse)
	o.cut = errors.Is(ctx.Err(), context.Canceled) && o.body == nil && o.err == nil && o.reuse.text == nil
	return o
}

func callerName(c *wire.Call) string {
	if c.Caller.User == nil {
		return ""
	}
	return c.Caller.User.Username
}

// execute processes the parameters and runs the command.
func (s *Simulator) execute(ctx context.Context, c *wire.Call, reuse *reuse) (any, *wire.Error) {
	cmd := c.Cmd
	if s.answers != nil && cmd.Run != nil && !cmd.Write {
		s.mu.RLock()
		*reuse = s.answers.find(c, s.mu.changes)
		s.mu.RUnlock()
		if reuse.text != nil {
			return nil, nil
		}
	}

	c.Args = make(map[string]string, len(c.Req.Values))
	for k, v := range c.Req.Values {
		c.Args[k] = v
	}

	for _, name := range c.API.Absent {
		delete(c.Args, name)
	}

	if cmd.Run != nil && !cmd.Write {
		s.mu.RLock()
		defer s.mu.RUnlock()
		if err := c.ProcessParams(); err != nil {
			return nil, err
		}
		return result(cmd.Run(c))
	}

	if cmd.Lock != nil {
		// The create phase locks the row of an address or an account.
		s.mu.RLock()
		err := c.ProcessParams()
		key := ""
		if err == nil {
			key = cmd.Lock(c)
		}

		s.mu.RUnlock()
		if err != nil {
			return nil, err
		}

		if key != "" {
			release, err := s.acquire(ctx, c, key)
			if err != nil {
				return nil, nil
			}
			defer release()
			if s.server.Latency.LockRetry > 0 {
				if err := wire.Sleep(ctx, s.server.Clock, createTime); err != nil {
					return nil, nil
				}
			}
		}
	}

	s.mu.Lock()
	defer s.mu.Unlock()
	defer s.watch.wake()
	c.Now = s.server.Clock.Now()
	s.runDueLocked()
	if err := c.ProcessParams(); err != nil {
		return nil, err
	}

	if cmd.Run != nil {
		body, err := any(nil), c.CheckCustomID()
		if err == nil {
			body, err = cmd.Run(c)
		}
		events.RecordSync(c, body, err)
		return result(body, err)
	}

	spec, err := cmd.Submit(c)
	if err != nil {
		events.RecordRefused(c)
		return nil, wire.AsAPIError(err)
	}

	body, err := jobs.Submit(c, spec)
	s.scheduled()
	return result(body, err)
}

// acquire locks the row of a create phase. In profiles with latency, it also waits until no job holds the row.
func (s *Simulator) acquire(ctx context.Context, c *wire.Call, key string) (release func(), err error) {
	for {
		release, err := s.locks.Acquire(ctx, key)
		retry := s.server.Latency.LockRetry
		if err != nil || retry == 0 || c.Cmd.Busy == nil || !s.busy(c) {
			return release, err
		}
		release()
		if err := wire.Sleep(ctx, s.server.Clock, retry); err != nil {
			return nil, err
		}
	}
}

func (s *Simulator) busy(c *wire.Call) bool {
	s.runDue()
	s.mu.RLock()
	defer s.mu.RUnlock()
	return c.Cmd.Busy(c)
}

// createTime is how long a create phase holds the lock of its row in profiles with latency.
const createTime = 20 * time.Millisecond

func result(body any, err error) (any, *wire.Error) {
	if err != nil {
		return nil, wire.AsAPIError(err)
	}
	return body, nil
}

// bufs reuses the buffers of answers.
var bufs = sync.Pool{New: func() any { return new(bytes.Buffer) }}

// answer writes the outcome to the client.
func (s *Simulator) answer(w http.ResponseWriter, r *http.Request, req *wire.Request, o outcome) {
	if o.err != nil && o.err.Plain {
		w.Header().Set("Content-Type", "application/json;charset=utf-8") // the body is plain text despite this type
		w.WriteHeader(o.err.Status)
		_, _ = w.Write([]byte(o.err.Text))
		return
	}

	h := w.Header()
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-XSS-Protection", "1;mode=block")
	h.Set("Content-Security-Policy", "default-src 'self' 'unsafe-inline'; frame-ancestors 'self'")
	status, key, body := http.StatusOK, s.envelopeKey(req, o.err), o.body
	if o.err != nil {
		status, body = o.err.Status, o.err.Body()
		if o.err.CS != 0 || o.err.CSZero { // authentication errors do not have this header
			h.Set("X-Description", headerText(o.err.Text))
		}
	}

	if !req.JSON {
		h.Set("Content-Type", "text/xml; charset=UTF-8")
		w.WriteHeader(status)
		if o.err != nil {
			_, _ = w.Write(wire.ErrorXML(key, o.err))
		}
		return
	}

	h.Set("Content-Type", "application/json;charset=utf-8")
	if o.reuse.text != nil {
		write(w, r, status, o.reuse.text)
		return
	}

	buf, ok := bufs.Get().(*bytes.Buffer)
	if !ok {
		buf = new(bytes.Buffer)
	}
	defer bufs.Put(buf)
	buf.Reset()
	buf.WriteString(`{"` + key + `":`)
	if err := wire.Encode(buf, body); err != nil {
		htmlError(w, http.StatusInternalServerError, err.Error())
		return
	}

	buf.WriteByte('}')
	if err := wire.Older(s.server.Cat, buf); err != nil {
		htmlError(w, http.StatusInternalServerError, err.Error())
		return
	}

	if o.err == nil {
		s.answers.keep(o.reuse, buf.Bytes())
	}
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
func (s *Simulator) envelopeKey(req *wire.Request, err *wire.Error) string {
	switch {
	case err != nil && err.Key != "":
		return err.Key
	case req.Command == "":
		return "null"
	}
	api := s.server.Cat.ByName[req.Command]
	if api == nil {
		return "errorresponse"
	}
	if cmd := s.cmds[req.Command]; cmd != nil && cmd.Wrapper != "" {
		return cmd.Wrapper
	}
	return api.Lower + "response"
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
