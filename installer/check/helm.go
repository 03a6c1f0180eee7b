// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/csccm/csccm/installer/kube/diff"
	"github.com/csccm/csccm/installer/kube/helm"
	"github.com/csccm/csccm/installer/report"
)

// Deployed returns the deployed revision; nil if there is none.
func (f *Facts) Deployed() *helm.Release { return Find(f.Records, (*helm.Release).Deployed) }

// recordOf returns the name of the Secret in which Helm stores a revision.
func recordOf(r *helm.Release) string {
	return fmt.Sprintf("sh.helm.release.v1.%s.v%d", r.Name, r.Revision)
}

var helm001 = Check{
	Code:  "HELM-001",
	Title: "Release in a settled state",
	Reads: Sources{Releases},
	Judge: settledRelease,
	What:  `The newest revision of the Helm release is deployed, or there is none yet.`,
	Why: `A pending revision (an installation was killed) blocks all further ones; after a failed one the cluster
		differs from the release.`,
	Remedy: "if a revision is pending, wait for the process that works on it, or, if that process has crashed: " +
		"`csccm upgrade --force-unlock`; if a revision failed, remove the cause, then `csccm upgrade`",
}

func settledRelease(f *Facts) Finding {
	if len(f.Records) == 0 {
		return Passf("release %s is not in namespace %s", f.Release, f.Namespace)
	}
	last := &f.Records[len(f.Records)-1]
	if last.Deployed() {
		return Passf("release %s, revision %d: deployed", f.Release, last.Revision)
	}
	out := Problemf("release %s, revision %d: %s", f.Release, last.Revision, last.Status).
		About(Object{Kind: "Secret", Namespace: f.Namespace, Name: recordOf(last)})
	if f.Phase == PhasePreflight {
		out.Outcome = Warning // the installation that follows handles this state
	}
	return out
}

var helm002 = Check{
	Code:  "HELM-002",
	Title: "No object of the chart belongs to somebody else",
	Phase: PhasePreflight,
	Reads: Sources{Drift},
	Judge: conflicts,
	What:  `Objects that the chart would create either do not exist or belong to the release.`,
	Why:   `Helm refuses objects without its labels, but only after it has created others.`,
	Remedy: `delete or rename the named objects, or mark them as the release's: label
		app.kubernetes.io/managed-by=Helm, annotations meta.helm.sh/release-name and meta.helm.sh/release-namespace`,
}

func conflicts(f *Facts) Finding {
	if f.Manifest == "" || f.Drift == nil {
		return Skipf("no manifest is going to be applied")
	}
	var objects Objects
	for i := range f.Drift {
		o := f.Drift[i].Live
		if o == nil {
			continue
		}

		name := o.GetAnnotations()["meta.helm.sh/release-name"]
		namespace := o.GetAnnotations()["meta.helm.sh/release-namespace"]
		if o.GetLabels()["app.kubernetes.io/managed-by"] != "Helm" || name != f.Release || namespace != f.Namespace {
			objects.aboutf(o.GetKind(), o, "exists and belongs to Helm release %q",
				strings.Trim(namespace+"/"+name, "/"))
		}
	}
	return Passf("%s of the chart", count(len(f.Drift), "object")).Unless(objects, "object",
		"%s of the chart exist and do not belong to the release")
}

// maxFields limits the differing fields that are shown for one object.
const maxFields = 5

// vital are the kinds of objects that the controller needs to work.
var vital = []string{
	"ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding", "ServiceAccount", "Deployment", "DaemonSet",
}

var helm003 = Check{
	Code:     "HELM-003",
	Title:    "Cluster matches the release",
	Severity: SeverityWarning,
	Phase:    PhaseInstalled,
	Reads:    Sources{Releases, Drift},
	Judge:    drift,
	What: `Every object of the deployed revision exists in the cluster with the fields of the release, according to
		a server-side dry run.`,
	Why: `The next upgrade undoes manual changes. Without its rights, its account or its workload the controller
		does not work: that they are missing is an error.`,
	Remedy: "`csccm upgrade` restores the objects of the release; put a change that you want to keep into the " +
		"chart's values",
}

func drift(f *Facts) Finding {
	r := f.Deployed()
	switch {
	case r == nil:
		return Skipf("no revision of release %s is deployed", f.Release)
	case f.Drift == nil:
		return Skipf("its objects cannot be compared without a connection for objects of any kind")
	}

	var out Objects
	var outcome Outcome // "" means the severity of the check
	var fix string      // "" means the remedy of the check
	for _, c := range f.Drift {
		o := Object{Kind: c.Kind, Namespace: c.Namespace, Name: c.Name}
		switch {
		case c.Action == diff.Create:
			o.Message = "is in the release and not in the cluster"
			if slices.Contains(vital, c.Kind) {
				outcome = Failed
			}

			if c.Kind == "ServiceAccount" { // the tokens of the old one are not valid
				fix = "start new Pods, and restore the objects of the release: `" + restart + "`; `csccm upgrade`"
			}

		case c.Problem != "":
			o.Message = "the API server would refuse it as it is in the release: " + OneLine(c.Problem)
		case c.Action == diff.Update:
			o.Message = "the release would change " + strings.Join(c.Lines[:min(len(c.Lines), maxFields)], "; ")
		default:
			continue
		}
		out = append(out, o)
	}

	all := count(len(f.Drift), "object")
	if len(out) > 0 {
		found := Problemf("%d of %s differ from revision %d", len(out), all, r.Revision).as(outcome).About(out...)
		found.Remedy = fix
		return found
	}

	return Passf("%s as in revision %d", all, r.Revision)
}

// credentialLine matches a credential of a cloud-config with its value, in YAML, INI or JSON.
var credentialLine = regexp.MustCompile(`(?i)(api-key|secret-key|apikey|secretkey)\s*[=:]\s*["']?[A-Za-z0-9_\-]{40,}`)

var helm004 = Check{
	Code:  "HELM-004",
	Title: "Release holds no credentials",
	Phase: PhaseInstalled,
	Reads: Sources{Releases},
	Judge: leaks,
	What:  `No revision that Helm keeps contains the CloudStack keys, in values or manifests.`,
	Why:   `Helm keeps values and manifests of all revisions in Secrets, so keys among them stay after a rotation.`,
	Remedy: `keep the keys in a Secret of your own (chart value existingSecret), make new ones with csccm
		rotate-keys, and delete the named records`,
}

func leaks(f *Facts) Finding {
	if len(f.Records) == 0 {
		return Skipf("there is no release")
	}
	var objects Objects
	for _, r := range f.Records {
		values, _ := json.Marshal(r.Values)
		text := strings.Join(append(slices.Clone(r.Tests), r.Manifest, r.Notes, string(values)), "\n")
		if credentialLine.MatchString(text) || report.Mask(text, f.Config.APIKey, f.Config.SecretKey) != text {
			objects.addf("Secret", recordOf(&r), "revision %d holds credentials", r.Revision)
		}
	}
	return Passf("%s searched", count(len(f.Records), "revision")).
		Unless(objects, "record", "%s of Helm with credentials").
		Fix("keep the keys in a Secret of your own (chart value existingSecret), make new ones with csccm "+
			"rotate-keys, and delete the records: `kubectl -n NAMESPACE delete secret %s`", namesOf(objects))
}
