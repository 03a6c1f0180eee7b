// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package decide

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/csccm/csccm/pkg/plural"
)

// ReleaseRecord is one revision as Helm stores it in a Secret.
type ReleaseRecord struct {
	secret   string
	Revision int
	Status   string
	// text is the decoded record: values, manifest and chart.
	text string
	Err  error // why text is empty
}

// ReleaseContent is the part of a decoded record that checks read.
type ReleaseContent struct {
	Manifest string `json:"manifest"`
	Chart    struct {
		Metadata struct {
			Name       string `json:"name"`
			Version    string `json:"version"`
			AppVersion string `json:"appVersion"`
		} `json:"metadata"`
	} `json:"chart"`
	Info struct {
		LastDeployed string `json:"last_deployed"`
	} `json:"info"`
}

// Content decodes the record.
func (r *ReleaseRecord) Content() (c ReleaseContent, err error) {
	if r.Err != nil {
		return c, r.Err
	}
	return c, json.Unmarshal([]byte(r.text), &c)
}

// ReleaseRecords reads Helm's Secrets, the newest revision last.
func ReleaseRecords(secrets []corev1.Secret) []ReleaseRecord {
	var out []ReleaseRecord
	for i := range secrets {
		s := &secrets[i]
		if s.Type != "helm.sh/release.v1" {
			continue
		}
		r := ReleaseRecord{secret: s.Name, Status: s.Labels["status"]}
		r.Revision, _ = strconv.Atoi(s.Labels["version"])
		r.text, r.Err = decodeRelease(s.Data["release"])
		out = append(out, r)
	}
	slices.SortFunc(out, func(a, b ReleaseRecord) int { return a.Revision - b.Revision })
	return out
}

// maxRelease bounds what is unpacked of a record: a Secret holds at most 1 MiB, packed.
const maxRelease = 64 << 20

// decodeRelease undoes base64 over gzip over JSON.
func decodeRelease(data []byte) (string, error) {
	packed, err := base64.StdEncoding.DecodeString(string(data))
	if err != nil {
		return "", fmt.Errorf("no base64: %w", err)
	}
	z, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return "", fmt.Errorf("no gzip: %w", err)
	}
	text, err := io.ReadAll(io.LimitReader(z, maxRelease))
	if err != nil {
		return "", fmt.Errorf("gzip: %w", err)
	}
	return string(text), nil
}

// Release decides HELM-001.
func Release(name, namespace string, records []ReleaseRecord, preflight bool) Finding {
	if len(records) == 0 {
		return Passf("release %s is not in namespace %s", name, namespace).With("status", "absent")
	}
	last := records[len(records)-1]
	object := Object{Kind: "Secret", Namespace: namespace, Name: last.secret}
	f := Problemf("release %s, revision %d: %s", name, last.Revision, last.Status)
	switch {
	case last.Status == "deployed":
		f = Passf("release %s, revision %d: deployed", name, last.Revision)
	case strings.HasPrefix(last.Status, "pending"):
		f = Problemf("release %s, revision %d: %s; an installation was interrupted, or is running now", name, last.Revision, last.Status).About(object)
	default:
		f = f.About(object)
	}
	if preflight && f.Outcome != OK {
		f.Outcome = Warning // the installation that follows repairs it
	}
	return f.With("status", last.Status).With("revision", strconv.Itoa(last.Revision))
}

// credentialLine finds a key of a cloud-config with a value, in YAML or INI, also inside JSON.
var credentialLine = regexp.MustCompile(`(?i)(api-key|secret-key|apikey|secretkey)\s*[=:]\s*["']?[A-Za-z0-9_\-]{40,}`)

// Leaks decides HELM-004.
func Leaks(records []ReleaseRecord, secrets []string) Finding {
	if len(records) == 0 {
		return Skipf("there is no release")
	}
	var objects []Object
	var unreadable []string
	for _, r := range records {
		if r.Err != nil {
			unreadable = append(unreadable, r.secret)
			continue
		}
		found := credentialLine.MatchString(r.text)
		for _, s := range secrets {
			found = found || s != "" && strings.Contains(r.text, s)
		}
		if found {
			objects = append(objects, Object{Kind: "Secret", Name: r.secret, Message: fmt.Sprintf("revision %d holds credentials", r.Revision)})
		}
	}
	switch {
	case len(objects) > 0:
		return Problemf("%s of Helm with credentials", plural.Count(len(objects), "record")).About(objects...)
	case len(unreadable) > 0:
		return Unknownf("records of Helm that cannot be decoded: %s", strings.Join(unreadable, ", "))
	}
	return Passf("%s searched", plural.Count(len(records), "revision"))
}

// Conflicts decides HELM-002, by what is in the cluster of the objects of the charts that are installed as these releases;
// nil is what is not there.
func Conflicts(live []*unstructured.Unstructured, namespace string, releases ...string) Finding {
	var objects []Object
	there := 0
	for _, o := range live {
		if o == nil {
			continue
		}
		there++
		a := o.GetAnnotations()
		owner := "nobody"
		switch {
		case o.GetLabels()["app.kubernetes.io/managed-by"] == "Helm" && slices.Contains(releases, a["meta.helm.sh/release-name"]) && a["meta.helm.sh/release-namespace"] == namespace:
			continue
		case a["meta.helm.sh/release-name"] != "":
			owner = "Helm release " + a["meta.helm.sh/release-namespace"] + "/" + a["meta.helm.sh/release-name"]
		}
		objects = append(objects, Object{Kind: o.GetKind(), Namespace: o.GetNamespace(), Name: o.GetName(), Message: "exists and belongs to " + owner})
	}
	return Passf("%s of the chart, %d of them there as the release's", plural.Count(len(live), "object"), there).Unless(objects, "object", "%s of the chart exist without being the release's")
}

// ObjectDrift is one object of the release and how it differs from the cluster.
type ObjectDrift struct {
	Object  unstructured.Unstructured
	Absent  bool     // it is not in the cluster
	Refused string   // why the API server would not take it
	Fields  []string // differences: "path: old -> new"
}

// ReasonOf returns why the API server refused an object; "" if it did not judge the object.
func ReasonOf(err error) string {
	if apierrors.IsInvalid(err) || apierrors.IsForbidden(err) || apierrors.IsBadRequest(err) {
		return OneLine(err.Error())
	}
	return ""
}

// Drift decides HELM-003.
func Drift(revision int, drifts []ObjectDrift, namespace string) Finding {
	var out []Object
	for i := range drifts {
		d := &drifts[i]
		switch {
		case d.Absent:
			out = append(out, ObjectOf(&d.Object, namespace, "is in the release and not in the cluster"))
		case d.Refused != "":
			out = append(out, ObjectOf(&d.Object, namespace, "the API server would not take it as the release has it: %s", d.Refused))
		case len(d.Fields) > 0:
			more := ""
			if n := len(d.Fields) - maxFields; n > 0 {
				more = fmt.Sprintf("; and %s more", plural.Count(n, "field"))
				d.Fields = d.Fields[:maxFields]
			}
			out = append(out, ObjectOf(&d.Object, namespace, "the release would change %s%s", strings.Join(d.Fields, "; "), more))
		}
	}
	if len(out) > 0 {
		return Problemf("%d of %s differ from revision %d", len(out), plural.Count(len(drifts), "object"), revision).About(out...)
	}
	return Passf("%s as in revision %d", plural.Count(len(drifts), "object"), revision)
}

// maxFields is how many differing fields of one object are named.
const maxFields = 5

// clusterKinds are the kinds of a chart that are in no namespace.
var clusterKinds = []string{"ClusterRole", "ClusterRoleBinding", "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding", "PriorityClass", "Namespace"}

// NamespaceOf returns the namespace of an object of a release; "" for a cluster-wide kind.
func NamespaceOf(o *unstructured.Unstructured, release string) string {
	switch {
	case slices.Contains(clusterKinds, o.GetKind()):
		return ""
	case o.GetNamespace() != "":
		return o.GetNamespace()
	}
	return release
}

// ObjectOf names an object of a release in a finding.
func ObjectOf(o *unstructured.Unstructured, namespace, format string, args ...any) Object {
	return Object{Kind: o.GetKind(), Namespace: NamespaceOf(o, namespace), Name: o.GetName(), Message: fmt.Sprintf(format, args...)}
}
