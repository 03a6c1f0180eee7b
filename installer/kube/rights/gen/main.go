// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Command gen writes docs/csccm-rights.yaml.
package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/csccm/csccm/installer/kube/helm"
	"github.com/csccm/csccm/installer/kube/rights"
)

func main() {
	if err := write(filepath.Join("..", "..", "..", "docs")); err != nil {
		fmt.Fprintln(os.Stderr, "rights:", err)
		os.Exit(1)
	}
}

func write(docs string) error {
	granted, err := grantedByChart()
	if err != nil {
		return err
	}
	roles, err := rights.Roles(granted)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(docs, "csccm-rights.yaml"), []byte(roles), 0o644) //nolint:gosec // for everybody
}

// grantedByChart returns the rules of the chart's roles, and the permission to bind the predefined roles of Kubernetes
// that the chart binds.
func grantedByChart() (rights.Granted, error) {
	chart, err := helm.Embedded()
	if err != nil {
		return nil, err
	}
	manifest, err := helm.Template(context.Background(), metav1.NamespaceSystem, helm.ApplyRequest{Name: "cloudstack-ccm", Chart: chart, KubeVersion: "v1.37.0"})
	if err != nil {
		return nil, err
	}
	granted := rights.Granted{}
	var own []string
	var bound []rbacv1.RoleRef
	for document := range strings.SplitSeq(manifest, "\n---\n") {
		var o struct {
			metav1.TypeMeta   `json:",inline"`
			metav1.ObjectMeta `json:"metadata"`
			Rules             []rbacv1.PolicyRule `json:"rules"`
			RoleRef           rbacv1.RoleRef      `json:"roleRef"`
		}
		if err := yaml.Unmarshal([]byte(document), &o); err != nil {
			return nil, err
		}
		switch {
		case len(o.Rules) > 0:
			place := rights.Place(o.Namespace)
			granted[place] = append(granted[place], o.Rules...)
			own = append(own, o.Kind+"/"+o.Name)
		case o.RoleRef.Name != "":
			bound = append(bound, o.RoleRef)
		}
	}
	for _, r := range bound {
		if slices.Contains(own, r.Kind+"/"+r.Name) {
			continue
		}
		place, resource := rights.Everywhere, "clusterroles"
		if r.Kind == "Role" {
			place, resource = rights.System, "roles"
		}
		granted[place] = append(granted[place], rbacv1.PolicyRule{
			APIGroups: []string{rbacv1.GroupName}, Resources: []string{resource}, ResourceNames: []string{r.Name}, Verbs: []string{"bind"},
		})
	}
	return granted, nil
}
