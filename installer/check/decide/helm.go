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

// Conflicts decides HELM-002.
func Conflicts(wanted int, there []unstructured.Unstructured, release, namespace string) Finding {
	var objects []Object
	for i := range there {
		o := &there[i]
		a := o.GetAnnotations()
		owner := "nobody"
		switch {
		case o.GetLabels()["app.kubernetes.io/managed-by"] == "Helm" && a["meta.helm.sh/release-name"] == release && a["meta.helm.sh/release-namespace"] == namespace:
			continue
		case a["meta.helm.sh/release-name"] != "":
			owner = "Helm release " + a["meta.helm.sh/release-namespace"] + "/" + a["meta.helm.sh/release-name"]
		}
		objects = append(objects, Object{Kind: o.GetKind(), Namespace: o.GetNamespace(), Name: o.GetName(), Message: "exists and belongs to " + owner})
	}
	if len(objects) > 0 {
		return Problemf("%s of the chart exist without being the release's", plural.Count(len(objects), "object")).About(objects...)
	}
	return Passf("%s of the chart, %d of them there as the release's", plural.Count(wanted, "object"), len(there))
}
