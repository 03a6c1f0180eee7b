// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/csccm/csccm/pkg/simulator"
	"github.com/csccm/csccm/pkg/simulator/datapath"
	"github.com/csccm/csccm/pkg/ui/page"
	uiserver "github.com/csccm/csccm/pkg/ui/server"
	"github.com/csccm/csccm/pkg/ui/simpage"
)

// The flags that enable endpoints.
const (
	apiFlag         = "--listen"
	integrationFlag = "--integration-listen"
	adminFlag       = "--admin-listen"
)

// graceful is the time that running calls have to finish after the server is asked to stop.
const graceful = 5 * time.Second

// server is the API and, if enabled, the integration port and the admin API. The page has a server of its own.
type server struct {
	endpoints []*endpoint
}

// endpoint is one listener.
type endpoint struct {
	flag     string
	path     string // path of its URL
	http     *http.Server
	listener net.Listener
}

func listen(ctx context.Context, sim *simulator.Simulator, o *options, routes []simulator.AdminRoute) (*server, error) {
	s := &server{}
	for _, e := range []struct {
		flag, addr, path string
		handler          http.Handler
	}{
		{apiFlag, o.listen, "/client/api", sim.Handler()},
		{integrationFlag, o.integration, "/client/api", sim.IntegrationHandler()},
		{adminFlag, o.admin, "", sim.AdminHandler(routes...)},
	} {
		if e.addr == "" && e.flag != apiFlag {
			continue
		}
		l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", e.addr)
		if err != nil {
			s.close()
			return nil, fmt.Errorf("%s %s: %w", e.flag, e.addr, err)
		}
		s.endpoints = append(s.endpoints,
			&endpoint{e.flag, e.path, &http.Server{Handler: e.handler, ReadHeaderTimeout: 30 * time.Second}, l})
		if a, ok := l.Addr().(*net.TCPAddr); e.flag == adminFlag && (!ok || !a.IP.IsLoopback()) {
			s.close()
			return nil, fmt.Errorf("%s %s: give a loopback address, because the admin API gives access to every key",
				e.flag, e.addr)
		}
	}

	return s, nil
}

func (s *server) close() {
	for _, e := range s.endpoints {
		_ = e.listener.Close() // already closed after a graceful shutdown
	}
}

// url returns the URL of the endpoint that the flag enables, or "" if the flag is not set.
func (s *server) url(flag string) string {
	for _, e := range s.endpoints {
		if e.flag == flag {
			return "http://" + e.listener.Addr().String() + e.path
		}
	}
	return ""
}

// ready is the content of the ready file.
type ready struct {
	URL            string               `json:"url"`
	IntegrationURL string               `json:"integrationURL,omitempty"`
	AdminURL       string               `json:"adminURL,omitempty"`
	PageURL        string               `json:"pageURL,omitempty"` // valid for one visit
	PID            int                  `json:"pid"`
	Users          []simulator.UserInfo `json:"users"`
}

// announce prints the URLs of the server and outputs the generated keys.
func (s *server) announce(
	sim *simulator.Simulator, path *datapath.Path, visit string, o *options, stdout io.Writer,
) error {
	r := ready{
		URL:            s.url(apiFlag),
		IntegrationURL: s.url(integrationFlag),
		AdminURL:       s.url(adminFlag),
		PageURL:        visit,
		PID:            os.Getpid(),
		Users:          sim.Users(),
	}

	var out strings.Builder
	for _, line := range [][2]string{
		{"CloudStack API:", r.URL}, {"integration port:", r.IntegrationURL}, {"admin endpoint:", r.AdminURL},
		{"page (one visit):", visit},
	} {
		if line[1] != "" {
			fmt.Fprintf(&out, "%-17s %s\n", line[0], line[1])
		}
	}

	if path != nil {
		describe(&out, path)
	}

	var keys strings.Builder
	for _, u := range r.Users {
		fmt.Fprintf(&out, "user %s (account %s, domain %s, role %s)\n", u.Name, u.Account, u.Domain, u.Role)
		if u.Generated {
			fmt.Fprintf(&keys, "user %s\n  api-key    = %s\n  secret-key = %s\n", u.Name, u.APIKey, u.SecretKey)
		}
	}

	if o.printKeys {
		out.WriteString(keys.String())
	}

	if _, err := io.WriteString(stdout, out.String()); err != nil {
		return fmt.Errorf("print the address: %w", err)
	}

	if o.readyFile == "" {
		return nil
	}

	data, err := json.MarshalIndent(r, "", "  ")
	if err == nil {
		err = writePrivate(o.readyFile, append(data, '\n'))
	}

	if err != nil {
		return fmt.Errorf("--ready-file: %w", err)
	}

	return nil
}

// writePrivate atomically writes a file with mode 0600, so that a reader never sees an incomplete file.
func writePrivate(path string, data []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*") // mode 0600
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}

// serve serves requests until the context ends, then waits for running calls.
func (s *server) serve(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	for _, e := range s.endpoints {
		group.Go(func() error {
			if err := e.http.Serve(e.listener); !errors.Is(err, http.ErrServerClosed) {
				return fmt.Errorf("serve the API: %w", err)
			}
			return nil
		})
		group.Go(func() error {
			<-ctx.Done()
			stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), graceful)
			defer cancel()
			if e.http.Shutdown(stop) != nil {
				_ = e.http.Close()
			}
			return nil
		})
	}

	return group.Wait()
}

// listenPage starts the server of the page for --ui, and returns its URL, which is valid for one visit.
func listenPage(ctx context.Context, sim *simulator.Simulator, o *options) (s *uiserver.Server, url string, err error) {
	if !o.ui {
		return nil, "", nil
	}
	source := simpage.New(sim)
	s, err = uiserver.Listen(ctx,
		uiserver.Options{Source: source, Actions: source, Files: page.Files(), Interval: simpage.Interval})
	if err != nil {
		return nil, "", fmt.Errorf("--ui: %w", err)
	}
	return s, s.URL(), nil
}
