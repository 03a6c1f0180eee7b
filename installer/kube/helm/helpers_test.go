// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package helm

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chartutil"
	kubefake "helm.sh/helm/v3/pkg/kube/fake"
	"helm.sh/helm/v3/pkg/release"
	"helm.sh/helm/v3/pkg/storage"
	"helm.sh/helm/v3/pkg/storage/driver"
	helmtime "helm.sh/helm/v3/pkg/time"
)

const (
	testName      = "cloudstack-ccm"
	testNamespace = "kube-system"
)

// fixture is a Client with an in-memory store and a kube client that can fail.
type fixture struct {
	*Client
	kube  *kubefake.FailingKubeClient
	store *storage.Storage

	mu   sync.Mutex
	said []string
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	memory := driver.NewMemory()
	memory.SetNamespace(testNamespace)
	f := &fixture{
		kube:  &kubefake.FailingKubeClient{PrintingKubeClient: kubefake.PrintingKubeClient{Out: io.Discard}},
		store: storage.Init(memory),
	}

	f.Client = &Client{namespace: testNamespace, log: func(format string, v ...any) {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.said = append(f.said, fmt.Sprintf(format, v...))
	}}

	f.configuration = func() (*action.Configuration, error) {
		capabilities := chartutil.DefaultCapabilities.Copy()
		capabilities.KubeVersion = chartutil.KubeVersion{Version: "v1.37.1", Major: "1", Minor: "37"}
		return &action.Configuration{Releases: f.store, KubeClient: f.kube, Capabilities: capabilities, Log: f.log}, nil
	}

	return f
}

func (f *fixture) log(format string, v ...any) { f.Client.log(format, v...) }

func (f *fixture) logged() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return strings.Join(f.said, "\n")
}

// put stores a revision of an earlier operation.
func (f *fixture) put(t *testing.T, number int, status release.Status) {
	t.Helper()
	at := helmtime.Time{Time: time.Now().Add(-time.Hour)}
	require.NoError(t, f.store.Create(&release.Release{
		Name: testName, Namespace: testNamespace, Version: number,
		Chart: &chart.Chart{
			Metadata: &chart.Metadata{APIVersion: "v2", Name: testName, Version: "0.0.1", AppVersion: "v0.0.1"},
		},
		Info: &release.Info{FirstDeployed: at, LastDeployed: at, Status: status},
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
