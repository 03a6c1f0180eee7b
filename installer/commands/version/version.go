// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package version reports the versions of csccm, of its chart, and of what a cluster runs.
package version

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/csccm/csccm/installer/kube/cluster"
	"github.com/csccm/csccm/installer/kube/helm"
	"github.com/csccm/csccm/pkg/version"
)

// Versions is what the command knows.
type Versions struct {
	SchemaVersion int           `json:"schemaVersion"`
	Client        clientVersion `json:"client"`
	Chart         chartVersion  `json:"chart"` // that csccm carries
	Server        string        `json:"server,omitempty"`
	Release       *chartRelease `json:"release,omitempty"`
	Problem       string        `json:"problem,omitempty"` // why the cluster's half is missing
}

type clientVersion struct {
	Version string `json:"version"`
	Commit  string `json:"commit"`
	Date    string `json:"date"`
}

type chartVersion struct {
	Version    string `json:"version"`
	AppVersion string `json:"appVersion"`
}

type chartRelease struct {
	Name      string `json:"name"`
	Namespace string `json:"namespace"`
	Revision  int    `json:"revision"`
	Status    string `json:"status"`
	chartVersion
}

// Own returns the versions of csccm and of the chart that it carries.
func Own() (*Versions, error) {
	chart, err := helm.Embedded()
	if err != nil {
		return nil, err
	}
	return &Versions{
		SchemaVersion: 1,
		Client:        clientVersion{version.Version, version.Commit, version.Date},
		Chart:         chartVersion{chart.Version(), chart.AppVersion()},
	}, nil
}

// Helm reads a release. *helm.Client has it.
type Helm interface {
	Get(ctx context.Context, name string) (*helm.Release, error)
}

// Ask adds what the cluster says.
func (v *Versions) Ask(ctx context.Context, c *cluster.Cluster, releases Helm, name string) error {
	info, err := c.Ping(ctx)
	if err != nil {
		return err
	}
	v.Server = info.GitVersion
	release, err := releases.Get(ctx, name)
	if errors.Is(err, helm.ErrReleaseNotFound) {
		return nil
	}
	if err != nil {
		return c.Explain(err)
	}
	v.Release = &chartRelease{
		Name: release.Name, Namespace: release.Namespace, Revision: release.Revision, Status: release.Status,
		chartVersion: chartVersion{release.ChartVersion, release.AppVersion},
	}
	return nil
}

// WriteText writes the versions for people.
func (v *Versions) WriteText(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "csccm       %s (commit %s, built %s)\n", v.Client.Version, v.Client.Commit, v.Client.Date)
	fmt.Fprintf(&b, "chart       %s with controller %s, carried by csccm\n", v.Chart.Version, v.Chart.AppVersion)
	switch {
	case v.Problem != "":
		fmt.Fprintf(&b, "cluster     unknown: %s\n", v.Problem)
	case v.Server != "" && v.Release == nil:
		fmt.Fprintf(&b, "cluster     Kubernetes %s\ncontroller  not installed\n", v.Server)
	case v.Server != "":
		fmt.Fprintf(&b, "cluster     Kubernetes %s\n", v.Server)
		fmt.Fprintf(&b, "controller  %s, chart %s, release %s/%s revision %d, %s\n",
			v.Release.AppVersion, v.Release.Version, v.Release.Namespace, v.Release.Name, v.Release.Revision, v.Release.Status)
	}
	_, err := io.WriteString(w, b.String())
	return err
}
