// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/csccm/csccm/cmd/csccm/internal/cli"
	"github.com/csccm/csccm/installer/kube/helm"
	"github.com/csccm/csccm/pkg/version"
)

// versions are those of csccm, of its chart, and of what a cluster runs.
type versions struct {
	SchemaVersion int `json:"schemaVersion"`
	Client        struct {
		Version string `json:"version"`
		Commit  string `json:"commit"`
		Date    string `json:"date"`
	} `json:"client"`
	Chart   chartVersion    `json:"chart"` // that csccm carries
	Server  string          `json:"server,omitempty"`
	Release *releaseVersion `json:"release,omitempty"`
	Problem string          `json:"problem,omitempty"` // why the cluster's half is missing
}

type chartVersion struct {
	Version    string `json:"version"`
	AppVersion string `json:"appVersion"`
}

type releaseVersion struct {
	Name      string `json:"name"`
	Namespace string `json:"namespace"`
	Revision  int    `json:"revision"`
	Status    string `json:"status"`
	chartVersion
}

// versionTimeout bounds the look at the cluster: a version is asked for in a
// hurry. Tests, on a busy machine, give it more.
var versionTimeout = 5 * time.Second

func newVersionCommand(g *cli.Globals) *cobra.Command {
	var clientOnly bool
	cmd := g.Command(&cobra.Command{
		Use:   "version",
		Short: "Print the versions of csccm, chart, controller and Kubernetes",
	}, cli.FlagRelease, func(ctx context.Context, _ []string) error {
		c, err := helm.Embedded()
		if err != nil {
			return err
		}
		v := &versions{SchemaVersion: 1, Chart: chartVersion{c.Version(), c.AppVersion()}}
		v.Client.Version, v.Client.Commit, v.Client.Date = version.Version, version.Commit, version.Date
		if !clientOnly {
			if err := v.ask(ctx, g); err != nil {
				v.Problem = err.Error()
			}
		}
		return g.Show(v, v.writeText)
	})
	cmd.Flags().BoolVar(&clientOnly, "client", false, "do not ask the cluster")
	return cmd
}

// ask adds what the cluster says.
func (v *versions) ask(ctx context.Context, g *cli.Globals) error {
	ctx, cancel := context.WithTimeout(ctx, versionTimeout)
	defer cancel()
	c, err := g.Cluster(ctx)
	if err != nil {
		return err
	}
	v.Server = c.Version
	history, err := helm.New(g.Kube, c.Namespace, g.Debugf()).History(ctx, g.Release)
	if err == nil {
		r := &history[0]
		v.Release = &releaseVersion{r.Name, r.Namespace, r.Revision, r.Status, chartVersion{r.ChartVersion, r.AppVersion}}
	} else if errors.Is(err, helm.ErrReleaseNotFound) {
		err = nil
	}
	return c.Explain(err)
}

// writeText writes the versions for people.
func (v *versions) writeText(w io.Writer) error {
	text := fmt.Sprintf("csccm       %s (commit %s, built %s)\nchart       %s with controller %s, carried by csccm\n",
		v.Client.Version, v.Client.Commit, v.Client.Date, v.Chart.Version, v.Chart.AppVersion)
	switch {
	case v.Problem != "":
		text += fmt.Sprintf("cluster     unknown: %s\n", v.Problem)
	case v.Server != "" && v.Release == nil:
		text += fmt.Sprintf("cluster     Kubernetes %s\ncontroller  not installed\n", v.Server)
	case v.Server != "":
		text += fmt.Sprintf("cluster     Kubernetes %s\ncontroller  %s, chart %s, release %s/%s revision %d, %s\n", v.Server,
			v.Release.AppVersion, v.Release.Version, v.Release.Namespace, v.Release.Name, v.Release.Revision, v.Release.Status)
	}
	_, err := io.WriteString(w, text)
	return err
}
