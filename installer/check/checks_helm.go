// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"context"

	"github.com/csccm/csccm/installer/check/decide"
	"github.com/csccm/csccm/installer/kube/helm"
)

const catHelm = "Helm release"

func helmChecks() []Check {
	return []Check{
		{
			Code: "HELM-001", Category: catHelm, Title: "Release in a settled state", Severity: SeverityError, Phases: both(), Needs: []string{"K8S-001"},
			What:   "The newest revision of the Helm release is deployed, or there is none yet.",
			Why:    "A pending revision (an installation was killed) blocks all further ones; after a failed one the cluster differs from the release.",
			Remedy: "wait until a pending revision is no longer worked on; of one that was left by a process that is dead: `csccm upgrade --force-unlock`; of a failed one: remove the cause, then `csccm upgrade`",
			Run: func(ctx context.Context, e *Env) Finding {
				return judge(ctx, e, releasesFact, func(records []helm.Release) Finding {
					return decide.Release(e.Release, e.Namespace, records, e.facts.phase == PhasePreflight)
				})
			},
		},
		{
			Code: "HELM-002", Category: catHelm, Title: "No object of the chart belongs to somebody else", Severity: SeverityError, Phases: []Phase{PhasePreflight}, Needs: []string{"K8S-001"},
			What:   "Objects that the chart would create either do not exist or belong to the release.",
			Why:    "Helm refuses objects without its labels, but only after it has created others.",
			Remedy: "delete or rename the named objects, or mark them as the release's: label app.kubernetes.io/managed-by=Helm, annotations meta.helm.sh/release-name and meta.helm.sh/release-namespace",
			Run:    runConflicts,
		},
		{
			Code: "HELM-003", Category: catHelm, Title: "Cluster is as the release says", Severity: SeverityWarning, Phases: []Phase{PhaseInstalled}, Needs: []string{"K8S-001"},
			What:   "Every object of the deployed revision exists in the cluster with the fields of the release, according to a server-side dry run.",
			Why:    "The next upgrade undoes manual changes, and missing objects cause failures.",
			Remedy: "`csccm upgrade` brings back what the release says; a change that is to stay goes into the chart's values",
			Run:    runDrift,
		},
		{
			Code: "HELM-004", Category: catHelm, Title: "Release holds no credentials", Severity: SeverityError, Phases: []Phase{PhaseInstalled}, Needs: []string{"K8S-001"},
			What:   "No revision that Helm keeps contains the CloudStack keys, in values or manifests.",
			Why:    "Helm keeps values and manifests of all revisions in Secrets, so keys among them stay after a rotation.",
			Remedy: "keep the keys in a Secret of your own (chart value existingSecret), make new ones with csccm rotate-keys, and delete the named records",
			Run: func(ctx context.Context, e *Env) Finding {
				return judge(ctx, e, releasesFact, func(records []helm.Release) Finding {
					return decide.Leaks(records, e.secrets())
				})
			},
		},
	}
}
