// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package world

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/csccm/csccm/pkg/simulator/internal/store"
)

var semanticVersion = regexp.MustCompile(`^[0-9]+\.[0-9]+\.[0-9]+$`)

// isoStates are the states of an ISO. Answers do not show the default.
var isoStates = []string{"", store.ISOReady, "Allocated", store.ISOCreating, "Failed", store.ISOMissing}

func (b *builder) kubernetesVersions() error {
	for _, v := range b.w.KubernetesVersions {
		name := cmp.Or(v.Name, "v"+v.Semantic)
		row := &store.KubernetesVersion{
			Entity: b.entity("kubernetesversion", v.ID, name), Name: name, Semantic: v.Semantic, Disabled: v.Disabled, Arch: "x86_64",
			MinCPU: cmp.Or(v.MinCPUs, 2), MinMemMB: cmp.Or(v.MinMem, 2048), ISOState: v.ISOState,
			IsoID: store.StableID("iso", name), IsoName: name + "-Kubernetes-Binaries-ISO",
		}
		switch {
		case !semanticVersion.MatchString(v.Semantic):
			return fmt.Errorf("kubernetes version %q: semanticVersion must be three numbers, such as 1.33.1", v.Semantic)
		case row.MinCPU < 2 || row.MinMemMB < 2048:
			return fmt.Errorf("kubernetes version %q: a node needs at least 2 minCPUs and 2048 minMemoryMiB", name)
		case !slices.Contains(isoStates, v.ISOState):
			return fmt.Errorf("kubernetes version %q: isoState %q must be one of %s", name, v.ISOState, strings.Join(isoStates[1:], ", "))
		}
		if err := checkID(b.st.KubernetesVersions, "kubernetes version", name, v.ID); err != nil {
			return err
		}
		if v.Zone != "" {
			z, ok := b.st.Zones.Find(func(z *store.Zone) bool { return strings.EqualFold(z.Name, v.Zone) })
			if !ok {
				return fmt.Errorf("kubernetes version %q: zone %q is not among the world's zones", name, v.Zone)
			}
			row.Zone = z
		}
		b.st.KubernetesVersions.Add(row)
	}
	return nil
}
