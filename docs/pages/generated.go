// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package pages

import (
	"fmt"
	"os"
	"strings"
)

// Part is a generated part of a page: the lines between <!-- NAME --> and <!-- /NAME -->. If NAME contains a colon,
// the closing comment has only the text before the colon.
type Part struct {
	Name string
	Want string
}

// Refresh compares the generated parts of a page with their wanted text. If update is true, it writes the parts that
// differ; otherwise it returns their names.
func Refresh(path string, parts []Part, update bool) (stale []string, err error) {
	raw, err := os.ReadFile(path) // #nosec G304 -- a page of the repository
	if err != nil {
		return nil, err
	}

	text := string(raw)
	for _, p := range parts {
		word, _, _ := strings.Cut(p.Name, ":")
		head, rest, ok := strings.Cut(text, "<!-- "+p.Name+" -->\n")
		end := strings.Index(rest, "<!-- /"+word+" -->")
		if !ok || end < 0 {
			return nil, fmt.Errorf("%s: no part between <!-- %s --> and <!-- /%s -->", path, p.Name, word)
		}
		want := strings.TrimSpace(p.Want) + "\n"
		if rest[:end] == want {
			continue
		}
		stale = append(stale, p.Name)
		text = head + "<!-- " + p.Name + " -->\n" + want + rest[end:]
	}

	if len(stale) == 0 || !update {
		return stale, nil
	}

	return nil, os.WriteFile(path, []byte(text), 0o644) // #nosec G306 G703 -- documentation
}
