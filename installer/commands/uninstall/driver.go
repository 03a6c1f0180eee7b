// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package uninstall

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"

	"github.com/csccm/csccm/installer/cloud/credentials"
	"github.com/csccm/csccm/installer/engine"
	"github.com/csccm/csccm/installer/engine/report"
	"github.com/csccm/csccm/installer/kube/helm"
	"github.com/csccm/csccm/installer/storage"
)

// driver plans what happens to the CSI driver that csccm has installed. That of somebody else is not touched.
func (p *Plan) driver(ctx context.Context, e *engine.Env, o Options) error {
	r, err := e.Find(ctx, storage.Release)
	if err != nil || r == nil {
		return err
	}
	text := fmt.Sprintf("Helm release %s/%s of the CSI driver, chart %s", p.Namespace, storage.Release, r.ChartVersion)
	if !o.CSI {
		p.driverStays = true
		p.Stays = append(p.Stays, text+" (--with csi removes it)")
		return nil
	}
	p.Driver = r.Revision
	p.Deletes = append(p.Deletes, text)
	list, err := e.Cluster.Kube.CoreV1().PersistentVolumes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return e.Cluster.Explain(err)
	}
	for i := range list.Items {
		if csi := list.Items[i].Spec.CSI; csi != nil && csi.Driver == storage.DriverName {
			p.volumes++
		}
	}
	if p.volumes > 0 {
		p.Stays = append(p.Stays, fmt.Sprintf("%s of the CSI driver, with their data in CloudStack", count(p.volumes, "volume")))
	}
	return nil
}

// strandsDriver warns of a CSI driver that stays without its keys.
func (p *Plan) strandsDriver() {
	if p.driverStays && p.secret {
		p.Warnings = append(p.Warnings, fmt.Sprintf("the CSI driver stays and reads Secret %s/%s: without it no volume is created, attached or mounted; --with csi removes the driver too",
			p.Namespace, credentials.SecretName))
	}
}

// wouldOrphanVolumes is the error of an uninstall that would leave volumes without a driver.
func (p *Plan) wouldOrphanVolumes() error {
	return &report.Error{
		What: fmt.Sprintf("nothing was changed: there are %s of the CSI driver, and without it nobody mounts, detaches or deletes them", count(p.volumes, "volume")),
		Fix:  "delete their PersistentVolumeClaims first, or leave the volumes as they are with --orphan-volumes",
		Code: report.ExitCheckFailed,
	}
}

// removeDriver removes the release of the CSI driver, and the driver's cloud-config from the Secret where that stays.
func (u *run) removeDriver(ctx context.Context, note engine.Note) error {
	if u.plan.Driver == 0 {
		return nil
	}
	u.Progress.Step("Helm release %s/%s of the CSI driver", u.plan.Namespace, storage.Release)
	if err := u.Helm.Uninstall(ctx, storage.Release); err != nil && !errors.Is(err, helm.ErrReleaseNotFound) {
		return u.Cluster.Explain(err)
	}
	note("deleted release %s, revision %d", storage.Release, u.plan.Driver)
	secrets := u.Cluster.Kube.CoreV1().Secrets(u.plan.Namespace)
	err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
		s, err := secrets.Get(ctx, credentials.SecretName, metav1.GetOptions{})
		if err != nil || s.Data[storage.ConfigKey] == nil {
			return err
		}
		delete(s.Data, storage.ConfigKey)
		_, err = secrets.Update(ctx, s, metav1.UpdateOptions{})
		return err
	})
	if err != nil && !apierrors.IsNotFound(err) {
		return u.Cluster.Explain(err)
	}
	u.Progress.Done("deleted")
	return nil
}
