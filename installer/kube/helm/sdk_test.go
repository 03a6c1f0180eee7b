// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package helm

import (
	"io"
	"time"

	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/kube"
	kubefake "helm.sh/helm/v3/pkg/kube/fake"
	"helm.sh/helm/v3/pkg/release"
	"helm.sh/helm/v3/pkg/storage"
	"helm.sh/helm/v3/pkg/storage/driver"
	helmtime "helm.sh/helm/v3/pkg/time"
)

// What the tests use of Helm 3.
type (
	fakeKube      = kubefake.FailingKubeClient
	memoryStore   = storage.Storage
	resourceList  = kube.ResourceList
	chartMetadata = chart.Metadata
)

const statusPendingInstall = release.StatusPendingInstall

func newFakeKube() *fakeKube {
	return &fakeKube{PrintingKubeClient: kubefake.PrintingKubeClient{Out: io.Discard}}
}

func newMemoryStore(namespace string) *memoryStore {
	memory := driver.NewMemory()
	memory.SetNamespace(namespace)
	return storage.Init(memory)
}

func fakeConfig(store *memoryStore, client *fakeKube, log func(format string, v ...any)) *actionConfig {
	capabilities := chartutil.DefaultCapabilities.Copy()
	capabilities.KubeVersion = kubeVersion{Version: "v1.37.1", Major: "1", Minor: "37"}
	return &action.Configuration{Releases: store, KubeClient: client, Capabilities: capabilities, Log: log}
}

func infoAt(when time.Time, status revisionStatus) *release.Info {
	at := helmtime.Time{Time: when}
	return &release.Info{FirstDeployed: at, LastDeployed: at, Status: status}
}
