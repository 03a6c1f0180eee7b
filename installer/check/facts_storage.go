// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"context"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csccm/csccm/installer/check/decide"
	"github.com/csccm/csccm/installer/storage"
	"github.com/csccm/csccm/pkg/cloudstack"
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

// storageFact holds what is of the CSI driver for CloudStack. Nodes and attachments are read where it is used.
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
	driver, err := api.CSIDrivers().Get(ctx, storage.DriverName, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		driver, err = nil, nil
	}
	if err != nil {
		return decide.Storage{}, e.Cluster.Explain(err)
	}
	classes, err := listAll(ctx, e, metav1.ListOptions{}, api.StorageClasses().List, func(l *storagev1.StorageClassList) []storagev1.StorageClass { return l.Items })
	if err != nil {
		return decide.Storage{}, err
	}
	s := decide.StorageOf(driver, work.deployments, work.daemonSets, classes, volumes)
	if !s.Used() {
		return s, nil
	}
	if s.Nodes, err = listAll(ctx, e, metav1.ListOptions{}, api.CSINodes().List, func(l *storagev1.CSINodeList) []storagev1.CSINode { return l.Items }); err != nil {
		return s, err
	}
	s.Attachments, err = listAll(ctx, e, metav1.ListOptions{}, api.VolumeAttachments().List, func(l *storagev1.VolumeAttachmentList) []storagev1.VolumeAttachment { return l.Items })
	s.Attachments = slices.DeleteFunc(s.Attachments, func(a storagev1.VolumeAttachment) bool { return a.Spec.Attacher != storage.DriverName })
	return s, err
}}

// driverAPI is what is asked with the driver's keys.
type driverAPI interface {
	ListAPIs(ctx context.Context) (map[string]cloudstack.API, error)
	ListDiskOfferings(ctx context.Context) ([]cloudstack.DiskOffering, error)
	ListDataVolumes(ctx context.Context, projectID string) ([]cloudstack.Volume, error)
}

// driverCloud is CloudStack as the driver sees it, or else as the controller does.
type driverCloud struct {
	api     driverAPI // nil: the controller's own
	project string
	keys    decide.DriverKeys
}

var driverFact = projectFact("the CSI driver's credentials", func(ctx context.Context, e *Env, project string) (driverCloud, error) {
	own := driverCloud{project: project}
	s, err := storageFact.get(ctx, e)
	if err != nil {
		return own, err
	}
	namespace, name := s.Secret()
	if name == "" {
		own.keys.Note = "the controller's: the driver's are in no Secret"
		return own, nil
	}
	where := fmt.Sprintf("Secret %s/%s", namespace, name)
	secret, err := e.Cluster.Kube.CoreV1().Secrets(namespace).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		own.keys.Problem = where + ", which the driver needs, does not exist"
		return own, nil
	}
	if err != nil {
		own.keys.Note = fmt.Sprintf("the controller's: %s could not be read", where)
		return own, nil
	}
	file := string(secret.Data[s.ConfigKey()])
	cfg, err := cloudconfig.Parse(strings.NewReader(file))
	if err != nil {
		own.keys.Problem = fmt.Sprintf("%s, which the driver needs, has no cloud-config that can be read: %v", where, err)
		return own, nil
	}
	own.keys.Unknown = storage.Unknown(file)
	e.facts.driverConfig.Store(cfg)
	if e.CloudConfig != nil && cfg.APIKey == e.CloudConfig.APIKey && cfg.SecretKey == e.CloudConfig.SecretKey && cfg.APIURL == e.CloudConfig.APIURL {
		own.keys.Note = fmt.Sprintf("of %s, the same as the controller's", where)
		return own, nil
	}
	if e.CloudConfig != nil && cfg.APIURL == e.CloudConfig.APIURL { // ca-file is a path in the driver's Pod
		cfg.CAFile, cfg.SSLNoVerify = e.CloudConfig.CAFile, e.CloudConfig.SSLNoVerify
	}
	client, err := cloudstack.NewClient(cfg)
	if err != nil {
		own.keys.Problem = fmt.Sprintf("%s, which the driver needs, has a cloud-config that cannot be used: %v", where, err)
		return own, nil
	}
	return driverCloud{api: client, project: cfg.ProjectID, keys: decide.DriverKeys{Note: "of " + where, Unknown: own.keys.Unknown}}, nil
})

// asDriver reads with the driver's keys.
func asDriver[T any](noun string, read func(ctx context.Context, api driverAPI, project string) (T, error)) *fact[T] {
	return cloudFact(noun, func(ctx context.Context, e *Env) (value T, err error) {
		d, err := driverFact.get(ctx, e)
		if err != nil {
			return value, err
		}
		if d.api == nil {
			d.api = e.CloudStack
		}
		return read(ctx, d.api, d.project)
	})
}

var (
	driverAPIsFact = cloudFact("the commands that the CSI driver may call", func(ctx context.Context, e *Env) (map[string]cloudstack.API, error) {
		if d, err := driverFact.get(ctx, e); err != nil || d.api != nil {
			if err != nil {
				return nil, err
			}
			return d.api.ListAPIs(ctx)
		}
		return apisFact.get(ctx, e)
	})
	diskOfferingsFact = asDriver("the disk offerings", func(ctx context.Context, api driverAPI, _ string) ([]cloudstack.DiskOffering, error) {
		return api.ListDiskOfferings(ctx)
	})
	disksFact = asDriver("the volumes of CloudStack", func(ctx context.Context, api driverAPI, project string) ([]cloudstack.Volume, error) {
		return api.ListDataVolumes(ctx, project)
	})
)
