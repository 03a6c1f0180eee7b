// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package e2e

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/creack/pty"
	"github.com/rogpeppe/go-internal/testscript"

	"github.com/csccm/csccm/installer/check"
	"github.com/csccm/csccm/test/testenv"
)

// patience is for a check that sees a change when the controller has made its next round.
const patience = 150 * time.Second

// look runs one check: that of an install, or of doctor.
func (s *scene) look(code string, args []string) (check.Result, error) {
	if code == "HELM-002" {
		said := s.csccm(s.t, "", "install", "--dry-run", "--values", "process.yaml")
		if _, remedy, failed := strings.Cut(said.all, "fix: "); failed {
			return check.Result{Code: code, Outcome: check.Failed, Message: said.all, Remedy: remedy}, nil
		}
		return check.Result{Code: code, Outcome: check.OK}, nil
	}
	said := s.csccm(s.t, "", append([]string{"doctor", "--only", code, "-o", "json"}, args...)...)
	var r check.Report
	if err := json.Unmarshal([]byte(said.out), &r); err != nil {
		return check.Result{}, fmt.Errorf("%w: %s", err, said.all)
	}
	i := slices.IndexFunc(r.Checks, func(c check.Result) bool { return c.Code == code })
	if i < 0 {
		return check.Result{}, errors.New("the report has no " + code + ": " + said.all)
	}
	return r.Checks[i], nil
}

// fails waits until a check fails and says a text. Then it runs the commands of the remedy as they stand; what else the remedy asks of a
// person is in the lines of the script that follow.
func (s *scene) fails(ts *testscript.TestScript, args []string) error {
	s.inherit(ts)
	var found check.Result
	err := testenv.Wait(s.t.Context(), patience, args[0]+" to fail", func(context.Context) (err error) {
		if found, err = s.look(args[0], args[2:]); err != nil {
			return err
		}
		text := found.Message
		for _, o := range found.Objects {
			text += "\n" + o.String() + ": " + o.Message
		}
		if found.Outcome != check.Failed && found.Outcome != check.Warning || !strings.Contains(text, args[1]) {
			return fmt.Errorf("it is %s: %s", found.Outcome, text)
		}
		return nil
	})
	if err == nil && found.Remedy == "" {
		err = errors.New("there is no remedy")
	}
	for _, c := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(found.Remedy, -1) {
		if err == nil && (strings.HasPrefix(c[1], "csccm ") || strings.HasPrefix(c[1], "kubectl ")) { // others are for another machine
			ts.Logf("the remedy: %s", c[1])
			err = testenv.Wait(s.t.Context(), time.Minute, c[1], func(context.Context) error { return s.line(ts, c[1]) }) // a new Pod has no log yet
		}
	}
	return err
}

// passes waits until a check passes.
func (s *scene) passes(ts *testscript.TestScript, args []string) error {
	s.inherit(ts)
	return testenv.Wait(s.t.Context(), patience, args[0]+" to pass", func(context.Context) error {
		now, err := s.look(args[0], args[1:])
		if err == nil && now.Outcome != check.OK {
			err = fmt.Errorf("it is %s: %s %v", now.Outcome, now.Message, now.Objects)
		}
		return err
	})
}

// line runs a command line in a shell on a terminal, where somebody answers each question with yes.
func (s *scene) line(ts *testscript.TestScript, line string) error {
	ctx, cancel := context.WithTimeout(s.t.Context(), commandLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, "sh", "-c", line) // #nosec G204 -- a remedy
	cmd.Env = append([]string{"HOME=" + s.home, "PATH=" + ts.Getenv("PATH"), "TERM=dumb"}, s.environ...)
	cmd.Dir = s.home
	person, terminal, err := pty.Open()
	if err != nil {
		return err
	}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = terminal, terminal, terminal
	if err := cmd.Start(); err != nil {
		return err
	}
	_ = terminal.Close()
	var screen bytes.Buffer
	for buffer, answered := make([]byte, 4096), 0; err == nil; {
		var n int
		n, err = person.Read(buffer) // ends with an error when the command has ended
		screen.Write(buffer[:n])
		if asked := strings.Count(screen.String(), "(yes or no)"); asked > answered {
			answered = asked
			_, _ = person.WriteString("yes\n")
		}
	}
	_ = person.Close()
	s.session.Write(screen.Bytes())
	if err := cmd.Wait(); err != nil {
		return fmt.Errorf("%s: %w\n%s", line, err, screen.String())
	}
	return nil
}

// serve has an address answer as an API server whose certificate is for an address.
func (s *scene) serve(_ *testscript.TestScript, args []string) error {
	if s.serving != nil {
		s.serving.Close()
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	c := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().AddDate(1, 0, 0), IPAddresses: []net.IP{net.ParseIP(args[1])}}
	der, err := x509.CreateCertificate(rand.Reader, c, c, key.Public(), key)
	if err != nil {
		return err
	}
	s.serving = httptest.NewUnstartedServer(http.NotFoundHandler())
	_ = s.serving.Listener.Close()
	if s.serving.Listener, err = new(net.ListenConfig).Listen(s.t.Context(), "tcp", args[0]+":6443"); err != nil {
		return err
	}
	s.serving.TLS = &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}, MinVersion: tls.VersionTLS12}
	s.serving.StartTLS()
	s.t.Cleanup(s.serving.Close)
	return nil
}
