// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package cks implements the commands that show, create, change and delete clusters of CloudStack Kubernetes Service
// (CKS), and that manage the Kubernetes versions it can install. Operations are calls to the CloudStack API.
package cks

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/Masterminds/semver/v3"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/csccm/csccm/installer/cloud/cloudapi"
	"github.com/csccm/csccm/installer/cloud/credentials"
	"github.com/csccm/csccm/installer/engine"
	"github.com/csccm/csccm/installer/report"
	"github.com/csccm/csccm/pkg/cloudstack"
)

// schemaVersion is the schema version of all results of this package.
const schemaVersion = 1

// Service gives the commands access to CKS.
type Service struct {
	*engine.Env
	API *cloudapi.Client
	// Project is the id of the project that owns the clusters; "" means the account of the credentials.
	Project string
	// Kube connects to a cluster by its kubeconfig; nil connects with client-go. Tests set it.
	Kube func(kubeconfig string) (kubernetes.Interface, error)
}

// explain adds to the error of a CloudStack call what was tried and a remedy. doing names the attempt, such as "list
// the clusters".
func explain(doing string, err error) error {
	if err == nil || report.Interrupted(err) {
		return err
	}

	fix := cmp.Or(credentials.Remedy(err), "correct what CloudStack names, then run the command again")

	var api *cloudstack.Error
	switch {
	case cloudstack.IsKind(err, cloudstack.KindNotPermitted):
		fix = "use credentials whose role allows this; if no role does, the service is switched off (setting " +
			"cloud.kubernetes.service.enabled of CloudStack)"
	case strings.Contains(err.Error(), "endpoint.url"):
		fix = "have an administrator set CloudStack's setting endpoint.url to the URL of the API that nodes reach, " +
			"then run the command again"
	case errors.As(err, &api) && api.MayHaveHappened:
		fix = "run the same command again: it follows the operation if CloudStack has begun it"
	}

	return report.Errorf(fix, "%s: %w", doing, err)
}

// pick returns the item whose id or name is want. names returns the id of an item, followed by its names. flag is the
// flag that gave want, such as " with --zone"; it is "" for an argument.
func pick[T any](noun, flag, want string, items []T, names func(*T) []string) (*T, error) {
	var found []*T
	var ids, known []string
	for _, it := range items {
		n := names(&it)
		if slices.Contains(n, want) {
			found, ids = append(found, &it), append(ids, n[0])
		}

		known = append(known, n[1])
	}

	slices.Sort(known)
	switch {
	case len(found) == 1:
		return found[0], nil
	case len(found) > 1:
		return nil, report.Usage(
			"give the id of one"+flag+": "+strings.Join(ids, ", "),
			"%d %ss are called %q", len(found), noun, want,
		)
	}

	what := fmt.Sprintf("there is no %s %q", noun, want)
	if want == "" {
		what = "the " + noun + " is not given"
	}

	return nil, report.Usage(
		"name one of these"+flag+": "+
			cmp.Or(strings.Join(slices.Compact(known), ", "), "these credentials see none in this project"),
		"%s", what,
	)
}

// clusters lists the clusters, sorted by name.
func (s *Service) clusters(ctx context.Context) ([]cloudapi.KubernetesCluster, error) {
	all, err := s.API.ListKubernetesClusters(ctx, s.Project)
	slices.SortStableFunc(all, func(a, b cloudapi.KubernetesCluster) int { return strings.Compare(a.Name, b.Name) })
	return all, explain("list the clusters", err)
}

// cluster returns the cluster with that id or name.
func (s *Service) cluster(ctx context.Context, want string) (*cloudapi.KubernetesCluster, error) {
	all, err := s.clusters(ctx)
	if err != nil {
		return nil, err
	}
	return pick("cluster", "", want, all,
		func(k *cloudapi.KubernetesCluster) []string { return []string{k.ID, k.Name} })
}

// versions lists the Kubernetes versions that a zone can install, newest first; all versions if zoneID is "".
func (s *Service) versions(ctx context.Context, zoneID string) ([]cloudapi.KubernetesVersion, error) {
	all, err := s.API.ListKubernetesVersions(ctx, zoneID)
	number := func(v *cloudapi.KubernetesVersion) *semver.Version {
		n, _ := semver.NewVersion(v.Semantic)
		return cmp.Or(n, &semver.Version{})
	}
	slices.SortStableFunc(all, func(a, b cloudapi.KubernetesVersion) int { return number(&b).Compare(number(&a)) })
	return all, explain("list the Kubernetes versions", err)
}

func namesOfVersion(v *cloudapi.KubernetesVersion) []string {
	return []string{v.ID, v.Name, v.Semantic, "v" + v.Semantic}
}

// zone returns the zone with that id or name. If want is "" and there is only one zone, it returns that zone.
func (s *Service) zone(ctx context.Context, want string) (*object, error) {
	all, err := s.objects(ctx, zones, "")
	if err != nil {
		return nil, explain("list the zones", err)
	}
	if want == "" && len(all) == 1 {
		return &all[0], nil
	}
	return pickObject("zone", want, all)
}

// insideTimeout bounds one request to a cluster's API server.
const insideTimeout = 5 * time.Second

// inside connects to the API server of a cluster, and returns the configuration too. Errors do not quote the
// kubeconfig, because it holds credentials.
func (s *Service) inside(
	ctx context.Context, k *cloudapi.KubernetesCluster,
) (client kubernetes.Interface, config *rest.Config, err error) {
	if k.State != stateRunning && k.State != stateAlert {
		return nil, nil, fmt.Errorf("the cluster is %s", k.State)
	}

	text, err := s.API.KubernetesClusterConfig(ctx, k.ID)
	if err != nil {
		return nil, nil, errors.New("CloudStack does not give the cluster's kubeconfig")
	}

	if config, err = RESTConfig(text); err != nil {
		return nil, nil, err
	}

	if s.Kube != nil {
		client, err = s.Kube(text)
		return client, config, err
	}

	config.Timeout = insideTimeout
	if client, err = kubernetes.NewForConfig(config); err != nil {
		return nil, nil, errUnusable
	}

	if _, err := client.Discovery().ServerVersion(); err != nil {
		return nil, nil, fmt.Errorf("the API server at %s does not answer", config.Host)
	}

	return client, config, nil
}

var errUnusable = errors.New("the cluster's kubeconfig cannot be used")

// RESTConfig returns the client configuration of a kubeconfig from CloudStack. Errors do not quote the kubeconfig. Exec
// and auth provider plugins are removed, so that an answer of CloudStack cannot start a program on this machine.
func RESTConfig(kubeconfig string) (*rest.Config, error) {
	config, err := clientcmd.RESTConfigFromKubeConfig([]byte(kubeconfig))
	if err != nil {
		return nil, errUnusable
	}

	config.ExecProvider, config.AuthProvider = nil, nil
	return config, nil
}
