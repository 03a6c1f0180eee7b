// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package cks

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/csccm/csccm/installer/engine/report"
)

// Kubeconfig returns the name and the kubeconfig of a cluster: a secret, which goes to where the user asks and nowhere else.
func (s *Service) Kubeconfig(ctx context.Context, name string) (cluster, config string, err error) {
	k, err := s.cluster(ctx, name)
	if err != nil {
		return "", "", err
	}
	config, err = s.API.KubernetesClusterConfig(ctx, k.ID)
	if err != nil {
		return "", "", &report.Error{
			What: fmt.Sprintf("cluster %s, state %s, has no kubeconfig", k.Name, k.State), Err: err,
			Fix: "wait until it is Running: csccm cks show " + k.Name + " --watch",
		}
	}
	return k.Name, config, nil
}

// WriteSecret writes a file that nobody else can read. A file that exists is replaced only on request, by a new one: the old one
// may be readable for others, and may be open.
func WriteSecret(path, text string, replace bool) error {
	if _, err := os.Lstat(path); err == nil && !replace {
		return report.Usage(path+" exists", "name another file with --output-file, or add --yes to replace it")
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".csccm-*") // mode 0600
	if err == nil {
		_, err = f.WriteString(text)
		if err = errors.Join(err, f.Close()); err == nil {
			err = os.Rename(f.Name(), path)
		}
		if err != nil {
			_ = os.Remove(f.Name())
		}
	}
	if err != nil {
		return &report.Error{What: "the kubeconfig cannot be written to " + path, Err: err, Fix: "name a file that can be written with --output-file"}
	}
	return nil
}

// Merge adds a cluster's kubeconfig to that of the user: cluster, user and context are named like the cluster. The current
// context stays, unless there is none. An entry that is another one is replaced only on request.
func Merge(access clientcmd.ConfigAccess, name, config string, replace bool) error {
	added, err := clientcmd.Load([]byte(config))
	var ours *clientcmdapi.Context
	if err == nil {
		ours = added.Contexts[added.CurrentContext]
	}
	if ours == nil || added.Clusters[ours.Cluster] == nil || added.AuthInfos[ours.AuthInfo] == nil { // err may quote the configuration
		return &report.Error{
			What: "CloudStack's kubeconfig of cluster " + name + " has no current context with a cluster and a user",
			Fix:  "look at it with csccm cks kubeconfig " + name,
		}
	}
	all, err := access.GetStartingConfig()
	if err != nil {
		return &report.Error{What: "your kubeconfig cannot be read", Err: err, Fix: "correct it, or write to a file of its own with --output-file"}
	}
	context := clientcmdapi.NewContext()
	context.Cluster, context.AuthInfo = name, name
	cluster, user := added.Clusters[ours.Cluster].DeepCopy(), added.AuthInfos[ours.AuthInfo].DeepCopy()
	if was := all.Clusters[name]; was != nil {
		cluster.LocationOfOrigin = was.LocationOfOrigin
	}
	if was := all.AuthInfos[name]; was != nil {
		user.LocationOfOrigin = was.LocationOfOrigin
	}
	if was := all.Contexts[name]; was != nil {
		context.LocationOfOrigin, context.Namespace, context.Extensions = was.LocationOfOrigin, was.Namespace, was.Extensions
	}
	if !replace && differs(all, name, cluster, user, context) {
		return report.Usage("your kubeconfig has another cluster, user or context "+name, "add --yes to replace it, or write to a file of its own with --output-file")
	}
	all.Clusters[name], all.AuthInfos[name], all.Contexts[name] = cluster, user, context
	if all.CurrentContext == "" {
		all.CurrentContext = name
	}
	if err := clientcmd.ModifyConfig(access, *all, true); err != nil {
		return &report.Error{What: "your kubeconfig cannot be written", Err: err, Fix: "make it writable, or write to a file of its own with --output-file"}
	}
	return nil
}

func differs(all *clientcmdapi.Config, name string, cluster *clientcmdapi.Cluster, user *clientcmdapi.AuthInfo, context *clientcmdapi.Context) bool {
	a, b, c := all.Clusters[name], all.AuthInfos[name], all.Contexts[name]
	return a != nil && a.Server != cluster.Server || b != nil && !reflect.DeepEqual(b, user) || c != nil && (c.Cluster != context.Cluster || c.AuthInfo != context.AuthInfo)
}
