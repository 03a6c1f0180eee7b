// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package cks

import (
	"cmp"
	"context"
	"io"
	"os"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/csccm/csccm/installer/report"
)

// Kubeconfig returns the name and the kubeconfig of a cluster. The kubeconfig is a secret: write it only where the user
// asks for it.
func (s *Service) Kubeconfig(ctx context.Context, name string) (cluster, config string, err error) {
	k, err := s.cluster(ctx, name)
	if err != nil {
		return "", "", err
	}

	config, err = s.API.KubernetesClusterConfig(ctx, k.ID)
	if err != nil {
		return "", "", report.Errorf(
			"wait until it is Running: csccm cks show "+k.Name+" --watch",
			"cluster %s, state %s, has no kubeconfig: %w", k.Name, k.State, err,
		)
	}

	return k.Name, config, nil
}

// WriteSecret writes a file that only the user can read. It replaces a file that exists only if replace is set. It then
// renames a new file to path, because other users may be able to read the old file or may have it open.
func WriteSecret(path, text string, replace bool) error {
	to := path
	if replace {
		to += ".new"
	} else if err := report.IsNew("--output-file", path); err != nil {
		return err
	}

	err := report.WriteNew("--output-file", to, func(w io.Writer) error {
		_, err := io.WriteString(w, text)
		return err
	})

	if err == nil && replace {
		if err = os.Rename(to, path); err != nil {
			_ = os.Remove(to)
		}
	}

	return err
}

// Merge adds the kubeconfig of a cluster to that of the user. The entries for cluster, user and context get the name of
// the cluster. Merge sets the current context only if there is none, and replaces entries of another cluster only if
// replace is set.
func Merge(access clientcmd.ConfigAccess, name, config string, replace bool) error {
	added, err := clientcmd.Load([]byte(config))
	if err == nil {
		err = clientcmdapi.MinifyConfig(added)
	}

	// The message leaves err out, because err may quote the kubeconfig.
	if err != nil || len(added.Clusters) == 0 || len(added.AuthInfos) == 0 {
		return report.Errorf(
			"look at it with csccm cks kubeconfig "+name,
			"CloudStack's kubeconfig of cluster %s has no current context with a cluster and a user", name,
		)
	}

	all, err := access.GetStartingConfig()
	if err != nil {
		return report.Errorf(
			"correct it, or write to a file of its own with --output-file",
			"your kubeconfig cannot be read: %w", err,
		)
	}

	was, file := all.Clusters[name], ""
	if was != nil {
		file = was.LocationOfOrigin
	}

	taken := was != nil || all.AuthInfos[name] != nil || all.Contexts[name] != nil
	for _, cluster := range added.Clusters {
		if taken && !replace && (was == nil || was.Server != cluster.Server) {
			return report.Usage(
				"add --yes to replace it, or write to a file of its own with --output-file",
				"your kubeconfig has another cluster, user or context %s", name,
			)
		}

		cluster.LocationOfOrigin, all.Clusters[name] = file, cluster
	}

	for _, user := range added.AuthInfos {
		user.LocationOfOrigin, all.AuthInfos[name] = file, user
	}

	all.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name, LocationOfOrigin: file}
	all.CurrentContext = cmp.Or(all.CurrentContext, name)

	if err := clientcmd.ModifyConfig(access, *all, true); err != nil {
		return report.Errorf(
			"make it writable, or write to a file of its own with --output-file",
			"your kubeconfig cannot be written: %w", err,
		)
	}

	return nil
}
