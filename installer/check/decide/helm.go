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

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/csccm/csccm/installer/engine/diff"
	"github.com/csccm/csccm/installer/kube/helm"
	"github.com/csccm/csccm/pkg/plural"
)

// recordOf names the Secret in which Helm stores a revision.
func recordOf(r *helm.Release) string {
	return fmt.Sprintf("sh.helm.release.v1.%s.v%d", r.Name, r.Revision)
}

// Release decides HELM-001.
func Release(name, namespace string, records []helm.Release, preflight bool) Finding {
	if len(records) == 0 {
		return Passf("release %s is not in namespace %s", name, namespace).With("status", "absent")
	}
	last := &records[len(records)-1]
	f := Problemf("release %s, revision %d: %s", name, last.Revision, last.Status).About(Object{Kind: "Secret", Namespace: namespace, Name: recordOf(last)})
	command := "upgrade"
	if !slices.ContainsFunc(records, func(r helm.Release) bool { return r.Deployed() || r.Status == "superseded" }) {
		command = "install"
	}
	switch {
	case last.Deployed():
		f = Passf("release %s, revision %d: deployed", name, last.Revision)
	case strings.HasPrefix(last.Status, "pending"):
		f.Message += "; helm or csccm is working on it, or was killed"
		f = f.Fix("wait until that has ended; if nobody works on it any more: `csccm %s --force-unlock`", command)
	default:
		f = f.Fix("remove the cause, which the Pods or the history of the release name (helm -n %s history %s), then: `csccm %s`", namespace, name, command)
	}
	if preflight && f.Outcome != OK {
		f.Outcome = Warning // the installation that follows judges it
	}
	return f.With("status", last.Status).With("revision", strconv.Itoa(last.Revision))
}

// credentialLine finds a key of a cloud-config with a value, in YAML or INI, also inside JSON.
var credentialLine = regexp.MustCompile(`(?i)(api-key|secret-key|apikey|secretkey)\s*[=:]\s*["']?[A-Za-z0-9_\-]{40,}`)

// Leaks decides HELM-004.
func Leaks(records []helm.Release, secrets []string) Finding {
	if len(records) == 0 {
		return Skipf("there is no release")
	}
	var objects []Object
	for i := range records {
		r := &records[i]
		values, _ := json.Marshal(r.Values)
		text := strings.Join(append(r.Tests, r.Manifest, r.Notes, string(values)), "\n")
		found := credentialLine.MatchString(text) || slices.ContainsFunc(secrets, func(s string) bool { return s != "" && strings.Contains(text, s) })
		if found {
			objects = append(objects, Object{Kind: "Secret", Name: recordOf(r), Message: fmt.Sprintf("revision %d holds credentials", r.Revision)})
		}
	}
	if len(objects) > 0 {
		var names []string
		for _, o := range objects {
			names = append(names, o.Name)
		}
		return Problemf("%s of Helm with credentials", plural.Count(len(objects), "record")).About(objects...).
			Fix("keep the keys in a Secret of your own (chart value existingSecret), make new ones with csccm rotate-keys, and delete the records: `kubectl -n %s delete secret %s`",
				WordNamespace, strings.Join(names, " "))
	}
	return Passf("%s searched", plural.Count(len(records), "revision"))
}

// Conflicts decides HELM-002, by what is in the cluster of the objects of the release's chart; nil is what is not there.
func Conflicts(live []*unstructured.Unstructured, namespace, release string) Finding {
	var objects []Object
	var free []string // that a command can mark as the release's
	there := 0
	for _, o := range live {
		if o == nil {
			continue
		}
		there++
		a := o.GetAnnotations()
		owner := "nobody"
		switch {
		case o.GetLabels()["app.kubernetes.io/managed-by"] == "Helm" && a["meta.helm.sh/release-name"] == release && a["meta.helm.sh/release-namespace"] == namespace:
			continue
		case a["meta.helm.sh/release-name"] != "":
			owner = "Helm release " + a["meta.helm.sh/release-namespace"] + "/" + a["meta.helm.sh/release-name"]
		default:
			free = append(free, strings.ToLower(o.GetKind())+"/"+o.GetName())
		}
		objects = append(objects, Object{Kind: o.GetKind(), Namespace: o.GetNamespace(), Name: o.GetName(), Message: "exists and belongs to " + owner})
	}
	f := Passf("%s of the chart, %d of them there as the release's", plural.Count(len(live), "object"), there).Unless(objects, "object", "%s of the chart exist without being the release's")
	if names := strings.Join(free, " "); len(free) == len(objects) && len(free) > 0 {
		f = f.Fix("delete or rename them, or have the release take them over: `kubectl -n %s label %s app.kubernetes.io/managed-by=Helm` and "+
			"`kubectl -n %s annotate %s meta.helm.sh/release-name=%s meta.helm.sh/release-namespace=%s`", namespace, names, namespace, names, release, namespace)
	}
	return f
}

// Drift decides HELM-003.
func Drift(revision int, changes []diff.Change) Finding {
	var out []Object
	for i := range changes {
		c := &changes[i]
		o := Object{Kind: c.Kind, Namespace: c.Namespace, Name: c.Name}
		switch {
		case c.Action == diff.Create:
			o.Message = "is in the release and not in the cluster"
		case c.Problem != "":
			o.Message = "the API server would not take it as the release has it: " + OneLine(c.Problem)
		case c.Action == diff.Update:
			lines, more := c.Lines, ""
			if n := len(lines) - maxFields; n > 0 {
				lines, more = lines[:maxFields], fmt.Sprintf("; and %s more", plural.Count(n, "field"))
			}
			if len(c.By) > 0 {
				more += "; changed by " + strings.Join(c.By, ", ")
			}
			o.Message = "the release would change " + strings.Join(lines, "; ") + more
		default:
			continue
		}
		out = append(out, o)
	}
	if len(out) > 0 {
		return Problemf("%d of %s differ from revision %d", len(out), plural.Count(len(changes), "object"), revision).About(out...)
	}
	return Passf("%s as in revision %d", plural.Count(len(changes), "object"), revision)
}

// maxFields is how many differing fields of one object are named.
const maxFields = 5
