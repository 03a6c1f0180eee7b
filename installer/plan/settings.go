// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/client-go/kubernetes"

	"github.com/csccm/csccm/installer/cloud"
	"github.com/csccm/csccm/installer/engine/report"
	"github.com/csccm/csccm/installer/kube/cluster"
	"github.com/csccm/csccm/pkg/provider"
	"github.com/csccm/csccm/pkg/service"
)

// PreviewerOf returns what plans as the controller of a cluster's release does, and the settings that it found. A clusterID
// that is not empty counts instead of the controller's own.
func PreviewerOf(ctx context.Context, c *cluster.Cluster, cs *cloud.Cloud, release, clusterID string) (*service.Previewer, Settings, error) {
	options, from, err := Options(ctx, c.Kube, c.Namespace, release)
	if err != nil {
		return nil, Settings{}, err
	}
	id := cluster.Identity{Flag: cmp.Or(clusterID, options.ClusterID), Config: cs.Config.ClusterID, Name: options.ClusterName}
	ids, err := id.Resolve(ctx, c.Kube)
	if err != nil {
		return nil, Settings{}, err
	}
	options.ClusterID = ids[0]
	previewer, err := provider.NewPreviewer(ctx, cs.Config, options, cs.Client.Client, c.Kube)
	if err != nil {
		return nil, Settings{}, err
	}
	return previewer, Settings{ClusterID: previewer.ClusterID(), Policy: options.Policy, From: from}, nil
}

// OfCluster makes the plan of a cluster's controller; see PreviewerOf.
func OfCluster(ctx context.Context, c *cluster.Cluster, cs *cloud.Cloud, release, clusterID string, services Selection, progress *report.Progress) (*Report, error) {
	progress.Step("asking CloudStack at %s", cs.Config.APIURL)
	if err := cs.Client.Answers(ctx); err != nil {
		progress.Fail("")
		return nil, err
	}
	previewer, settings, err := PreviewerOf(ctx, c, cs, release, clusterID)
	if err != nil {
		return nil, err
	}
	progress.Step("looking at the Services in CloudStack at %s", cs.Config.APIURL)
	r, err := Make(ctx, c.Kube, previewer.Round(time.Time{}), settings, services)
	if err == nil {
		progress.Done("%d", len(r.Services))
	}
	return r, err
}

// Options returns the settings of the controller of a Helm release, from the flags of its Deployment or DaemonSet.
// from names their source. Without a controller they are the defaults.
func Options(ctx context.Context, kube kubernetes.Interface, namespace, release string) (o provider.Options, from string, err error) {
	all, err := cluster.Workloads(ctx, kube, namespace, cluster.OfRelease(release))
	if err != nil {
		return o, "", err
	}
	for i := range all {
		for c := range all[i].Pod.Containers {
			args := slices.Concat(all[i].Pod.Containers[c].Command, all[i].Pod.Containers[c].Args)
			if slices.ContainsFunc(args, func(a string) bool {
				return strings.HasPrefix(a, "--cloud-provider=") || strings.HasPrefix(a, "--cloud-config=")
			}) {
				o, err = parseFlags(args)
				return o, all[i].String(), err
			}
		}
	}
	return provider.DefaultOptions(), "the defaults", nil
}

// parseFlags parses the controller's flags for its settings and ignores other flags of the cloud-provider framework.
func parseFlags(args []string) (provider.Options, error) {
	o := provider.DefaultOptions()
	flags := pflag.NewFlagSet("cloudstack-ccm", pflag.ContinueOnError)
	flags.ParseErrorsAllowlist.UnknownFlags = true
	o.AddFlags(flags)
	flags.StringVar(&o.ClusterName, "cluster-name", "", "")
	if err := flags.Parse(args); err != nil {
		return o, fmt.Errorf("the controller's flags: %w", err)
	}
	return o, nil
}
