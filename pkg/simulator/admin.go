// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// AdminHandler serves the admin API of the simulator, in JSON:
//
//	GET    /healthz                        version, profile, number of calls and of running jobs
//	GET    /ledger?command=&caller=        the calls since the last reset; command may be a pattern with *
//	DELETE /ledger                         clears the ledger
//	GET    /faults                         the armed faults, each with its number of hits
//	POST   /faults {"fault":"TEXT"}        arms a fault (ParseFault)
//	DELETE /faults, /faults/ID             disarms all faults, or one
//	POST   /restart {"away":"20s"}         Restart
//	POST   /clock {"step":"1h"}            advances the clock, unless it is the real clock
//
// and the given routes. The API has no authentication: bind it to a loopback address. Requests that a web page in a
// browser could send are refused (a foreign Host header, a POST that is not JSON).
func (s *Simulator) AdminHandler(routes ...AdminRoute) http.Handler {
	mux := http.NewServeMux()
	for _, route := range routes {
		mux.HandleFunc(route.Pattern, func(w http.ResponseWriter, r *http.Request) {
			adminAnswer(w, r, func(r *http.Request) (int, any, error) {
				body, err := route.Answer(r)
				if err != nil {
					return 0, nil, badRequest("%s", err)
				}
				return http.StatusOK, body, nil
			})
		})
	}

	for pattern, f := range map[string]func(*http.Request) (int, any, error){
		"GET /healthz":        s.adminHealth,
		"GET /ledger":         s.adminLedger,
		"DELETE /ledger":      s.adminResetLedger,
		"GET /faults":         s.adminFaults,
		"POST /faults":        s.adminInject,
		"DELETE /faults":      s.adminDisarm,
		"DELETE /faults/{id}": s.adminDisarm,
		"POST /restart":       s.adminRestart,
		"POST /clock":         s.adminClock,
	} {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) { adminAnswer(w, r, f) })
	}

	return mux
}

// AdminRoute is an additional route of the admin API. An error from Answer becomes status 400.
type AdminRoute struct {
	Pattern string
	Answer  func(r *http.Request) (any, error)
}

// adminError is an error with its HTTP status.
type adminError struct {
	status int
	text   string
}

func (e adminError) Error() string { return e.text }

func badRequest(format string, v ...any) error {
	return adminError{http.StatusBadRequest, fmt.Sprintf(format, v...)}
}

// adminAnswer runs an admin handler and writes its result: no body, a YAML text or a JSON object.
func adminAnswer(w http.ResponseWriter, r *http.Request, f func(*http.Request) (int, any, error)) {
	status, body, err := 0, any(nil), adminAllowed(r)
	if err == nil {
		status, body, err = f(r)
	}

	if err != nil {
		status = http.StatusInternalServerError
		var e adminError
		if errors.As(err, &e) {
			status = e.status
		}
		body = map[string]string{"error": err.Error()}
	}

	if text, ok := body.([]byte); ok {
		w.Header().Set("Content-Type", "application/yaml")
		w.WriteHeader(status)
		_, _ = w.Write(text)
		return
	}

	if body == nil {
		w.WriteHeader(status)
		return
	}

	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(body) // the client may have closed the connection
}

// adminAllowed refuses requests that a web page could make a browser send.
func adminAllowed(r *http.Request) error {
	host := r.Host
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	host = strings.Trim(host, "[]")
	if host != "localhost" && net.ParseIP(host) == nil {
		return adminError{http.StatusForbidden, fmt.Sprintf("host %q: use an address or localhost", host)}
	}
	if kind, _, _ := strings.Cut(r.Header.Get("Content-Type"), ";"); (r.Method == http.MethodPost ||
		r.Method == http.MethodPut) && kind != "application/json" {
		return adminError{http.StatusUnsupportedMediaType, "send the body as Content-Type: application/json"}
	}
	return nil
}

// maxAdminBody limits the size of a request body, in bytes.
const maxAdminBody = 1 << 16

// readAdmin decodes the request body; an empty body leaves into unchanged.
func readAdmin(r *http.Request, into any) error {
	dec := json.NewDecoder(io.LimitReader(r.Body, maxAdminBody))
	dec.DisallowUnknownFields()
	if err := dec.Decode(into); err != nil && !errors.Is(err, io.EOF) {
		return badRequest("read the body: %s", err)
	}
	return nil
}

func (s *Simulator) adminHealth(*http.Request) (int, any, error) {
	s.runDue()
	s.mu.RLock()
	defer s.mu.RUnlock()
	status := "ok"
	if s.away() {
		status = "restarting"
	}
	return http.StatusOK, map[string]any{
		"status":      status,
		"version":     s.st.Version,
		"profile":     s.server.Latency.Name,
		"calls":       s.ledger.Count(),
		"runningJobs": len(s.st.Due),
		"faults":      s.faults.Count.Load(),
		"time":        s.server.Clock.Now().UTC().Format(time.RFC3339),
	}, nil
}

func (s *Simulator) adminLedger(r *http.Request) (int, any, error) {
	q := r.URL.Query()
	calls := s.ledger.Find(q.Get("command"), q.Get("caller"))
	counts := map[string]int{}
	for i := range calls {
		counts[calls[i].Command]++
	}
	return http.StatusOK, map[string]any{"count": len(calls), "counts": counts, "calls": calls}, nil
}

func (s *Simulator) adminResetLedger(*http.Request) (int, any, error) {
	s.ledger.Reset()
	return http.StatusNoContent, nil, nil
}

func (s *Simulator) adminFaults(*http.Request) (int, any, error) {
	return http.StatusOK, map[string]any{"faults": s.Faults()}, nil
}

func (s *Simulator) adminInject(r *http.Request) (int, any, error) {
	var body struct {
		Fault string `json:"fault"`
	}
	if err := readAdmin(r, &body); err != nil {
		return 0, nil, err
	}
	f, err := ParseFault(body.Fault)
	if err != nil {
		return 0, nil, badRequest("%s", err)
	}
	a := s.faults.Inject(f)
	return http.StatusCreated, ArmedFault{ID: a.ID, Fault: f.String()}, nil
}

func (s *Simulator) adminDisarm(r *http.Request) (int, any, error) {
	id := 0
	if v := r.PathValue("id"); v != "" {
		n, err := strconv.Atoi(v)
		if err != nil || n < 1 {
			return 0, nil, badRequest("fault id %q is not a number from 1", v)
		}
		id = n
	}
	if s.faults.Remove(id) == 0 && id != 0 {
		return 0, nil, adminError{http.StatusNotFound, fmt.Sprintf("no fault has the id %d", id)}
	}
	return http.StatusNoContent, nil, nil
}

func (s *Simulator) adminRestart(r *http.Request) (int, any, error) {
	d, err := duration(r, "away", 0)
	if err != nil {
		return 0, nil, err
	}
	s.Restart(d)
	return http.StatusNoContent, nil, nil
}

// duration reads a body whose only member is a duration of at least least; the member may be absent if least is 0.
func duration(r *http.Request, name string, least time.Duration) (time.Duration, error) {
	var body map[string]string
	if err := readAdmin(r, &body); err != nil {
		return 0, err
	}
	text, ok := body[name]
	if len(body) > 1 || len(body) == 1 && !ok {
		return 0, badRequest("the body has one member: %s", name)
	}
	if !ok && least == 0 {
		return 0, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < least {
		return 0, badRequest("%s %q is not a time such as 20s", name, text)
	}
	return d, nil
}

// stepper is a clock that can be advanced, such as a fake clock in tests.
type stepper interface{ Step(d time.Duration) }

func (s *Simulator) adminClock(r *http.Request) (int, any, error) {
	c, ok := s.server.Clock.(stepper)
	if !ok {
		return 0, nil, adminError{http.StatusConflict, "this simulator runs on the real clock"}
	}
	d, err := duration(r, "step", time.Nanosecond)
	if err != nil {
		return 0, nil, err
	}
	c.Step(d)
	return http.StatusOK, map[string]string{"time": s.server.Clock.Now().UTC().Format(time.RFC3339)}, nil
}
