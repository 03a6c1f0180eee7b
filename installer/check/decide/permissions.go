// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package decide

import (
	"slices"
	"strings"

	"github.com/csccm/csccm/installer/kube/rights"
	"github.com/csccm/csccm/pkg/plural"
)

// Permissions decides K8S-003.
func Permissions(needed, optional, denied []rights.Request, refused []Object) Finding {
	var missing, lost []string
	for _, r := range denied {
		if slices.Contains(needed, r) {
			missing = append(missing, r.String())
		} else {
			lost = append(lost, r.String())
		}
	}
	slices.Sort(missing)
	slices.Sort(lost)
	switch {
	case len(missing) > 0:
		return Problemf("the caller may not: %s", strings.Join(missing, ", ")).About(refused...)
	case len(refused) > 0:
		return Problemf("the API server would refuse %s of the chart", plural.Count(len(refused), "object")).About(refused...)
	case len(lost) > 0:
		return Warnf("the caller may not: %s", strings.Join(lost, ", ")).
			Fix("none needed: csccm does without, but finds out less; docs/security.md has the table of its rights")
	}
	return Passf("all %d rights of an installation", len(needed)+len(optional))
}
