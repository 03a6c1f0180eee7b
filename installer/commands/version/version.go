// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/csccm/csccm/installer/kube/helm"
	"github.com/csccm/csccm/pkg/version"
)

// versionTimeout bounds the look at the cluster: a version is asked for in a
// hurry. Tests, on a busy machine, give it more.
var versionTimeout = 5 * time.Second

// versions is what the version command knows.
type versions struct {
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

func newVersionCommand(g *globals) *cobra.Command {
	var clientOnly bool
	cmd := g.command(&cobra.Command{
		Use:   "version",
		Short: "Print the versions of csccm, its chart, the controller in the cluster and Kubernetes",
	}, flagRelease, func(ctx context.Context, _ []string) error {
		v, err := ownVersions()
		if err != nil {
			return err
		}
		if !clientOnly {
			if err := v.ask(ctx, g); err != nil {
				v.Problem = err.Error()
			}
		}
		return g.show(v, v.write)
	})
	cmd.Flags().BoolVar(&clientOnly, "client", false, "do not ask the cluster")
	return cmd
}

func ownVersions() (*versions, error) {
	chart, err := helm.Embedded()
	if err != nil {
		return nil, err
	}
	return &versions{
		SchemaVersion: 1,
		Client:        clientVersion{version.Version, version.Commit, version.Date},
		Chart:         chartVersion{chart.Version(), chart.AppVersion()},
	}, nil
}

// ask completes v by what the cluster says.
func (v *versions) ask(ctx context.Context, g *globals) error {
	ctx, cancel := context.WithTimeout(ctx, versionTimeout)
	defer cancel()
	c, err := g.cluster(ctx)
	if err != nil {
		return err
	}
	info, err := c.Ping(ctx)
	if err != nil {
		return err
	}
	v.Server = info.GitVersion
	client, err := helm.New(g.kube, c.Namespace, g.debugf())
	if err != nil {
		return err
	}
	release, err := client.Get(ctx, g.release)
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

func (v *versions) write(w io.Writer) error {
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
