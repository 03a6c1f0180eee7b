// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"bytes"
	"compress/gzip"
	"context"
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

const catHelm = "Helm release"

func helmChecks() []Check {
	return []Check{
		{
			Code: "HELM-001", Category: catHelm, Title: "Release in a settled state", Severity: SeverityError, Phases: both(), Needs: []string{"K8S-001"},
			What:   "The newest revision of the Helm release is deployed, or there is none yet.",
			Why:    "A revision that is pending (an installation was killed) blocks every further one; a failed one means that the cluster runs something else than the release says.",
			Remedy: "run `csccm install` again: it repairs a pending or failed release",
			Run: func(ctx context.Context, e *Env) Finding {
				return judge(ctx, e.facts.releases, func(records []releaseRecord) Finding {
					return decideRelease(e.Release, e.Namespace, records, e.facts.phase == PhasePreflight)
				})
			},
		},
		{
			Code: "HELM-002", Category: catHelm, Title: "No object of the chart belongs to somebody else", Severity: SeverityError, Phases: []Phase{PhasePreflight}, Needs: []string{"K8S-001"},
			What:   "Objects that the chart would create either do not exist or belong to the release.",
			Why:    "Helm refuses to take over objects without its marks, after it has created others.",
			Remedy: "delete or rename the named objects, or mark them as the release's: label app.kubernetes.io/managed-by=Helm, annotations meta.helm.sh/release-name and meta.helm.sh/release-namespace",
			Run:    runConflicts,
		},
		{
			Code: "HELM-003", Category: catHelm, Title: "Cluster is as the release says", Severity: SeverityWarning, Phases: []Phase{PhaseInstalled}, Needs: []string{"K8S-001"},
			What:   "Every object of the deployed revision is in the cluster and has the fields that the release gives it, as a server-side dry run of applying it says.",
			Why:    "What somebody changed by hand is undone by the next upgrade, and what is missing does not work.",
			Remedy: "run `csccm upgrade` or `csccm install` to bring back what the release says, or put the change into the chart's values",
			Run:    runDrift,
		},
		{
			Code: "HELM-004", Category: catHelm, Title: "Release holds no credentials", Severity: SeverityError, Phases: []Phase{PhaseInstalled}, Needs: []string{"K8S-001"},
			What:   "None of the revisions that Helm keeps holds the CloudStack keys, in values or manifests.",
			Why:    "Helm stores all values and manifests of a release in Secrets, for years: keys among them outlive every rotation.",
			Remedy: "keep the keys in a Secret of your own (existingSecret), rotate them, and delete the named Secrets of old revisions",
			Run: func(ctx context.Context, e *Env) Finding {
				return judge(ctx, e.facts.releases, func(records []releaseRecord) Finding {
					return decideLeaks(records, e.secrets())
				})
			},
		},
	}
}

// releaseRecord is one revision as Helm stores it in a Secret.
type releaseRecord struct {
	secret   string
	revision int
	status   string
	// text is the decoded record: values, manifest and chart.
	text string
	err  error // why text is empty
}

// releaseContent is the part of a decoded record that checks read.
type releaseContent struct {
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

func (r *releaseRecord) content() (c releaseContent, err error) {
	if r.err != nil {
		return c, r.err
	}
	return c, json.Unmarshal([]byte(r.text), &c)
}

// releaseRecords reads Helm's Secrets, the newest revision last.
func releaseRecords(secrets []corev1.Secret) []releaseRecord {
	var out []releaseRecord
	for i := range secrets {
		s := &secrets[i]
		if s.Type != "helm.sh/release.v1" {
			continue
		}
		r := releaseRecord{secret: s.Name, status: s.Labels["status"]}
		r.revision, _ = strconv.Atoi(s.Labels["version"])
		r.text, r.err = decodeRelease(s.Data["release"])
		out = append(out, r)
	}
	slices.SortFunc(out, func(a, b releaseRecord) int { return a.revision - b.revision })
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

func decideRelease(name, namespace string, records []releaseRecord, preflight bool) Finding {
	if len(records) == 0 {
		return passf("release %s is not in namespace %s", name, namespace).With("status", "absent")
	}
	last := records[len(records)-1]
	object := Object{Kind: "Secret", Namespace: namespace, Name: last.secret}
	f := problemf("release %s, revision %d: %s", name, last.revision, last.status)
	switch {
	case last.status == "deployed":
		f = passf("release %s, revision %d: deployed", name, last.revision)
	case strings.HasPrefix(last.status, "pending"):
		f = problemf("release %s, revision %d: %s; an installation was interrupted, or is running now", name, last.revision, last.status).About(object)
	default:
		f = f.About(object)
	}
	if preflight && f.Outcome != OK {
		f.Outcome = Warning // the installation that follows repairs it
	}
	return f.With("status", last.status).With("revision", strconv.Itoa(last.revision))
}

// credentialLine finds a key of a cloud-config with a value, in YAML or INI, also inside JSON.
var credentialLine = regexp.MustCompile(`(?i)(api-key|secret-key|apikey|secretkey)\s*[=:]\s*["']?[A-Za-z0-9_\-]{40,}`)

func decideLeaks(records []releaseRecord, secrets []string) Finding {
	if len(records) == 0 {
		return skipf("there is no release")
	}
	var objects []Object
	var unreadable []string
	for _, r := range records {
		if r.err != nil {
			unreadable = append(unreadable, r.secret)
			continue
		}
		found := credentialLine.MatchString(r.text)
		for _, s := range secrets {
			found = found || s != "" && strings.Contains(r.text, s)
		}
		if found {
			objects = append(objects, Object{Kind: "Secret", Name: r.secret, Message: fmt.Sprintf("revision %d holds credentials", r.revision)})
		}
	}
	switch {
	case len(objects) > 0:
		return problemf("%s of Helm with credentials", plural.Count(len(objects), "record")).About(objects...)
	case len(unreadable) > 0:
		return unknownf("records of Helm that cannot be decoded: %s", strings.Join(unreadable, ", "))
	}
	return passf("%s searched", plural.Count(len(records), "revision"))
}

func runConflicts(ctx context.Context, e *Env) Finding {
	if e.Manifest == "" {
		return skipf("no manifest is about to be applied")
	}
	client, err := e.objects()
	if err != nil {
		return skipf("%v", err)
	}
	wanted, err := parseManifest(e.Manifest)
	if err != nil {
		return unread(&unreadError{"the manifest", err})
	}
	var there []unstructured.Unstructured
	for i := range wanted {
		live, err := client.get(ctx, &wanted[i])
		if err != nil {
			return unread(err)
		}
		if live != nil {
			there = append(there, *live)
		}
	}
	return decideConflicts(len(wanted), there, e.Release, e.Namespace)
}

func decideConflicts(wanted int, there []unstructured.Unstructured, release, namespace string) Finding {
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
		return problemf("%s of the chart exist without being the release's", plural.Count(len(objects), "object")).About(objects...)
	}
	return passf("%s of the chart, %d of them there as the release's", plural.Count(wanted, "object"), len(there))
}
