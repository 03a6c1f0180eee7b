// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build helm4

package helm

import (
	"io"
	"time"

	"helm.sh/helm/v4/pkg/action"
	"helm.sh/helm/v4/pkg/chart/common"
	chart "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/kube"
	kubefake "helm.sh/helm/v4/pkg/kube/fake"
	status "helm.sh/helm/v4/pkg/release/common"
	release "helm.sh/helm/v4/pkg/release/v1"
	"helm.sh/helm/v4/pkg/storage"
	"helm.sh/helm/v4/pkg/storage/driver"
)

// What the tests use of Helm 4; sdk_helm3_test.go has the same of Helm 3.
type (
	fakeKube      = kubefake.FailingKubeClient
	memoryStore   = storage.Storage
	resourceList  = kube.ResourceList
	chartMetadata = chart.Metadata
)

const statusPendingInstall = status.StatusPendingInstall

var newPackage = action.NewPackage

func newFakeKube() *fakeKube {
	return &fakeKube{PrintingKubeClient: kubefake.PrintingKubeClient{Out: io.Discard}}
}

func newMemoryStore(namespace string) *memoryStore {
	memory := driver.NewMemory()
	memory.SetNamespace(namespace)
	return storage.Init(memory)
}

func fakeConfig(store *memoryStore, client *fakeKube, log func(format string, v ...any)) *actionConfig {
	capabilities := common.DefaultCapabilities.Copy()
	capabilities.KubeVersion = kubeVersion{Version: "v1.37.1", Major: "1", Minor: "37"}
	cfg := action.NewConfiguration(action.ConfigurationSetLogger(lines(log)))
	cfg.Releases, cfg.KubeClient, cfg.Capabilities = store, client, capabilities
	return cfg
}

func infoAt(when time.Time, status revisionStatus) *release.Info {
	return &release.Info{FirstDeployed: when, LastDeployed: when, Status: status}
}
