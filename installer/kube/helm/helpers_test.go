// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package helm

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const (
	testName      = "cloudstack-ccm"
	testNamespace = "kube-system"
)

// fixture is a Client with an in-memory store and a kube client that can fail.
type fixture struct {
	*Client
	kube  *fakeKube
	store *memoryStore

	mu   sync.Mutex
	said []string
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	f := &fixture{
		kube:  newFakeKube(),
		store: newMemoryStore(testNamespace),
	}
	f.Client = newClient(testNamespace, func(format string, v ...any) {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.said = append(f.said, fmt.Sprintf(format, v...))
	})
	f.configuration = func() (*actionConfig, error) { return fakeConfig(f.store, f.kube, f.log), nil }
	return f
}

func (f *fixture) log(format string, v ...any) { f.Client.log(format, v...) }

func (f *fixture) logged() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return strings.Join(f.said, "\n")
}

// put stores a revision of an earlier operation.
func (f *fixture) put(t *testing.T, number int, status revisionStatus, age time.Duration, values map[string]any) {
	t.Helper()
	require.NoError(t, f.store.Create(&revision{
		Name:      testName,
		Namespace: testNamespace,
		Version:   number,
		Config:    values,
		Chart:     &chartData{Metadata: &chartMetadata{APIVersion: "v2", Name: testName, Version: "0.0.1", AppVersion: "v0.0.1"}},
		Info:      infoAt(time.Now().Add(-age), status),
	}))
}

func (f *fixture) statuses(t *testing.T) []string {
	t.Helper()
	revisions, err := f.History(t.Context(), testName)
	require.NoError(t, err)
	var out []string
	for i := len(revisions) - 1; i >= 0; i-- {
		out = append(out, fmt.Sprintf("%d %s", revisions[i].Revision, revisions[i].Status))
	}
	return out
}

func embedded(t *testing.T) *Chart {
	t.Helper()
	c, err := Embedded()
	require.NoError(t, err)
	return c
}

func request(t *testing.T, values map[string]any) ApplyRequest {
	t.Helper()
	return ApplyRequest{Name: testName, Chart: embedded(t), Values: values}
}
