// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package chartpkg

import (
	"bytes"
	"errors"
	"regexp"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/csccm/csccm/release/internal/notes"
)

// Annotations are added to Chart.yaml: data that Artifact Hub shows, and the digest of the controller's image.
type Annotations struct {
	// Images are the images that the chart uses, with digests.
	Images []Image
	// Changes since the previous release.
	Changes []notes.Change
	// SignKey is the PGP key of the provenance file.
	SignKey *SignKey
	// Digest is the digest of the controller's image index, as sha256:HEX. The chart pins the image to it.
	Digest string
}

// digestAnnotation is the annotation from which the chart's templates read the digest of the controller's image.
const digestAnnotation = "csccm.io/image-digest"

// Image is an image that the chart uses.
type Image struct {
	Name  string `json:"name"`
	Image string `json:"image"`
}

// SignKey identifies a PGP key.
type SignKey struct {
	Fingerprint string `json:"fingerprint"`
	URL         string `json:"url"`
}

var annotationsLine = regexp.MustCompile(`(?m)^annotations:\n`)

// annotate adds annotations to Chart.yaml and leaves the rest unchanged.
func annotate(chartYAML []byte, a Annotations) ([]byte, error) {
	added := map[string]string{}
	for key, value := range map[string]any{"images": a.Images, "changes": a.Changes, "signKey": a.SignKey} {
		text, err := yaml.Marshal(value)
		if err != nil {
			return nil, err
		}
		if s := string(bytes.TrimSpace(text)); s != "null" && s != "[]" {
			added["artifacthub.io/"+key] = string(text)
		}
	}
	if a.Digest != "" {
		added[digestAnnotation] = a.Digest
	}
	for _, change := range a.Changes {
		if change.Kind == "security" {
			added["artifacthub.io/containsSecurityUpdates"] = "true"
		}
	}
	if len(added) == 0 {
		return chartYAML, nil
	}
	at := annotationsLine.FindAllIndex(chartYAML, -1)
	if len(at) != 1 {
		return nil, errors.New("file Chart.yaml has no line annotations:, or several")
	}
	text, err := yaml.Marshal(added)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	out.Write(chartYAML[:at[0][1]])
	for line := range strings.Lines(string(text)) {
		out.WriteString("  " + line)
	}
	out.Write(chartYAML[at[0][1]:])
	return out.Bytes(), nil
}
