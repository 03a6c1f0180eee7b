// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package gate

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
)

// vulnerable is govulncheck's exit code if the program calls vulnerable code.
const vulnerable = 3

func vulnerabilities(ctx context.Context, c Conditions) Finding {
	f := Finding{What: "vulnerabilities"}
	args := append([]string{}, c.Govulncheck...)
	if c.VulnDB != "" {
		args = append(args, "-db", c.VulnDB)
	}
	args = append(args, "./cmd/...")
	cmd := exec.CommandContext(ctx, args[0], args[1:]...) //nolint:gosec // a release tool runs its checks
	cmd.Dir = c.Dir
	var out, errOut bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errOut
	err := cmd.Run()
	var exit *exec.ExitError
	switch {
	case err == nil:
		f.OK, f.Detail = true, "govulncheck knows none that the programs reach"
	case errors.As(err, &exit) && exit.ExitCode() == vulnerable:
		f.Detail = "govulncheck: " + strings.Join(ids(out.String()), ", ")
	case strings.Contains(errOut.String(), "fetching vulnerabilities"):
		f.Waived = c.AllowUnchecked
		f.Detail = "NOT CHECKED, govulncheck's database cannot be reached: " + lastLine(errOut.String())
		if !f.Waived {
			f.Detail += " (use --vuln-db for a copy, or --allow-unchecked-vulnerabilities to continue)"
		}
	default:
		f.Detail = fmt.Sprintf("govulncheck failed: %v: %s", err, lastLine(errOut.String()))
	}
	return f
}

// ids returns the IDs of the vulnerabilities in govulncheck's report.
func ids(report string) []string {
	var found []string
	for line := range strings.Lines(report) {
		if _, rest, ok := strings.Cut(line, "Vulnerability #"); ok {
			if _, id, ok := strings.Cut(rest, ": "); ok {
				found = append(found, strings.TrimSpace(id))
			}
		}
	}
	if len(found) == 0 {
		return []string{"vulnerabilities were found"}
	}
	return found
}

func lastLine(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.TrimSpace(lines[len(lines)-1])
}
