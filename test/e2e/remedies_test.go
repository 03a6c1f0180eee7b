// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/creack/pty"
	"github.com/rogpeppe/go-internal/testscript"

	"github.com/csccm/csccm/installer/check"
	"github.com/csccm/csccm/test/internal/must"
	"github.com/csccm/csccm/test/testenv"
)

// patience is the time within which a check must see a change that the controller makes in its next round.
const patience = 150 * time.Second

// measured are the times until a check failed after a fault with a text, and until it passed after the remedy.
type measured struct {
	code, said  string
	seen, green time.Duration
}

// rowOfFault matches a row of docs/contributing/faults.md: code, text before the first time, said, end.
var rowOfFault = regexp.MustCompile(
	`(?m)^(\| ([A-Z0-9]+-\d+) \| .* \| )[\d.]+( s \| ` + "`(.*)`" + ` \| )[\d.]+( s \|)$`,
)

// record writes the measured times to the page that CSCCM_FAULTS names.
func (s *scene) record() {
	page := os.Getenv("CSCCM_FAULTS")
	if page == "" {
		return
	}
	rows := slices.Clone(s.faults)
	text := rowOfFault.ReplaceAllStringFunc(string(must.Get(os.ReadFile(page))), func(row string) string {
		parts := rowOfFault.FindStringSubmatch(row)
		i := slices.IndexFunc(rows,
			func(m measured) bool { return m.code == parts[2] && strings.HasPrefix(m.said, parts[4]) })
		if i < 0 {
			return row
		}
		times := rows[i]
		rows = slices.Delete(rows, i, i+1)
		return fmt.Sprintf("%s%.1f%s%.1f%s", parts[1], times.seen.Seconds(), parts[3], times.green.Seconds(), parts[5])
	})
	must.OK(os.WriteFile(page, []byte(text), 0o600))
}

// look runs one check, of an install or of doctor.
func (s *scene) look(code string, args []string) check.Result {
	if code == "HELM-002" {
		said := s.csccm(s.t, "", "install", "--dry-run", "--values", "process.yaml")
		if _, remedy, failed := strings.Cut(said.all, "fix: "); failed {
			return check.Result{Finding: check.Finding{Outcome: check.Failed, Message: said.all, Remedy: remedy}}
		}
		return check.Result{Finding: check.Finding{Outcome: check.OK}}
	}
	said := s.csccm(s.t, "", append([]string{"doctor", "--only", code, "-o", "json"}, args...)...)
	var r check.Report
	must.OK(json.Unmarshal([]byte(said.out), &r))
	i := slices.IndexFunc(r.Checks, func(c check.Result) bool { return c.Code == code })
	must.Be(i >= 0, "it is not in the report: %s", said.all)
	return r.Checks[i]
}

// fails waits until a check fails with a text. Then it runs the commands of the remedy unchanged. If the remedy
// requires more, the next lines of the script do it.
func (s *scene) fails(ts *testscript.TestScript, args []string) {
	s.inherit(ts)
	began := time.Now()
	var found check.Result
	testenv.Await(s.t.Context(), patience, args[0]+" to fail", func(context.Context) {
		found = s.look(args[0], args[2:])
		text := found.Message
		for _, o := range found.Objects {
			text += "\n" + o.String() + ": " + o.Message
		}
		failed := found.Outcome == check.Failed || found.Outcome == check.Warning
		must.Be(failed && strings.Contains(text, args[1]), "it is %s: %s", found.Outcome, text)
	})

	s.faults = append(s.faults, measured{code: args[0], said: args[1], seen: time.Since(began)})
	must.Be(found.Remedy != "", "there is no remedy")
	ours := regexp.MustCompile("`((?:csccm|kubectl) [^`]+)`") // commands of other programs must run on other machines
	for _, c := range ours.FindAllStringSubmatch(found.Remedy, -1) {
		ts.Logf("the remedy: %s", c[1])
		// A new Pod has no log yet.
		testenv.Await(s.t.Context(), time.Minute, c[1], func(ctx context.Context) { s.line(ctx, ts, c[1]) })
	}
}

// passes waits until a check passes.
func (s *scene) passes(ts *testscript.TestScript, args []string) {
	s.inherit(ts)
	began := time.Now()
	testenv.Await(s.t.Context(), patience, args[0]+" to pass", func(context.Context) {
		now := s.look(args[0], args[1:])
		must.Be(now.Outcome == check.OK, "it is %s: %s %v", now.Outcome, now.Message, now.Objects)
	})
	for i := range s.faults {
		if row := &s.faults[i]; row.code == args[0] && row.green == 0 {
			row.green = time.Since(began)
		}
	}
	s.record()
}

// line runs a command line in a shell on a terminal and answers each question with yes.
func (s *scene) line(ctx context.Context, ts *testscript.TestScript, line string) {
	cmd := exec.CommandContext(ctx, "sh", "-c", line) // #nosec G204 -- a remedy
	cmd.Env = append([]string{"HOME=" + s.home, "PATH=" + ts.Getenv("PATH"), "TERM=dumb"}, s.environ...)
	cmd.Dir = s.home
	person := must.Get(pty.Start(cmd))
	defer func() { _ = person.Close() }()
	var screen bytes.Buffer
	var err error
	for buffer, answered := make([]byte, 4096), 0; err == nil; {
		var n int
		n, err = person.Read(buffer) // ends with an error when the command has ended
		screen.Write(buffer[:n])
		if asked := strings.Count(screen.String(), "(yes or no)"); asked > answered {
			answered = asked
			_, _ = person.WriteString("yes\n")
		}
	}

	s.session.Write(screen.Bytes())
	err = cmd.Wait()
	must.Be(err == nil, "%s: %v\n%s", line, err, &screen)
}
