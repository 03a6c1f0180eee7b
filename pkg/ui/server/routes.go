// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"net/http"
	"path"
	"strings"
	"time"

	"github.com/csccm/csccm/pkg/ui/model"
)

func (s *Server) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /api/snapshot", s.snapshot)
	mux.HandleFunc("GET /api/events", s.events)
	if s.o.Actions != nil {
		mux.HandleFunc("POST /api/faults/{name}", s.setFault)
		mux.HandleFunc("POST /api/clock", s.setSpeed)
		mux.HandleFunc("POST /api/deeds/{name}", s.do)
	}
	mux.HandleFunc("/api/", http.NotFound)
	mux.HandleFunc("/", s.file)
	return mux
}

// kinds are the content types of the page's files. The machine's own table is not used: it differs between machines.
var kinds = map[string]string{
	".html": "text/html; charset=utf-8", ".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8",
	".svg": "image/svg+xml", ".png": "image/png", ".json": "application/json", ".map": "application/json",
	".txt": "text/plain; charset=utf-8",
}

func (s *Server) file(w http.ResponseWriter, r *http.Request) {
	name := strings.TrimPrefix(path.Clean(r.URL.Path), "/")
	if name == "" {
		name = "index.html"
	}

	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		http.Error(w, "this page is read only", http.StatusMethodNotAllowed)
		return
	}

	content, err := fs.ReadFile(s.o.Files, name)
	if err != nil { // directories, too
		http.NotFound(w, r)
		return
	}

	kind, ok := kinds[path.Ext(name)]
	if !ok {
		kind = "text/plain; charset=utf-8" // licences
	}

	w.Header().Set("Content-Type", kind)
	http.ServeContent(w, r, name, time.Time{}, bytes.NewReader(content))
}

func (s *Server) snapshot(w http.ResponseWriter, r *http.Request) {
	shown, _, err := s.state.get(r.Context())
	if err != nil {
		return // the request was cancelled, or the server stops
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(shown)
}

// events sends the snapshot and then patches, as server-sent events.
func (s *Server) events(w http.ResponseWriter, r *http.Request) {
	defer s.streams.Add(-1)
	if s.streams.Add(1) > maxStreams {
		http.Error(w, "too many pages are open", http.StatusServiceUnavailable)
		return
	}

	stream := &stream{w: w, control: http.NewResponseController(w)}
	w.Header().Set("Content-Type", "text/event-stream")
	stream.write("retry: 1000\n\n") // sends the headers before the first snapshot is read
	var last model.Snapshot
	alive := s.o.Clock.NewTicker(keepAlive)
	defer alive.Stop()
	for first := true; stream.err == nil; {
		shown, changed, err := s.state.get(r.Context())
		if err != nil {
			return
		}

		if first {
			stream.event("snapshot", shown)
			first = false
		} else if patch, differs := model.Diff(last, shown); differs {
			stream.event("patch", patch)
		}

		last = shown
		for waiting := true; waiting && stream.err == nil; {
			select {
			case <-r.Context().Done():
				return
			case <-changed:
				waiting = false
			case <-alive.C():
				stream.write(": keep-alive\n\n")
			}
		}
	}
}

// stream writes server-sent events until the first error.
type stream struct {
	w       io.Writer
	control *http.ResponseController
	err     error
}

func (s *stream) event(name string, value any) {
	data, err := json.Marshal(value) // without newlines, which would end the event
	if err != nil {
		s.err = err
		return
	}
	s.write("event: " + name + "\ndata: " + string(data) + "\n\n")
}

func (s *stream) write(text string) {
	if s.err != nil {
		return
	}
	// Each event has its own deadline: the server's write timeout is for a whole response.
	if s.err = s.control.SetWriteDeadline(time.Now().Add(writeTime)); s.err != nil {
		return
	}
	if _, s.err = io.WriteString(s.w, text); s.err == nil {
		s.err = s.control.Flush()
	}
}

func (s *Server) setFault(w http.ResponseWriter, r *http.Request) {
	var in struct {
		Enabled *bool  `json:"enabled"`
		Command string `json:"command"`
	}
	s.act(w, r, &in, func(ctx context.Context) error {
		if in.Enabled == nil {
			return errors.New(`the body lacks "enabled"`)
		}
		return s.o.Actions.SetFault(ctx, r.PathValue("name"), in.Command, *in.Enabled)
	})
}

func (s *Server) do(w http.ResponseWriter, r *http.Request) {
	var in struct {
		Object string `json:"object"`
	}
	s.act(w, r, &in, func(ctx context.Context) error { return s.o.Actions.Do(ctx, in.Object, r.PathValue("name")) })
}

func (s *Server) setSpeed(w http.ResponseWriter, r *http.Request) {
	var in struct {
		Speed float64 `json:"speed"`
	}
	s.act(w, r, &in, func(ctx context.Context) error {
		if !(in.Speed > 0) || math.IsInf(in.Speed, 0) {
			return errors.New(`"speed" must be more than 0`)
		}
		return s.o.Actions.SetSpeed(ctx, in.Speed)
	})
}

// act parses the body into in and calls do.
func (s *Server) act(w http.ResponseWriter, r *http.Request, in any, do func(context.Context) error) {
	if !isJSON(r) {
		http.Error(w, "the body must be application/json", http.StatusUnsupportedMediaType)
		return
	}

	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(readTime))
	body := json.NewDecoder(http.MaxBytesReader(w, r.Body, 4<<10))
	body.DisallowUnknownFields()
	err := body.Decode(in)
	if err != nil {
		err = fmt.Errorf("the body is not valid for %s: %w", r.URL.Path, err)
	} else {
		err = do(r.Context())
	}

	switch {
	case errors.Is(err, ErrUnknown):
		http.Error(w, err.Error(), http.StatusNotFound)
	case err != nil:
		http.Error(w, err.Error(), http.StatusBadRequest)
	default:
		s.state.readAgain()
		w.WriteHeader(http.StatusNoContent)
	}
}
