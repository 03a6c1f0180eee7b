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
	SchemaVersion int `json:"schemaVersion"`
	Client        struct {
		Version string `json:"version"`
		Commit  string `json:"commit"`
		Date    string `json:"date"`
	} `json:"client"`
	Chart   chart    `json:"chart"` // that csccm carries
	Server  string   `json:"server,omitempty"`
	Release *release `json:"release,omitempty"`
	Problem string   `json:"problem,omitempty"` // why the cluster's half is missing
}

type chart struct {
	Version    string `json:"version"`
	AppVersion string `json:"appVersion"`
}

type release struct {
	Name      string `json:"name"`
	Namespace string `json:"namespace"`
	Revision  int    `json:"revision"`
	Status    string `json:"status"`
	chart
}

// Own returns the versions of csccm and of the chart that it carries.
func Own() (*Versions, error) {
	c, err := helm.Embedded()
	if err != nil {
		return nil, err
	}
	v := &Versions{SchemaVersion: 1, Chart: chart{c.Version(), c.AppVersion()}}
	v.Client.Version, v.Client.Commit, v.Client.Date = version.Version, version.Commit, version.Date
	return v, nil
}

// Ask adds what the cluster says.
func (v *Versions) Ask(ctx context.Context, c *cluster.Cluster, releases *helm.Client, name string) error {
	v.Server = c.Version
	history, err := releases.History(ctx, name)
	if err == nil {
		r := &history[0]
		v.Release = &release{r.Name, r.Namespace, r.Revision, r.Status, chart{r.ChartVersion, r.AppVersion}}
	} else if errors.Is(err, helm.ErrReleaseNotFound) {
		err = nil
	}
	return c.Explain(err)
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
