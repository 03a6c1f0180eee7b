// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package verify

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/Masterminds/semver/v3"
	"github.com/google/go-containerregistry/pkg/name"
)

// ErrVersion means that a tag refers to the image of another release.
var ErrVersion = errors.New("the image of another release")

// released returns the version in the provenance, and ErrVersion if ref is the tag of another version.
func released(ref name.Reference, evidence []Evidence) (string, error) {
	said := ""
	for _, e := range evidence {
		if e.Kind != "provenance" || e.Statement == nil {
			continue
		}
		var predicate struct {
			BuildDefinition struct {
				ExternalParameters struct {
					Version string `json:"version"`
				} `json:"externalParameters"`
			} `json:"buildDefinition"`
		}
		// Provenance of another build type has no version.
		if json.Unmarshal(e.Statement.Predicate, &predicate) == nil && predicate.BuildDefinition.ExternalParameters.Version != "" {
			said = predicate.BuildDefinition.ExternalParameters.Version
		}
	}
	tag, ok := ref.(name.Tag)
	if !ok || said == "" {
		return said, nil
	}
	// Tags cannot contain a plus sign.
	want, err := semver.StrictNewVersion(strings.TrimPrefix(strings.ReplaceAll(tag.TagStr(), "_", "+"), "v"))
	if err == nil && want.String() != said {
		return said, fmt.Errorf("%s: %w: its signed provenance says version %s", ref, ErrVersion, said)
	}
	return said, nil
}
