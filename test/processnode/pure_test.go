// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package processnode

import (
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

func TestExpand(t *testing.T) {
	t.Parallel()
	values := map[string]string{"A": "1", "B_C": "two"}
	for in, want := range map[string]string{
		"":             "",
		"plain":        "plain",
		"$(A)":         "1",
		"x$(B_C)y$(A)": "xtwoy1",
		"$(NO)":        "$(NO)",
		"$$(A)":        "$(A)",
		"$$$(A)":       "$1",
		"$A":           "$A",
		"$(A":          "$(A",
		"cost: 5$":     "cost: 5$",
	} {
		if got := expand(in, values); got != want {
			t.Errorf("expand(%q) = %q, want %q", in, got, want)
		}
	}
}

func TestRepositoryOf(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"ghcr.io/csccm/cloudstack-ccm":                 "ghcr.io/csccm/cloudstack-ccm",
		"ghcr.io/csccm/cloudstack-ccm:v1":              "ghcr.io/csccm/cloudstack-ccm",
		"ghcr.io/csccm/cloudstack-ccm:v1@sha256:abcd":  "ghcr.io/csccm/cloudstack-ccm",
		"ghcr.io/csccm/cloudstack-ccm@sha256:abcd":     "ghcr.io/csccm/cloudstack-ccm",
		"localhost:5000/csccm/cloudstack-ccm":          "localhost:5000/csccm/cloudstack-ccm",
		"localhost:5000/csccm/cloudstack-ccm:v1.2.3-x": "localhost:5000/csccm/cloudstack-ccm",
		"nginx:1": "nginx",
	} {
		if got := repositoryOf(in); got != want {
			t.Errorf("repositoryOf(%q) = %q, want %q", in, got, want)
		}
	}
}

func TestNegotiateFlagz(t *testing.T) {
	t.Parallel()
	for accept, want := range map[string]struct {
		version string
		text    bool
	}{
		"":                 {"", true},
		"*/*":              {"", true},
		"text/plain":       {"", true},
		"application/json": {"", false},
		"application/json;v=v1beta1;g=config.k8s.io;as=Flagz":                                                               {"v1beta1", false},
		"application/json;as=Flagz;g=config.k8s.io;v=v1alpha1, text/plain":                                                  {"v1alpha1", false},
		"application/json;as=Flagz;g=config.k8s.io;v=v9,application/json;as=Flagz;g=config.k8s.io;v=v1beta1,text/plain;q=1": {"v1beta1", false},
		"application/json;as=Statusz;g=config.k8s.io;v=v1beta1":                                                             {"", false},
		"application/yaml": {"", false},
	} {
		version, text := negotiateFlagz(accept)
		if version != want.version || text != want.text {
			t.Errorf("Accept %q: %q, %t; want %q, %t", accept, version, text, want.version, want.text)
		}
	}
}

func TestSeekTail(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		text string
		n    int
		want string
	}{
		{"a\nb\nc\n", 1, "c\n"},
		{"a\nb\nc", 2, "b\nc"},
		{"a\nb\nc\n", 3, "a\nb\nc\n"},
		{"a\nb\nc\n", 9, "a\nb\nc\n"},
		{"", 1, ""},
		{"\n\n", 1, "\n"},
	} {
		f, err := os.CreateTemp(t.TempDir(), "")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.WriteString(c.text); err != nil {
			t.Fatal(err)
		}
		if _, err := f.Seek(0, io.SeekStart); err != nil {
			t.Fatal(err)
		}
		if err := seekTail(f, c.n); err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(f)
		if err != nil || string(got) != c.want {
			t.Errorf("tail %d of %q: %q, %v; want %q", c.n, c.text, got, err, c.want)
		}
		_ = f.Close()
	}
}

func TestWritePayloadIsAtomic(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	modes := map[string]fs.FileMode{}
	give := func(name string, mode fs.FileMode) error {
		modes[filepath.Base(name)] = mode
		return os.Chmod(name, mode)
	}
	write := func(p payload) {
		t.Helper()
		if err := writePayload(dir, p, give); err != nil {
			t.Fatal(err)
		}
	}
	read := func(name string) string {
		b, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			return err.Error()
		}
		return string(b)
	}
	write(payload{"a": {"1", 0o440}, "sub/b": {"2", 0o600}})
	first, err := os.Readlink(filepath.Join(dir, "..data"))
	if err != nil || read("a") != "1" || read("sub/b") != "2" || modes["a"] != 0o440 {
		t.Fatalf("%v, a=%s, b=%s, modes %v", err, read("a"), read("sub/b"), modes)
	}
	write(payload{"a": {"1", 0o440}, "sub/b": {"2", 0o600}})
	if same, _ := os.Readlink(filepath.Join(dir, "..data")); same != first {
		t.Error("an unchanged payload was written again")
	}
	write(payload{"a": {"3", 0o440}, "c": {"4", 0o600}})
	if read("a") != "3" || read("c") != "4" || !strings.Contains(read("sub/b"), "no such file") {
		t.Errorf("a=%s, c=%s, b=%s", read("a"), read("c"), read("sub/b"))
	}
	if _, err := os.Stat(filepath.Join(dir, first)); !os.IsNotExist(err) {
		t.Errorf("the old version is still there: %v", err)
	}
	if err := writePayload(dir, payload{"../x": {"5", 0o600}}, give); err == nil {
		t.Error("a file outside of the volume was written")
	}
}

func TestResourceValue(t *testing.T) {
	t.Parallel()
	c := &corev1.Container{Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{"memory": resource.MustParse("512Mi"), "cpu": resource.MustParse("1500m")}}}
	for _, x := range []struct{ resource, divisor, want string }{
		{"limits.memory", "1", "536870912"},
		{"limits.memory", "1Mi", "512"},
		{"limits.cpu", "1", "2"},
		{"limits.cpu", "1m", "1500"},
		{"requests.memory", "1Gi", "4"},
	} {
		got, err := resourceValue(c, &corev1.ResourceFieldSelector{Resource: x.resource, Divisor: resource.MustParse(x.divisor)})
		if err != nil || got != x.want {
			t.Errorf("%s / %s = %q, %v; want %s", x.resource, x.divisor, got, err, x.want)
		}
	}
	if _, err := resourceValue(c, &corev1.ResourceFieldSelector{Resource: "claims.x"}); err == nil {
		t.Error("an unknown resource has a value")
	}
}

func TestPhase(t *testing.T) {
	t.Parallel()
	good, bad := &ended{code: 0}, &ended{code: 1}
	for name, c := range map[string]struct {
		policy corev1.RestartPolicy
		state  containerState
		want   corev1.PodPhase
	}{
		"new":              {corev1.RestartPolicyAlways, containerState{}, corev1.PodPending},
		"crashed, restart": {corev1.RestartPolicyAlways, containerState{terminated: bad}, corev1.PodRunning},
		"ended, restart":   {corev1.RestartPolicyAlways, containerState{terminated: good}, corev1.PodRunning},
		"waits again":      {corev1.RestartPolicyAlways, containerState{last: bad}, corev1.PodRunning},
		"job done":         {corev1.RestartPolicyOnFailure, containerState{terminated: good}, corev1.PodSucceeded},
		"job tries again":  {corev1.RestartPolicyOnFailure, containerState{terminated: bad}, corev1.PodRunning},
		"job failed":       {corev1.RestartPolicyNever, containerState{terminated: bad}, corev1.PodFailed},
	} {
		if got := phase(c.policy, c.state); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}
