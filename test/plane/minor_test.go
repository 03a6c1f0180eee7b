// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package plane

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestParseMinor(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		text string
		want Minor
		err  string
	}{
		{"", Newest, ""},
		{"1.35", "1.35", ""},
		{"v1.36", "1.36", ""},
		{Minor("1.36").Release(), "1.36", ""},
		{strings.TrimPrefix(Version, "v"), Newest, ""},
		{"1.34", "", "no control plane of Kubernetes 1.34: there are [1.37 1.36 1.35]"},
		{"1.36.0", "", "no control plane of Kubernetes 1.36.0: there are [1.37 1.36 1.35]"},
	} {
		got, err := ParseMinor(c.text)
		if got != c.want || (err == nil) != (c.err == "") || err != nil && err.Error() != c.err {
			t.Errorf("ParseMinor(%q) = %q, %v; want %q, %q", c.text, got, err, c.want, c.err)
		}
	}
}

func TestMinorNames(t *testing.T) {
	t.Parallel()
	if m := Minor(""); m.Release() != Version || m.Folder() != Newest.Folder() {
		t.Errorf("the empty minor is %s in %s, want the newest", m.Release(), m.Folder())
	}
	if m := Minor("1.35"); m.Staging() != "v0.35.4" || m.Folder() != "k35" {
		t.Errorf("1.35 is %s in %s", m.Staging(), m.Folder())
	}
}

// TestMinorsAreGenerated fails when a folder was not generated from the current template.
func TestMinorsAreGenerated(t *testing.T) {
	t.Parallel()
	template, err := os.ReadFile(filepath.Join("gen", "main.go.tmpl"))
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range Minors() {
		source, err := os.ReadFile(filepath.Join(m.Folder(), "main.go"))
		if err != nil || !bytes.Equal(source, template) {
			t.Errorf("%s/main.go differs from gen/main.go.tmpl (%v): run go generate ./plane", m.Folder(), err)
		}
		mod, err := os.ReadFile(filepath.Join(m.Folder(), "go.mod"))
		if err != nil || !strings.Contains(string(mod), "\tk8s.io/kubernetes "+m.Release()+"\n") {
			t.Errorf("%s/go.mod does not require Kubernetes %s (%v): run go generate ./plane", m.Folder(), m.Release(), err)
		}
	}
	folders, err := filepath.Glob("k[0-9]*")
	if err != nil || len(folders) != len(Minors()) {
		t.Errorf("folders %v for minors %v (%v)", folders, Minors(), err)
	}
	if !slices.Contains(Minors(), Newest) || Minors()[0] != Newest {
		t.Errorf("the newest of %v is not %s", Minors(), Newest)
	}
}
