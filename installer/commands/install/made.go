// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/csccm/csccm/installer/cloud/credentials"
	"github.com/csccm/csccm/pkg/cloudstack"
)

// recordMade lists in the cluster what is about to be made in CloudStack.
func (in *Installer) recordMade(ctx context.Context) error {
	objects := in.provision.Makes()
	if len(objects) == 0 {
		return nil
	}
	if err := credentials.EnsureNamespace(ctx, in.Cluster.Kube, in.Cluster.Namespace); err != nil {
		return in.Cluster.Explain(err)
	}
	return in.Cluster.Explain(credentials.RecordMade(ctx, in.Cluster.Kube, in.Cluster.Namespace, in.config.APIURL, in.config.SSLNoVerify, objects...))
}

// outcomeMade gives the list the ids of what was made. What was certainly not made after an error leaves it.
func (in *Installer) outcomeMade(ctx context.Context, err error) error {
	objects := in.provision.Makes()
	if len(objects) == 0 {
		return nil
	}
	made := slices.DeleteFunc(slices.Clone(objects), func(o credentials.MadeObject) bool { return o.ID == "" })
	in.made = append(in.made, made...)
	if len(made) > 0 {
		rerr := credentials.RecordMade(ctx, in.Cluster.Kube, in.Cluster.Namespace, in.config.APIURL, in.config.SSLNoVerify, made...)
		if rerr != nil {
			return rerr
		}
	}
	var api *cloudstack.Error
	if err == nil || !errors.As(err, &api) || api.MayHaveHappened {
		return nil
	}
	not := slices.DeleteFunc(slices.Clone(objects), func(o credentials.MadeObject) bool { return o.ID != "" })
	return credentials.ForgetMade(ctx, in.Cluster.Kube, in.Cluster.Namespace, not...)
}

// madeInCloudStack names what this run has made there.
func (in *Installer) madeInCloudStack() string {
	names := make([]string, 0, len(in.made))
	for _, o := range in.made {
		names = append(names, o.String())
	}
	return "Made in CloudStack: " + strings.Join(names, ", ")
}

// removeMade says how to remove what this run has made in CloudStack.
const removeMade = "csccm uninstall --delete-user removes it"

// sayMade names, where the install fails, what it has made in CloudStack.
func (in *Installer) sayMade(err error) {
	made := in.madeInCloudStack()
	if err == nil || len(in.made) == 0 || strings.Contains(err.Error(), made) {
		return
	}
	in.Progress.Info("%s; the next run goes on with it, and %s", made, removeMade)
}
