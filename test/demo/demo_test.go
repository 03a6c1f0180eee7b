// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"

	"github.com/csccm/csccm/pkg/cloudstack"
)

func TestQuote(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"--yes": "--yes", "bindAddress=$(POD_IP)": "'bindAddress=$(POD_IP)'", "": "''", "it's": `'it'\''s'`, "a,b=c": "a,b=c",
	} {
		if got := quote(in); got != want {
			t.Errorf("quote(%q) = %s, want %s", in, got, want)
		}
	}
}

func TestCheckRenamed(t *testing.T) {
	t.Parallel()
	r := func(id, name, members string) rule {
		return rule{LoadBalancerRule: cloudstack.LoadBalancerRule{ID: id, Name: name, PublicPort: 80}, members: members}
	}
	before := []rule{r("1", "lb-80", "a,b")}
	for name, c := range map[string]struct {
		after []rule
		want  string
	}{
		"renamed":     {[]rule{r("1", "lb-tcp-80", "a,b")}, ""},
		"not renamed": {[]rule{r("1", "lb-80", "a,b")}, "still has its old name"},
		"remade":      {[]rule{r("2", "lb-tcp-80", "a,b")}, "is gone"},
		"lost member": {[]rule{r("1", "lb-tcp-80", "a")}, "changed in more than its name"},
		"lost":        {nil, "1 rules at"},
	} {
		err := checkRenamed(before, c.after)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if checkRenamed(nil, nil) == nil {
		t.Error("a demo without legacy rules passes")
	}
}
