// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package release

import (
	"bytes"
	"cmp"
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// shell runs programs of a maintainer or a user in a folder, and keeps a transcript.
type shell struct {
	t        *testing.T
	dir      string
	env      []string
	programs map[string]string // paths by name; others are those of the machine
	text     bytes.Buffer
}

func (s *shell) say(text string) { fmt.Fprintf(&s.text, "\n# %s\n", text) }

func (s *shell) try(program string, args ...string) (string, error) {
	cmd := exec.CommandContext(s.t.Context(), cmp.Or(s.programs[program], program), args...)
	cmd.Dir, cmd.Env = s.dir, s.env
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// run runs a program, which must succeed, without recording it.
func (s *shell) run(program string, args ...string) string {
	s.t.Helper()
	out, err := s.try(program, args...)
	require.NoError(s.t, err, "%s %v\n%s", program, args, out)
	return out
}

// step records and runs a program, which must succeed.
func (s *shell) step(program string, args ...string) string {
	s.t.Helper()
	fmt.Fprintf(&s.text, "\n$ %s %s\n", program, strings.Join(args, " "))
	out := s.run(program, args...)
	s.text.WriteString(out)
	return out
}

// refused records and runs a program, which must fail. Its output must contain want.
func (s *shell) refused(want, program string, args ...string) {
	s.t.Helper()
	out, err := s.try(program, args...)
	fmt.Fprintf(&s.text, "\n$ %s %s\n%s", program, strings.Join(args, " "), out)
	require.Error(s.t, err, "%s %v\n%s", program, args, out)
	require.Contains(s.t, out, want, "%s %v", program, args)
}
