// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/csccm/csccm/pkg/provider"
)

// Identity holds the sources of the cluster's name in CloudStack's tags, as the controller reads them.
type Identity struct {
	Flag   string // --cluster-id of the controller
	Config string // cluster-id of the cloud-config
	Name   string // --cluster-name of the controller
	// Former are the former-cluster-ids of the cloud-config.
	Former []string
}

// IdentityOf reads the controller's flags among the words that it is started with.
func IdentityOf(words []string) Identity {
	var out Identity
	for i, w := range words {
		name, value, joined := strings.Cut(w, "=")
		if !joined && i+1 < len(words) {
			value = words[i+1]
		}
		switch name {
		case "--cluster-id":
			out.Flag = value
		case "--cluster-name":
			out.Name = value
		}
	}
	return out
}

// Resolve returns the cluster's ids in tags: the current one as the controller chooses it, then former ones. The API
// server is asked for the UID of kube-system only where nothing else names the cluster.
func (i Identity) Resolve(ctx context.Context, kube kubernetes.Interface) ([]string, error) {
	id := provider.ClusterID(i.Flag, i.Config, i.Name, "")
	if id == "" {
		ns, err := kube.CoreV1().Namespaces().Get(ctx, metav1.NamespaceSystem, metav1.GetOptions{})
		if err != nil {
			return nil, fmt.Errorf("read the UID of namespace %s, the id of the cluster in CloudStack's tags: %w", metav1.NamespaceSystem, err)
		}
		id = string(ns.UID)
	}
	return append([]string{id}, i.Former...), nil
}

// NamespaceLabels returns the labels of all namespaces, by name.
func NamespaceLabels(ctx context.Context, kube kubernetes.Interface) (map[string]map[string]string, error) {
	var err error
	out := map[string]map[string]string{}
	for _, n := range List(ctx, &err, kube.CoreV1().Namespaces().List).Items {
		out[n.Name] = n.Labels
	}
	return out, err
}
