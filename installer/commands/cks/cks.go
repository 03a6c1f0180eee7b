// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package cks is the commands that show, create, change and delete clusters of CloudStack Kubernetes Service (CKS), and list the
// versions that it can install. They talk to CloudStack alone.
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

	"github.com/csccm/csccm/installer/check/ckscheck"
	"github.com/csccm/csccm/installer/cloud/cloudapi"
	"github.com/csccm/csccm/installer/cloud/credentials"
	"github.com/csccm/csccm/installer/engine"
	"github.com/csccm/csccm/installer/engine/report"
	"github.com/csccm/csccm/pkg/cloudstack"
)

// schemaVersion is that of all results of this package.
const schemaVersion = 1

// Service is CKS as a command sees it.
type Service struct {
	*engine.Env
	API *cloudapi.Client
	// Project is the id of the project that owns the clusters; "" is the account of the credentials.
	Project string
	All     bool     // show more than the last events
	Ignore  []string // codes of findings of the preflight that do not stop an operation
	// Kube connects to a cluster by its kubeconfig; nil is the usual way.
	Kube func(kubeconfig string) (kubernetes.Interface, error)
}

// States of a cluster.
const (
	stateRunning = "Running"
	stateStopped = "Stopped"
	stateAlert   = "Alert" // the control plane or the number of nodes is not as it must be
	stateError   = "Error" // it could not be started
)

func inProgress(state string) bool {
	return slices.Contains([]string{
		"Created", "Starting", "Stopping", "Scaling", "ScalingStoppedCluster", "Upgrading", "Importing", "RemovingNodes", "Recovering", "Destroying",
	}, state)
}

// explain says in the operator's terms why a call failed. doing is what was tried, such as "list the clusters".
func explain(doing string, err error) error {
	var known *report.Error
	if err == nil || errors.As(err, &known) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	fix := cmp.Or(credentials.Remedy(err), "correct what CloudStack names, then run the command again")
	switch {
	case cloudstack.IsKind(err, cloudstack.KindNotPermitted):
		fix = "use credentials whose role allows this; where no role does, the service is switched off (setting cloud.kubernetes.service.enabled of CloudStack)"
	case strings.Contains(err.Error(), "endpoint.url"):
		fix = "have an administrator set CloudStack's setting endpoint.url to the URL of the API that nodes reach, then run the command again"
	}
	return &report.Error{What: doing, Err: err, Fix: fix}
}

// named is how people name an object.
type named struct {
	id    string
	names []string // the first is shown
	where string   // what tells objects of the same name apart; may be ""
}

// pick returns the object that a person names, by its id or name. flag is what names it; "" is an argument.
func pick[T any](noun, flag, want string, items []T, name func(*T) named) (*T, error) {
	if flag != "" {
		flag = " with " + flag
	}
	var found []*T
	var known, same []string
	for i := range items {
		n := name(&items[i])
		if strings.EqualFold(n.id, want) {
			return &items[i], nil
		}
		if slices.Contains(n.names, want) {
			found, same = append(found, &items[i]), append(same, strings.TrimSuffix(n.id+" ("+n.where+")", " ()"))
		}
		known = append(known, n.names[0])
	}
	switch {
	case len(found) == 1:
		return found[0], nil
	case len(found) > 1:
		return nil, report.Usage(fmt.Sprintf("%d %ss are called %q: %s", len(found), noun, want, strings.Join(same, ", ")), "give the id of one"+flag)
	case len(known) == 0:
		return nil, report.Usage(fmt.Sprintf("there is no %s %q", noun, want), "these credentials see none in this project")
	}
	return nil, report.Usage(fmt.Sprintf("there is no %s %q", noun, want), "name one of these"+flag+": "+some(known))
}

// some names up to ten, sorted.
func some(names []string) string {
	const most = 10
	slices.Sort(names)
	if names = slices.Compact(names); len(names) > most {
		names = append(names[:most:most], "...")
	}
	return strings.Join(names, ", ")
}

func nameOfVersion(v *cloudapi.KubernetesVersion) named {
	where := "all zones"
	if v.ZoneName != "" {
		where = "zone " + v.ZoneName
	}
	if v.Arch != "" {
		where += ", " + v.Arch
	}
	return named{v.ID, []string{v.Name, v.Semantic, "v" + v.Semantic}, where}
}

func nameOfZone(z *cloudstack.Zone) named { return named{z.ID, []string{z.Name}, ""} }

func nameOfOffering(o *cloudapi.ServiceOffering) named {
	return named{o.ID, []string{o.Name}, fmt.Sprintf("%d CPUs, %d MiB", o.CPUs, o.MemoryMiB)}
}

// clusters lists the clusters, by name.
func (s *Service) clusters(ctx context.Context) ([]cloudapi.KubernetesCluster, error) {
	all, err := s.API.ListKubernetesClusters(ctx, s.Project)
	slices.SortStableFunc(all, func(a, b cloudapi.KubernetesCluster) int { return strings.Compare(a.Name, b.Name) })
	return all, explain("list the clusters", err)
}

// cluster returns the cluster that a person names.
func (s *Service) cluster(ctx context.Context, want string) (*cloudapi.KubernetesCluster, error) {
	all, err := s.clusters(ctx)
	if err != nil {
		return nil, err
	}
	return pick("cluster", "", want, all, func(k *cloudapi.KubernetesCluster) named {
		return named{k.ID, []string{k.Name}, "state " + k.State + ", zone " + k.ZoneName}
	})
}

// versions lists the versions that a zone can install, or all for "", the newest first.
func (s *Service) versions(ctx context.Context, zoneID string) ([]cloudapi.KubernetesVersion, error) {
	all, err := s.API.ListKubernetesVersions(ctx, zoneID)
	slices.SortStableFunc(all, func(a, b cloudapi.KubernetesVersion) int { return semantic(&b).Compare(semantic(&a)) })
	return all, explain("list the Kubernetes versions", err)
}

// semantic is the number of a version; 0.0.0 where it is none.
func semantic(v *cloudapi.KubernetesVersion) *semver.Version {
	if number, err := semver.NewVersion(v.Semantic); err == nil {
		return number
	}
	return &semver.Version{}
}

// reader reads facts for the preflight, and asks the cluster itself where it can be reached. k is nil before a create.
func (s *Service) reader(ctx context.Context, k *cloudapi.KubernetesCluster) *ckscheck.Reader {
	r := &ckscheck.Reader{API: s.API, ProjectID: s.Project, Clock: s.Clock}
	if k == nil {
		return r
	}
	var err error
	if r.Kube, err = s.inside(ctx, k); err != nil {
		r.NoKube = err.Error()
	}
	return r
}

// insideTimeout bounds one request to a cluster's API server.
const insideTimeout = 5 * time.Second

// inside connects to a cluster by its kubeconfig. No error shows a part of that.
func (s *Service) inside(ctx context.Context, k *cloudapi.KubernetesCluster) (kubernetes.Interface, error) {
	if k.State != stateRunning && k.State != stateAlert {
		return nil, fmt.Errorf("the cluster is %s", k.State)
	}
	text, err := s.API.KubernetesClusterConfig(ctx, k.ID)
	if err != nil {
		return nil, errors.New("CloudStack does not give the cluster's kubeconfig")
	}
	if s.Kube != nil {
		return s.Kube(text)
	}
	config, err := RESTConfig(text)
	if err != nil {
		return nil, err
	}
	config.Timeout = insideTimeout
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, errUnusable
	}
	if _, err := client.Discovery().ServerVersion(); err != nil {
		return nil, fmt.Errorf("the API server at %s does not answer", config.Host)
	}
	return client, nil
}

var errUnusable = errors.New("the cluster's kubeconfig cannot be used")

// RESTConfig returns the connection that a kubeconfig of CloudStack describes. Its errors do not quote the kubeconfig, and
// what CloudStack answers starts no program here.
func RESTConfig(kubeconfig string) (*rest.Config, error) {
	config, err := clientcmd.RESTConfigFromKubeConfig([]byte(kubeconfig))
	if err != nil {
		return nil, errUnusable
	}
	config.ExecProvider, config.AuthProvider = nil, nil
	return config, nil
}
