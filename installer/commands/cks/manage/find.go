// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package manage

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/Masterminds/semver/v3"

	"github.com/csccm/csccm/installer/engine/report"
	"github.com/csccm/csccm/pkg/cloudstack"
)

// named is how an object may be called.
type named struct {
	id    string
	names []string // the first is shown
	where string   // what tells objects of the same name apart; may be ""
}

// pick returns the object that a person calls by its id or by one of its names. noun is what it is, such as "zone"; flag
// takes another one, and "" means an argument.
func pick[T any](noun, flag, want string, items []T, name func(*T) named) (*T, error) {
	var found []int
	var known []string
	for i := range items {
		n := name(&items[i])
		if strings.EqualFold(n.id, want) {
			return &items[i], nil
		}
		if slices.Contains(n.names, want) {
			found = append(found, i)
		}
		known = append(known, n.names[0])
	}
	switch len(found) {
	case 1:
		return &items[found[0]], nil
	case 0:
		fix := "there is none that these credentials see"
		if len(known) > 0 {
			fix = "name one of these" + with(flag) + ": " + some(known)
		}
		return nil, report.Usage(fmt.Sprintf("there is no %s %q", noun, want), fix)
	}
	same := make([]string, len(found))
	for i, at := range found {
		n := name(&items[at])
		same[i] = n.id
		if n.where != "" {
			same[i] += " (" + n.where + ")"
		}
	}
	return nil, report.Usage(fmt.Sprintf("%d %ss are called %q: %s", len(found), noun, want, strings.Join(same, ", ")),
		"give the id of one"+with(flag))
}

func with(flag string) string {
	if flag == "" {
		return ""
	}
	return " with " + flag
}

// some lists names for a remedy, the first ten of them.
func some(names []string) string {
	const most = 10
	slices.Sort(names)
	names = slices.Compact(names)
	if len(names) > most {
		return strings.Join(names[:most], ", ") + ", ..."
	}
	return strings.Join(names, ", ")
}

func nameOfCluster(k *cloudstack.KubernetesCluster) named {
	return named{id: k.ID, names: []string{k.Name}, where: "state " + k.State + ", zone " + k.ZoneName}
}

func nameOfVersion(v *cloudstack.KubernetesVersion) named {
	where := "all zones"
	if v.ZoneName != "" {
		where = "zone " + v.ZoneName
	}
	if v.Arch != "" {
		where += ", " + v.Arch
	}
	return named{id: v.ID, names: []string{v.Name, v.Semantic, "v" + v.Semantic}, where: where}
}

func nameOfZone(z *cloudstack.Zone) named { return named{id: z.ID, names: []string{z.Name}} }

func nameOfOffering(o *cloudstack.ServiceOffering) named {
	return named{id: o.ID, names: []string{o.Name}, where: fmt.Sprintf("%d CPUs, %d MiB", o.CPUs, o.MemoryMiB)}
}

func nameOfNetwork(n *cloudstack.Network) named {
	return named{id: n.ID, names: []string{n.Name}, where: n.Type}
}

// clusters lists the clusters, by name.
func (s *Service) clusters(ctx context.Context) ([]cloudstack.KubernetesCluster, error) {
	all, err := s.API.ListKubernetesClusters(ctx, s.Project)
	if err != nil {
		return nil, explain("list the clusters", err)
	}
	slices.SortStableFunc(all, func(a, b cloudstack.KubernetesCluster) int { return strings.Compare(a.Name, b.Name) })
	return all, nil
}

// cluster returns the cluster that a person names.
func (s *Service) cluster(ctx context.Context, want string) (*cloudstack.KubernetesCluster, error) {
	all, err := s.clusters(ctx)
	if err != nil {
		return nil, err
	}
	k, err := pick("cluster", "", want, all, nameOfCluster)
	if err != nil && len(all) == 0 {
		return nil, report.Usage(fmt.Sprintf("there is no cluster %q: there is none at all in %s", want, s.Scope()),
			"name its project with --project, or create it with csccm cks create")
	}
	return k, err
}

// Scope names whose clusters are seen.
func (s *Service) Scope() string {
	if s.Project != "" {
		return "project " + s.Project
	}
	return "the account of the credentials"
}

// versions lists the versions that a zone can install, or all for "", the newest first.
func (s *Service) versions(ctx context.Context, zoneID string) ([]cloudstack.KubernetesVersion, error) {
	all, err := s.API.ListKubernetesVersions(ctx, zoneID)
	if err != nil {
		return nil, explain("list the Kubernetes versions", err)
	}
	slices.SortStableFunc(all, func(a, b cloudstack.KubernetesVersion) int { return compareVersions(b.Semantic, a.Semantic) })
	return all, nil
}

// ClusterNames are the names of the clusters, for completion.
func ClusterNames(ctx context.Context, api *cloudstack.Client, project string) ([]string, error) {
	all, err := api.ListKubernetesClusters(ctx, project)
	out := make([]string, len(all))
	for i := range all {
		out[i] = all[i].Name
	}
	return out, err
}

// compareVersions orders semantic versions; a text that is none comes before all others.
func compareVersions(a, b string) int {
	va, aerr := semver.NewVersion(a)
	vb, berr := semver.NewVersion(b)
	switch {
	case aerr != nil && berr != nil:
		return strings.Compare(a, b)
	case aerr != nil:
		return -1
	case berr != nil:
		return 1
	}
	return va.Compare(vb)
}

// OfferingNames are the names of the service offerings, for completion.
func OfferingNames(ctx context.Context, api *cloudstack.Client, _ string) ([]string, error) {
	all, err := api.ListServiceOfferings(ctx, "")
	out := make([]string, len(all))
	for i := range all {
		out[i] = all[i].Name
	}
	return out, err
}

// NetworkNames are the names of the networks, for completion.
func NetworkNames(ctx context.Context, api *cloudstack.Client, project string) ([]string, error) {
	all, err := api.ListNetworks(ctx, cloudstack.NetworkQuery{ProjectID: project})
	out := make([]string, len(all))
	for i := range all {
		out[i] = all[i].Name
	}
	return out, err
}

// KeyPairNames are the names of the SSH keys, for completion.
func KeyPairNames(ctx context.Context, api *cloudstack.Client, project string) ([]string, error) {
	all, err := api.ListKeyPairs(ctx, project)
	out := make([]string, len(all))
	for i := range all {
		out[i] = all[i].Name
	}
	return out, err
}
