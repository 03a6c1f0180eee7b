// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package manage is the commands that create, change and delete clusters of CloudStack Kubernetes Service (CKS), and the
// versions that it can install. They talk to CloudStack alone.
//
// Every change has the same form: a Plan, which is decided without I/O, one call, and a follower that watches the
// cluster's state until the operation is over. CloudStack goes on with an operation whether or not anybody follows it, so a
// second run finds it by the cluster's state and follows it.
package manage

import (
	"context"
	"errors"

	"k8s.io/client-go/kubernetes"

	"github.com/csccm/csccm/installer/engine"
	"github.com/csccm/csccm/installer/engine/report"
	"github.com/csccm/csccm/pkg/cloudstack"
)

// schemaVersion is that of all results of this package.
const schemaVersion = 1

// Service is CKS as a command sees it.
type Service struct {
	*engine.Env
	API *cloudstack.Client
	// Project is the id of the project that owns the clusters; "" is the account of the credentials.
	Project string
	// From says where the credentials came from.
	From string
	// All shows more than the last events.
	All bool
	// Kube connects to a cluster by its kubeconfig; nil is the usual way.
	Kube func(kubeconfig string) (kubernetes.Interface, error)
}

// explain says in the operator's terms why a call failed. doing is what was tried, such as "list the clusters".
func explain(doing string, err error) error {
	if err == nil {
		return nil
	}
	var known *report.Error
	if errors.As(err, &known) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	e := &report.Error{What: doing, Err: err}
	var api *cloudstack.Error
	if !errors.As(err, &api) {
		return e
	}
	switch api.Kind {
	case cloudstack.KindNotPermitted:
		e.Fix = "use credentials whose role allows " + api.Command +
			"; where no role has it, the service is switched off (setting cloud.kubernetes.service.enabled of CloudStack)"
	case cloudstack.KindAuth:
		e.Fix = "check the credentials: --cloud-config, --admin-user or --cmk-profile"
	case cloudstack.KindTransient, cloudstack.KindThrottled:
		e.Fix = "check that the management server answers, then run the command again"
	default:
		e.Fix = "correct what CloudStack names, then run the command again"
	}
	return e
}

// asAdmin is explain for calls that only an administrator may make.
func asAdmin(doing string, err error) error {
	if cloudstack.IsKind(err, cloudstack.KindNotPermitted) {
		return &report.Error{
			What: doing + ": only an administrator may", Err: err,
			Fix: "log in as one, with --admin-user USER and --admin-password-file FILE, or with --admin-cmk-profile",
		}
	}
	return explain(doing, err)
}
