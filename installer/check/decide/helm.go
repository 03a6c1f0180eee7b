// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package decide

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/dustin/go-humanize/english"

	"github.com/csccm/csccm/installer/engine/diff"
	"github.com/csccm/csccm/installer/kube/helm"
)

func helmChecks() []Check {
	return []Check{
		{
			Code: "HELM-001", Title: "Release in a settled state", Severity: SeverityError, Needs: needAPI, Reads: []Source{Releases}, Judge: settledRelease,
			What:   "The newest revision of the Helm release is deployed, or there is none yet.",
			Why:    "A pending revision (an installation was killed) blocks all further ones; after a failed one the cluster differs from the release.",
			Remedy: "if a revision is pending, wait for the process that works on it, or, if that process is dead: `csccm upgrade --force-unlock`; if a revision failed, remove the cause, then `csccm upgrade`",
		},
		{
			Code: "HELM-002", Title: "No object of the chart belongs to somebody else", Severity: SeverityError, Phase: Preflight, Needs: needAPI, Reads: []Source{Drift}, Judge: conflicts,
			What:   "Objects that the chart would create either do not exist or belong to the release.",
			Why:    "Helm refuses objects without its labels, but only after it has created others.",
			Remedy: "delete or rename the named objects, or mark them as the release's: label app.kubernetes.io/managed-by=Helm, annotations meta.helm.sh/release-name and meta.helm.sh/release-namespace",
		},
		{
			Code: "HELM-003", Title: "Cluster is as the release says", Severity: SeverityWarning, Phase: Installed, Needs: needAPI, Reads: []Source{Releases, Drift}, Judge: drift,
			What:   "Every object of the deployed revision exists in the cluster with the fields of the release, according to a server-side dry run.",
			Why:    "The next upgrade undoes manual changes, and missing objects cause failures.",
			Remedy: "`csccm upgrade` brings back what the release says; a change that is to stay goes into the chart's values",
		},
		{
			Code: "HELM-004", Title: "Release holds no credentials", Severity: SeverityError, Phase: Installed, Needs: needAPI, Reads: []Source{Releases}, Judge: leaks,
			What:   "No revision that Helm keeps contains the CloudStack keys, in values or manifests.",
			Why:    "Helm keeps values and manifests of all revisions in Secrets, so keys among them stay after a rotation.",
			Remedy: "keep the keys in a Secret of your own (chart value existingSecret), make new ones with csccm rotate-keys, and delete the named records",
		},
	}
}

// Deployed returns the revision that is deployed; nil without one.
func (f *Facts) Deployed() *helm.Release {
	i := slices.IndexFunc(f.Records, func(r helm.Release) bool { return r.Deployed() })
	if i < 0 {
		return nil
	}
	return &f.Records[i]
}

// recordOf names the Secret in which Helm stores a revision.
func recordOf(r *helm.Release) string {
	return fmt.Sprintf("sh.helm.release.v1.%s.v%d", r.Name, r.Revision)
}

func settledRelease(f *Facts) Finding {
	if len(f.Records) == 0 {
		return Passf("release %s is not in namespace %s", f.Release, f.Namespace).With("status", "absent")
	}
	last := &f.Records[len(f.Records)-1]
	out := Problemf("release %s, revision %d: %s", f.Release, last.Revision, last.Status).About(Object{Kind: "Secret", Namespace: f.Namespace, Name: recordOf(last)})
	command := "upgrade"
	if !slices.ContainsFunc(f.Records, func(r helm.Release) bool { return r.Deployed() || r.Status == "superseded" }) {
		command = "install"
	}
	switch {
	case last.Deployed():
		out = Passf("release %s, revision %d: deployed", f.Release, last.Revision)
	case strings.HasPrefix(last.Status, "pending"):
		out.Message += "; helm or csccm is working on it, or was killed"
		out = out.Fix("wait until that has ended; if nobody works on it any more: `csccm %s --force-unlock`", command)
	default:
		out = out.Fix("remove the cause, which the Pods or the history of the release name (helm -n %s history %s), then: `csccm %s`", f.Namespace, f.Release, command)
	}
	if f.Phase == Preflight && out.Outcome != OK {
		out.Outcome = Warning // the installation that follows judges it
	}
	return out.With("status", last.Status).With("revision", strconv.Itoa(last.Revision))
}

func conflicts(f *Facts) Finding {
	if f.Manifest == "" || f.Drift == nil {
		return Skipf("no manifest is about to be applied")
	}
	var objects []Object
	var free []string // that a command can mark as the release's
	there := 0
	for i := range f.Drift {
		o := f.Drift[i].Live
		if o == nil {
			continue
		}
		there++
		a := o.GetAnnotations()
		name, namespace := a["meta.helm.sh/release-name"], a["meta.helm.sh/release-namespace"]
		owner := "nobody"
		switch {
		case o.GetLabels()["app.kubernetes.io/managed-by"] == "Helm" && name == f.Release && namespace == f.Namespace:
			continue
		case name != "":
			owner = "Helm release " + namespace + "/" + name
		default:
			free = append(free, strings.ToLower(o.GetKind())+"/"+o.GetName())
		}
		objects = append(objects, Object{Kind: o.GetKind(), Namespace: o.GetNamespace(), Name: o.GetName(), Message: "exists and belongs to " + owner})
	}
	out := Passf("%s of the chart, %d of them there as the release's", english.Plural(len(f.Drift), "object", ""), there).
		Unless(objects, "object", "%s of the chart exist without being the release's")
	if names := strings.Join(free, " "); len(free) == len(objects) && len(free) > 0 {
		out = out.Fix("delete or rename them, or have the release take them over: `kubectl -n %s label %s app.kubernetes.io/managed-by=Helm` and "+
			"`kubectl -n %s annotate %s meta.helm.sh/release-name=%s meta.helm.sh/release-namespace=%s`", f.Namespace, names, f.Namespace, names, f.Release, f.Namespace)
	}
	return out
}

// maxFields is how many differing fields of one object are named.
const maxFields = 5

func drift(f *Facts) Finding {
	r := f.Deployed()
	switch {
	case r == nil:
		return Skipf("no revision of release %s is deployed", f.Release)
	case f.Drift == nil:
		return Skipf("its objects cannot be compared without a connection for objects of any kind")
	}
	var out []Object
	for i := range f.Drift {
		c := &f.Drift[i]
		o := Object{Kind: c.Kind, Namespace: c.Namespace, Name: c.Name}
		switch {
		case c.Action == diff.Create:
			o.Message = "is in the release and not in the cluster"
		case c.Problem != "":
			o.Message = "the API server would not take it as the release has it: " + OneLine(c.Problem)
		case c.Action == diff.Update:
			o.Message = "the release would change " + strings.Join(c.Lines[:min(len(c.Lines), maxFields)], "; ")
			if n := len(c.Lines) - maxFields; n > 0 {
				o.Message += fmt.Sprintf("; and %s more", english.Plural(n, "field", ""))
			}
		default:
			continue
		}
		out = append(out, o)
	}
	all := english.Plural(len(f.Drift), "object", "")
	if len(out) > 0 {
		return Problemf("%d of %s differ from revision %d", len(out), all, r.Revision).About(out...)
	}
	return Passf("%s as in revision %d", all, r.Revision)
}

// credentialLine finds a key of a cloud-config with a value, in YAML or INI, also inside JSON.
var credentialLine = regexp.MustCompile(`(?i)(api-key|secret-key|apikey|secretkey)\s*[=:]\s*["']?[A-Za-z0-9_\-]{40,}`)

func leaks(f *Facts) Finding {
	if len(f.Records) == 0 {
		return Skipf("there is no release")
	}
	var objects []Object
	for i := range f.Records {
		r := &f.Records[i]
		values, _ := json.Marshal(r.Values)
		text := strings.Join(append(slices.Clone(r.Tests), r.Manifest, r.Notes, string(values)), "\n")
		if credentialLine.MatchString(text) ||
			slices.ContainsFunc([]string{f.Config.APIKey, f.Config.SecretKey}, func(s string) bool { return s != "" && strings.Contains(text, s) }) {
			objects = append(objects, Object{Kind: "Secret", Name: recordOf(r), Message: fmt.Sprintf("revision %d holds credentials", r.Revision)})
		}
	}
	return Passf("%s searched", english.Plural(len(f.Records), "revision", "")).Unless(objects, "record", "%s of Helm with credentials").
		Fix("keep the keys in a Secret of your own (chart value existingSecret), make new ones with csccm rotate-keys, and delete the records: `kubectl -n %s delete secret %s`",
			WordNamespace, namesOf(objects))
}
