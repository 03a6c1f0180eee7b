// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"context"
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csccm/csccm/installer/check/decide"
	"github.com/csccm/csccm/pkg/cloudstack/cloudconfig"
)

// workloads are the Deployments and DaemonSets of all namespaces.
type workloads struct {
	deployments []appsv1.Deployment
	daemonSets  []appsv1.DaemonSet
}

var workloadsFact = &fact[workloads]{"Deployments and DaemonSets", func(ctx context.Context, e *Env) (w workloads, err error) {
	apps := e.Cluster.Kube.AppsV1()
	w.deployments, err = listAll(ctx, e, metav1.ListOptions{}, apps.Deployments(metav1.NamespaceAll).List, func(l *appsv1.DeploymentList) []appsv1.Deployment { return l.Items })
	if err == nil {
		w.daemonSets, err = listAll(ctx, e, metav1.ListOptions{}, apps.DaemonSets(metav1.NamespaceAll).List, func(l *appsv1.DaemonSetList) []appsv1.DaemonSet { return l.Items })
	}
	return w, err
}}

// storageFact holds what is of the CSI driver for CloudStack. Nodes are read where it is used.
var storageFact = &fact[decide.Storage]{"the CSI driver", func(ctx context.Context, e *Env) (decide.Storage, error) {
	work, err := workloadsFact.get(ctx, e)
	if err != nil {
		return decide.Storage{}, err
	}
	volumes, err := volumesFact.get(ctx, e)
	if err != nil {
		return decide.Storage{}, err
	}
	api := e.Cluster.Kube.StorageV1()
	driver, err := api.CSIDrivers().Get(ctx, decide.DriverName, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		driver, err = nil, nil
	}
	if err != nil {
		return decide.Storage{}, e.Cluster.Explain(err)
	}
	s := decide.StorageOf(driver, work.deployments, volumes)
	if s.Used() {
		s.Nodes, err = listAll(ctx, e, metav1.ListOptions{}, api.CSINodes().List, func(l *storagev1.CSINodeList) []storagev1.CSINode { return l.Items })
	}
	return s, err
}}

var driverFact = &fact[decide.DriverKeys]{"the CSI driver's credentials", func(ctx context.Context, e *Env) (k decide.DriverKeys, err error) {
	s, err := storageFact.get(ctx, e)
	if k.Used = s.Used(); err != nil || !k.Used {
		return k, err
	}
	namespace, name := s.Secret()
	if name == "" {
		k.Note = "not known: the driver's are in no Secret"
		return k, nil
	}
	where := fmt.Sprintf("Secret %s/%s", namespace, name)
	secret, err := e.Cluster.Kube.CoreV1().Secrets(namespace).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		k.Problem = where + ", which the CSI driver needs, does not exist"
		return k, nil
	}
	if err != nil {
		return k, e.Cluster.Explain(err)
	}
	file := string(secret.Data[s.ConfigKey()])
	cfg, err := cloudconfig.Parse(strings.NewReader(file))
	if err != nil {
		k.Problem = fmt.Sprintf("%s, which the CSI driver needs, has no cloud-config that can be read: %v", where, err)
		return k, nil
	}
	e.facts.driverConfig.Store(cfg)
	k.Unknown, k.Note = decide.UnknownToDriver(file), "of "+where
	if c := e.CloudConfig; c != nil && cfg.APIKey == c.APIKey && cfg.SecretKey == c.SecretKey && cfg.APIURL == c.APIURL {
		k.Note += ", the same as the controller's"
	}
	return k, nil
}}
