// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package suite

import "slices"

// scenarios is the table of all scenarios, in the order in which they are run: those of one place together.
func scenarios() []scenario {
	return slices.Concat(
		installs(isolated), services(isolated), addressScenarios(isolated), budgetScenarios(isolated), driftScenarios(isolated), nodeScenarios(isolated),
		keyScenarios(isolated), migrateScenarios(isolated), faultScenarios(isolated), takeoverScenarios(isolated), removals(isolated),
		installs(vpc), services(vpc), addressScenarios(vpc), budgetScenarios(vpc), internalScenarios(vpc), driftScenarios(vpc), removals(vpc),
		installs(project), services(project), addressScenarios(project), budgetScenarios(project), driftScenarios(project), removals(project),
	)
}
