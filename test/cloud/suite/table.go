// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package suite

import "slices"

// scenarios is the table of all scenarios, in the order in which they are run: those of one place together.
func scenarios() []scenario {
	return slices.Concat(
		installs(isolated), services(isolated), addressScenarios(isolated), removals(isolated),
		installs(vpc), services(vpc), addressScenarios(vpc), removals(vpc),
		installs(project), services(project), addressScenarios(project), removals(project),
	)
}
