// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package journal

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/fake"
	ktesting "k8s.io/client-go/testing"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/csccm/csccm/installer/engine/report"
)

func options(t *testing.T) Options {
	t.Helper()
	return Options{
		Path: filepath.Join(t.TempDir(), "new", "journal.jsonl"), Kube: fake.NewClientset(), Namespace: "kube-system",
		Clock: clocktesting.NewFakePassiveClock(time.Unix(1_700_000_000, 0)), Command: "install",
		Scrub: func(s string) string { return strings.ReplaceAll(s, "canary", "***") },
	}
}

func TestJournal(t *testing.T) {
	t.Parallel()
	o := options(t)
	j, err := Open(o)
	require.NoError(t, err)
	require.NoError(t, j.Begin(t.Context(), "user"))
	j.Finish(t.Context(), "user", nil, "made user kubeadmin")
	require.Nil(t, Last(t.Context(), o.Kube, o.Namespace, "install"), "no copy before Publish")
	j.Publish(t.Context())
	require.NoError(t, j.Begin(t.Context(), "Secret", "create kube-system/cloudstack-secret"))

	// As after kill -9: the journal has no end and is not closed.
	killed := Last(t.Context(), o.Kube, o.Namespace, "install")
	require.False(t, killed.Ended())
	require.Equal(t, "Secret", killed.Step())
	require.Contains(t, killed.Describe(), `step "Secret" without a word; continuing`)
	require.Equal(t, []string{"made user kubeadmin"}, killed.Entries[1].Detail)

	j.Finish(t.Context(), "Secret", errors.New("the canary died"))
	j.Close(t.Context(), errors.New("the canary died"))
	text, err := os.ReadFile(o.Path)
	require.NoError(t, err)
	require.NotContains(t, string(text), "canary")
	info, err := os.Stat(o.Path)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	r, err := Parse(string(text))
	require.NoError(t, err)
	require.Equal(t, "the *** died", r.Failure())
	require.Equal(t, r, Last(t.Context(), o.Kube, o.Namespace, "install"))

	// The next run is appended and becomes the last run.
	o.Command = "uninstall"
	j, err = Open(o)
	require.NoError(t, err)
	require.NoError(t, j.Begin(t.Context(), "release"))
	require.NoError(t, j.Record(map[string]int{"was": 1}))
	j.Finish(t.Context(), "release", nil)
	j.Close(t.Context(), nil)
	text, err = os.ReadFile(o.Path)
	require.NoError(t, err)
	r, err = Parse(string(text) + `{"time":"2023-`)
	require.NoError(t, err, "an incomplete last line")
	require.Equal(t, "uninstall", r.Command)
	kept, err := Records(string(text))
	require.NoError(t, err)
	require.Equal(t, []json.RawMessage{[]byte(`{"was":1}`)}, kept)
	require.Empty(t, r.Describe())
	require.Nil(t, Last(t.Context(), o.Kube, o.Namespace, "uninstall"), "never published")
}

// A full disk is an error before anything is changed, and the message says what to do.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	if _, err := os.Stat("/dev/full"); err != nil {
		t.Skip("no /dev/full")
	}
	o := options(t)
	o.Path = "/dev/full"
	_, err := Open(o)
	require.EqualError(t, err, "the journal /dev/full cannot be written: no space left on device; nothing has been changed")
	var e *report.Error
	require.ErrorAs(t, err, &e)
	require.Equal(t, "free space on that disk, or name a file on another with --journal, and run the command again", e.Remedy())
}

// A disk that fills up during a run stops it before the next step.
func TestDiskFillsUp(t *testing.T) {
	t.Parallel()
	o := options(t)
	j, err := Open(o)
	require.NoError(t, err)
	require.NoError(t, j.Begin(t.Context(), "one"))
	require.NoError(t, j.file.Close())
	if j.file, err = os.OpenFile("/dev/full", os.O_WRONLY, 0); err != nil {
		t.Skip("no /dev/full")
	}
	var said string
	j.o.Warn = func(format string, _ ...any) { said = format }
	j.Finish(t.Context(), "one", nil)
	require.Contains(t, said, "cannot be written", "Finish only warns")
	err = j.Begin(t.Context(), "two")
	var e *report.Error
	require.ErrorAs(t, err, &e)
	require.Contains(t, err.Error(), "stopped before the next step")
	require.Contains(t, e.Remedy(), "it continues where it stopped")
}

func TestNoDirectory(t *testing.T) {
	t.Parallel()
	o := options(t)
	o.Path = filepath.Join(os.DevNull, "journal")
	_, err := Open(o)
	require.ErrorContains(t, err, "nothing has been changed")
}

func TestNoPermissionForConfigMap(t *testing.T) {
	t.Parallel()
	o := options(t)
	kube := fake.NewClientset()
	kube.PrependReactor("create", "configmaps", func(ktesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewForbidden(schema.GroupResource{Resource: "configmaps"}, ConfigMap, nil)
	})
	o.Kube = kube
	said := 0
	o.Warn = func(string, ...any) { said++ }
	j, err := Open(o)
	require.NoError(t, err)
	j.Publish(t.Context())
	require.NoError(t, j.Begin(t.Context(), "one"))
	require.Equal(t, 1, said, "once")
	_, err = kube.CoreV1().ConfigMaps("kube-system").Get(t.Context(), ConfigMap, metav1.GetOptions{})
	require.Error(t, err)
}

func TestParseRefuses(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "nonsense\nnonsense\n", `{"event":"done"}` + "\n" + `{"event":"end"}` + "\n"} {
		_, err := Parse(text)
		require.Error(t, err, "%q", text)
	}
	require.Empty(t, (*Run)(nil).Describe())
}
