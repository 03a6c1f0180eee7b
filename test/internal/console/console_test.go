// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package console

import (
	"bytes"
	"testing"

	"github.com/csccm/csccm/installer/engine/report"
)

// Colours reach a terminal without the marks by which csccm's writer knows them.
func TestColours(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	c := Console{Out: &out, Style: report.Style{Color: true}}
	c.Heading(1, "Nodes")
	if got := out.String(); bytes.ContainsRune(out.Bytes(), 0) || got != "\n\x1b[1m1. Nodes\x1b[0m\n\x1b[2m--------\x1b[0m\n" {
		t.Errorf("%q", got)
	}
}
